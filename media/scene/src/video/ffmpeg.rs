//! The processes that decode a film: one for each time that it is played.

use std::io::{ErrorKind, PipeReader, Read, pipe};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use nearlight_units::lock;
use nearlight_wire::SOUND_RATE;

/// Longest time that describing a file may take, including a network mount.
const DESCRIPTION_LIMIT: Duration = Duration::from_secs(10);
/// Bytes of a process's error output that are kept.
const MAX_ERROR_BYTES: u64 = 64 * 1024;
/// Characters of it that a message quotes.
const MAX_ERROR_CHARS: usize = 400;

/// How a film is decoded.
#[derive(Clone, Debug)]
pub(super) struct DecodeOptions {
    pub(super) file: PathBuf,
    pub(super) size: (u16, u16),
    pub(super) fps: u16,
    /// The film's length in seconds, if the file says it. Pictures and sound are both made this long.
    pub(super) duration: Option<f64>,
    pub(super) has_sound: bool,
}

/// What `ffprobe` says about a file.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Description {
    pub(super) duration: Option<f64>,
    pub(super) sound_tracks: usize,
}

/// Describes a file. None if that takes too long. A file that cannot be described is not decoded either, and then ffmpeg says why.
pub(super) fn describe(file: &Path) -> std::io::Result<Option<Description>> {
    let mut command = Command::new("ffprobe");
    command
        .args(["-v", "error", "-show_entries", "format=duration:stream=codec_type", "-of", "default=nw=1"])
        .arg(named(file))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn()?;
    let output = child.stdout.take();
    let (done, text) = sync_channel(1);
    std::thread::spawn(move || {
        let mut text = String::new();
        // Incomplete output is a description of less.
        let _ = output.map(|output| output.take(MAX_ERROR_BYTES).read_to_string(&mut text));
        let _ = done.send(text);
    });
    let text = text.recv_timeout(DESCRIPTION_LIMIT).ok();
    // The process has either ended already or is no longer needed.
    let _ = child.kill();
    let _ = child.wait();
    Ok(text.map(|text| read_description(&text)))
}

fn read_description(text: &str) -> Description {
    let value = |line: &str| line.strip_prefix("duration=")?.parse::<f64>().ok().filter(|duration| *duration > 0.0);
    Description {
        duration: text.lines().find_map(value),
        sound_tracks: text.lines().filter(|line| *line == "codec_type=audio").count(),
    }
}

/// Returns the file's name so that a name that starts with a dash is not read as an option, and one with a colon not as an address.
fn named(file: &Path) -> PathBuf {
    if file.is_absolute() { file.to_path_buf() } else { Path::new(".").join(file) }
}

impl DecodeOptions {
    /// Returns the number of pictures of one pass, if the film's length is known.
    pub(super) fn pictures(&self) -> Option<u64> {
        self.duration.map(|duration| (duration * f64::from(self.fps)).round() as u64)
    }

    /// Starts a process that decodes the film once.
    pub(super) fn start(&self, decoders: &Decoders) -> std::io::Result<Pass> {
        let (width, height) = self.size;
        let fps = self.fps;
        // Pictures and sound begin at 0 and end together, so that the next pass begins with both.
        let pad = if self.duration.is_some() { ",tpad=stop=-1:stop_mode=clone" } else { "" };
        let pictures = format!(
            "scale={width}:{height}:force_original_aspect_ratio=decrease,pad={width}:{height}:-1:-1,\
             fps={fps}:start_time=0{pad},format=rgba"
        );
        let length = self.duration.map(|duration| format!("{duration:.6}"));
        let length: Vec<&str> = length.iter().flat_map(|length| ["-t", length]).collect();
        let mut command = Command::new("ffmpeg");
        command.args(["-nostdin", "-hide_banner", "-loglevel", "error", "-i"]).arg(named(&self.file));
        command.args(["-map", "0:v:0"]).args(&length).args(["-vf", &pictures, "-f", "rawvideo", "pipe:1"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let sound = if self.has_sound { Some(pipe()?) } else { None };
        let sound = sound.map(|(reader, writer)| {
            let pad = if self.duration.is_some() { ",apad" } else { "" };
            let samples = format!("aresample={SOUND_RATE}:async=1:min_hard_comp=0.02:first_pts=0{pad}");
            command.args(["-map", "0:a:0"]).args(&length).args(["-af", &samples]);
            // The process writes sound to its standard input: of the three, it is the one that is free.
            command.args(["-ac", "2", "-c:a", "pcm_f32le", "-f", "f32le", "pipe:0"]).stdin(writer);
            reader
        });
        decoders.spawn(command, sound)
    }
}

/// All processes of a film, so that they can be ended together.
#[derive(Clone, Debug, Default)]
pub(super) struct Decoders(Arc<Mutex<DecodersState>>);

#[derive(Debug, Default)]
struct DecodersState {
    closed: bool,
    children: Vec<Weak<Mutex<Child>>>,
}

impl Decoders {
    fn spawn(&self, mut command: Command, sound: Option<PipeReader>) -> std::io::Result<Pass> {
        let mut state = lock(&self.0);
        if state.closed {
            return Err(ErrorKind::Interrupted.into());
        }
        let mut child = command.spawn()?;
        // The command holds this process's end of the pipe for sound, which must close with the decoder.
        drop(command);
        let (pictures, errors) = (child.stdout.take(), child.stderr.take());
        let child = Arc::new(Mutex::new(child));
        state.children.retain(|child| child.strong_count() > 0);
        state.children.push(Arc::downgrade(&child));
        let errors = std::thread::spawn(move || {
            let mut words = Vec::new();
            if let Some(mut errors) = errors {
                // Partial output is better than none. The rest must be read, or the decoder would block when the pipe is full.
                let _ = errors.by_ref().take(MAX_ERROR_BYTES).read_to_end(&mut words);
                let _ = std::io::copy(&mut errors, &mut std::io::sink());
            }
            String::from_utf8_lossy(&words).trim().chars().take(MAX_ERROR_CHARS).collect()
        });
        Ok(Pass { child, pictures, sound, errors: Some(errors) })
    }

    /// Ends all processes. No further ones are started.
    pub(super) fn close(&self) {
        let mut state = lock(&self.0);
        state.closed = true;
        for child in state.children.drain(..).filter_map(|child| child.upgrade()) {
            // The process may have ended by itself.
            let _ = lock(&child).kill();
        }
    }
}

/// A process that decodes the film once.
#[derive(Debug)]
pub(super) struct Pass {
    child: Arc<Mutex<Child>>,
    pictures: Option<ChildStdout>,
    /// Left and right interleaved, 32-bit floats.
    pub(super) sound: Option<PipeReader>,
    errors: Option<JoinHandle<String>>,
}

impl Pass {
    /// Reads the next picture. False at the end of the film.
    pub(super) fn read_picture(&mut self, picture: &mut [u8]) -> bool {
        self.pictures.as_mut().is_some_and(|pictures| pictures.read_exact(picture).is_ok())
    }

    /// Ends the process and returns what it has said about errors.
    pub(super) fn end(mut self) -> String {
        self.stop();
        self.errors.take().and_then(|errors| errors.join().ok()).unwrap_or_default()
    }

    fn stop(&mut self) {
        let mut child = lock(&self.child);
        // The process has either ended already or is no longer needed.
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracks_and_length_are_read_from_what_ffprobe_says() {
        let film = "codec_type=video\ncodec_type=audio\ncodec_type=audio\nduration=2.500000\n";
        assert_eq!(read_description(film), Description { duration: Some(2.5), sound_tracks: 2 });
        assert_eq!(read_description("codec_type=video\nduration=N/A\n"), Description::default());
    }
}
