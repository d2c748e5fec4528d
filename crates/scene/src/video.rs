//! A video file as a source that paces itself, decoded by the `ffmpeg` command line, looped for ever.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use nearlight_units::Time;

use crate::canvas::{Canvas, check_size};
use crate::push::{Beat, Watch};
use crate::{Application, Damage, PictureSink, PushSource, SceneError, SubmittedPicture, Viewer, ViewerInput};

/// Decoded pictures that wait for their display time: enough to hide a slow one.
const QUEUE: usize = 3;
/// How long the first picture may take; a network mount and a long seek included.
const FIRST_PICTURE: Duration = Duration::from_secs(10);
/// Characters of ffmpeg's last output that an error quotes.
const MAX_COMPLAINT: usize = 400;

/// One decoder whose pictures all viewers share. Every picture is written once by the pipe and lent out from there.
pub struct VideoSource {
    file: PathBuf,
    size: (u16, u16),
    fps: u16,
    child: Child,
    /// None once it plays.
    film: Option<Film>,
    watch: Option<Watch>,
}

/// Decoded pictures in order, and where their memory goes.
struct Film {
    ready: Receiver<Canvas>,
    spent: SyncSender<Canvas>,
    first: Canvas,
}

impl VideoSource {
    /// Starts decoding `file` to `width` x `height` at `fps` and waits for the first picture.
    pub fn open(file: &Path, (width, height): (u16, u16), fps: u16) -> Result<Self, SceneError> {
        check_size(width, height)?;
        let failed = |reason: String| SceneError::File { file: file.display().to_string(), reason };
        if let Err(error) = std::fs::File::open(file) {
            return Err(failed(error.to_string()));
        }
        let mut child = start(file, (width, height), fps).map_err(|error| match error.kind() {
            ErrorKind::NotFound => failed(
                "the program `ffmpeg`, which decodes video files, is missing (Debian: apt install ffmpeg)".into(),
            ),
            _ => failed(format!("ffmpeg does not start: {error}")),
        })?;
        let pipe = child.stdout.take().ok_or_else(|| failed("ffmpeg has no output".into()))?;
        let (ready_to, ready) = sync_channel(QUEUE);
        let (spent, spent_from) = sync_channel(QUEUE + 2);
        for _ in 0..QUEUE {
            // The channel has room for all of them.
            let _ = spent.try_send(Canvas::new(width, height));
        }
        std::thread::spawn(move || pump(pipe, &ready_to, &spent_from));
        match ready.recv_timeout(FIRST_PICTURE) {
            Ok(first) => {
                let (file, size) = (file.to_path_buf(), (width, height));
                if let Some(mut stderr) = child.stderr.take() {
                    // If it were not read, the decoder would block once the pipe is full.
                    std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
                }
                let film = Some(Film { ready, spent, first });
                Ok(Self { file, size, fps, child, film, watch: None })
            }
            Err(error) => {
                // It has either ended already or is no longer needed.
                let _ = child.kill();
                let words = last_words(&mut child);
                let _ = child.wait();
                Err(failed(match (error, words.is_empty()) {
                    (RecvTimeoutError::Timeout, true) => "ffmpeg decodes nothing within ten seconds".into(),
                    (RecvTimeoutError::Disconnected, true) => "ffmpeg finds no picture in it".into(),
                    (_, false) => in_plain_words(&words),
                }))
            }
        }
    }
}

fn start(file: &Path, (width, height): (u16, u16), fps: u16) -> std::io::Result<Child> {
    let fit = format!(
        "scale={width}:{height}:force_original_aspect_ratio=decrease,pad={width}:{height}:-1:-1,fps={fps},format=rgba"
    );
    // A relative name that starts with a dash must not be read as an option.
    let input = if file.is_absolute() { file.to_path_buf() } else { Path::new(".").join(file) };
    Command::new("ffmpeg")
        .args(["-nostdin", "-hide_banner", "-loglevel", "error", "-stream_loop", "-1", "-i"])
        .arg(input)
        .args(["-map", "0:v:0", "-vf", &fit, "-f", "rawvideo", "-"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}

/// Fills spent pictures from the pipe until either end goes away.
fn pump(mut pipe: ChildStdout, ready: &SyncSender<Canvas>, spent: &Receiver<Canvas>) {
    while let Ok(mut canvas) = spent.recv() {
        if pipe.read_exact(&mut canvas.bytes).is_err() || ready.send(canvas).is_err() {
            return;
        }
    }
}

fn last_words(child: &mut Child) -> String {
    let mut words = String::new();
    if let Some(stderr) = child.stderr.take() {
        // Partial output is better than none.
        let _ = stderr.take(64 * 1024).read_to_string(&mut words);
    }
    words.trim().chars().take(MAX_COMPLAINT).collect()
}

/// Explains ffmpeg's errors for the two commonest mistakes; others are returned unchanged.
fn in_plain_words(words: &str) -> String {
    if words.contains("matches no streams") {
        "there is no picture in it, only sound or text: give a file with video".into()
    } else if words.contains("Invalid data found") {
        "it is no video file, or a damaged one: ffmpeg cannot read it".into()
    } else {
        format!("ffmpeg says: {words}")
    }
}

impl Film {
    /// Submits each picture when it is due. A picture that equals the previous one, as in a film with fewer pictures a second, is not
    /// submitted.
    fn play(self, mut beat: Beat, sink: &dyn PictureSink) {
        let Self { ready, spent, first } = self;
        let (mut next, mut shown) = (Some(first), None::<Canvas>);
        while let Some(captured_at) = beat.wait(&|| sink.now()) {
            let Some(picture) = next.take().or_else(|| ready.recv().ok()) else {
                let reason = "its decoder, ffmpeg, has ended; start the server again".into();
                return sink.on_failed(SceneError::File { file: "the film".into(), reason });
            };
            if shown.as_ref() == Some(&picture) {
                let _ = spent.try_send(picture);
                continue;
            }
            let pixels = picture.pixels();
            sink.submit(&SubmittedPicture { pixels, captured_at, damage: Damage::Whole, views: &[] });
            if let Some(old) = shown.replace(picture) {
                let _ = spent.try_send(old);
            }
        }
    }
}

impl Application for VideoSource {
    fn describe(&self) -> String {
        let name = self.file.file_name().unwrap_or(self.file.as_os_str());
        let (width, height) = self.size;
        format!("video {} ({width}x{height}, ffmpeg)", name.display())
    }

    fn on_input(&mut self, _now: Time, _viewer: Viewer, _input: &ViewerInput) {}

    fn on_viewer_left(&mut self, _viewer: Viewer) {}
}

impl PushSource for VideoSource {
    fn start(&mut self, sink: Arc<dyn PictureSink>) -> std::io::Result<()> {
        let Some(film) = self.film.take() else { return Ok(()) };
        let (watch, beat) = Beat::new(self.fps);
        std::thread::Builder::new().name("film".into()).spawn(move || film.play(beat, sink.as_ref()))?;
        self.watch = Some(watch);
        Ok(())
    }

    fn set_watched(&mut self, watched: bool) {
        if let Some(watch) = &self.watch {
            watch.set(watched);
        }
    }
}

impl Drop for VideoSource {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
