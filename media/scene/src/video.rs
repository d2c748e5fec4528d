//! A video file as a source that paces itself, decoded by the `ffmpeg` program and looped for ever, with its sound.

mod ffmpeg;
mod sound_track;

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use nearlight_units::Time;
use nearlight_wire::SOUND_RATE;

use crate::canvas::{Canvas, check_size};
use crate::push::{FrameTimer, Watch};
use crate::{
    Application, Damage, PictureSink, PushSource, SceneError, SoundFeed, SubmittedPicture, Viewer, ViewerInput,
};
use ffmpeg::{DecodeOptions, Decoders, Description, Pass, describe};
use sound_track::{FilmSound, SoundSteps, steps_per_picture};

/// Decoded pictures that wait for their display time: enough to hide a slow one. Guess.
const QUEUED_PICTURES: usize = 3;
/// Pictures of a film with sound wait for this part of a second, if their bytes permit: decoders return sound up to a tenth of a second
/// later than the pictures that belong to it, because a frame of FLAC or Vorbis is that long.
const QUEUED_PART_OF_SECOND: usize = 4;
/// Bytes of the pictures that wait.
const MAX_QUEUED_BYTES: usize = 256 << 20;
/// Longest time that the first picture may take, including a network mount and a long seek.
const FIRST_PICTURE_LIMIT: Duration = Duration::from_secs(10);
/// Seconds before the end of a pass at which the next one is opened. Guess: opening a file takes a fraction of that.
const OPENED_BEFORE_SECONDS: u64 = 2;

/// A decoder whose pictures all viewers share. Every picture is read from the pipe once and borrowed from there.
pub struct VideoSource {
    options: DecodeOptions,
    /// What is heard, for people.
    heard: String,
    decoders: Decoders,
    /// The decoded pictures; none once the video plays.
    film: Option<DecodedPictures>,
    sound: Option<FilmSound>,
    watch: Option<Watch>,
}

/// Decoded pictures in order, and the channel on which their memory is returned.
struct DecodedPictures {
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
        let (description, heard) = listen(file).map_err(failed)?;
        let has_sound = description.sound_tracks > 0;
        let (file, size, duration) = (file.to_path_buf(), (width, height), description.duration);
        let options = DecodeOptions { file, size, fps, duration, has_sound };
        match Self::begin(options.clone(), heard) {
            Err(reason) if has_sound => {
                let silent = DecodeOptions { has_sound: false, ..options };
                let source =
                    Self::begin(silent, "without its sound, which cannot be decoded".into()).map_err(failed)?;
                tracing::warn!("{} is played without its sound, which cannot be decoded: {reason}", source.name());
                Ok(source)
            }
            begun => begun.map_err(failed),
        }
    }

    fn begin(options: DecodeOptions, heard: String) -> Result<Self, String> {
        let decoders = Decoders::default();
        let pass = options.start(&decoders).map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                "the program `ffmpeg`, which decodes video files, is missing (Debian: apt install ffmpeg)".into()
            }
            _ => format!("ffmpeg does not start: {error}"),
        })?;
        let queued = queued_pictures(&options);
        let (ready_to, ready) = sync_channel(queued);
        let (spent, spent_from) = sync_channel(queued + 2);
        for _ in 0..queued {
            // The channel has space for all of them.
            let _ = spent.try_send(Canvas::new(options.size.0, options.size.1));
        }
        let sound = options.has_sound.then(FilmSound::default);
        let (failure_to, failure) = sync_channel(1);
        let projector = Projector {
            options: options.clone(),
            decoders: decoders.clone(),
            ready: ready_to,
            spent: spent_from,
            sound: sound.clone(),
        };
        std::thread::spawn(move || {
            // Only the first message is waited for.
            let _ = failure_to.try_send(projector.run(pass));
        });
        match ready.recv_timeout(FIRST_PICTURE_LIMIT) {
            Ok(first) => {
                let film = Some(DecodedPictures { ready, spent, first });
                Ok(Self { options, heard, decoders, film, sound, watch: None })
            }
            Err(error) => {
                decoders.close();
                let words = failure.recv_timeout(FIRST_PICTURE_LIMIT).unwrap_or_default();
                Err(match (error, words.is_empty()) {
                    (RecvTimeoutError::Timeout, true) => "ffmpeg decodes nothing within ten seconds".into(),
                    (RecvTimeoutError::Disconnected, true) => "ffmpeg finds no picture in it".into(),
                    (_, false) => explain_error(&words),
                })
            }
        }
    }

    fn name(&self) -> std::path::Display<'_> {
        Path::new(self.options.file.file_name().unwrap_or(self.options.file.as_os_str())).display()
    }
}

/// Returns what a file holds, and what will be heard of it.
fn listen(file: &Path) -> Result<(Description, String), String> {
    match describe(file) {
        Ok(Some(description)) => {
            let heard = match description.sound_tracks {
                0 => "which has no sound".into(),
                1 => "with its sound".into(),
                tracks => format!("with the first of its {tracks} sound tracks"),
            };
            Ok((description, heard))
        }
        Ok(None) => Err("ffprobe does not describe it within ten seconds".into()),
        Err(error) => {
            tracing::warn!(
                "the video is played without sound: `ffprobe`, which comes with ffmpeg, does not start: {error}"
            );
            Ok((Description::default(), "without sound, because ffprobe is missing".into()))
        }
    }
}

/// Returns how many decoded pictures may wait.
fn queued_pictures(options: &DecodeOptions) -> usize {
    let (width, height) = options.size;
    let room = MAX_QUEUED_BYTES / (usize::from(width) * usize::from(height) * 4).max(1);
    let sound = if options.has_sound { usize::from(options.fps) / QUEUED_PART_OF_SECOND } else { 0 };
    sound.min(room).max(QUEUED_PICTURES)
}

/// Explains ffmpeg's errors for the two most common mistakes. Other errors are quoted.
fn explain_error(words: &str) -> String {
    if words.contains("matches no streams") {
        "there is no picture in it, only sound or text: give a file with video".into()
    } else if words.contains("Invalid data found") {
        "it is no video file, or a damaged one: ffmpeg cannot read it".into()
    } else {
        format!("ffmpeg says: {words}")
    }
}

/// Reads the film's passes one after the other.
struct Projector {
    options: DecodeOptions,
    decoders: Decoders,
    ready: SyncSender<Canvas>,
    spent: Receiver<Canvas>,
    sound: Option<FilmSound>,
}

impl Projector {
    /// Fills returned pictures until the film is closed or fails. Returns what the decoder said at last.
    fn run(self, mut pass: Pass) -> String {
        let Ok(mut canvas) = self.spent.recv() else { return String::new() };
        let lead = OPENED_BEFORE_SECONDS * u64::from(self.options.fps);
        let open_next_at = self.options.pictures().map(|pictures| pictures.saturating_sub(lead).max(1));
        let (mut before, mut reported) = (0, String::new());
        loop {
            let sound = self.read_sound(&mut pass, before);
            let (mut next, mut count) = (None, 0);
            while pass.read_picture(&mut canvas.bytes) {
                count += 1;
                if self.ready.send(canvas).is_err() {
                    return String::new();
                }
                if open_next_at == Some(count) {
                    next = self.options.start(&self.decoders).ok();
                }
                let Ok(returned) = self.spent.recv() else { return String::new() };
                canvas = returned;
            }
            if let Some(sound) = sound {
                // The process writes the last sound before it ends.
                let _ = sound.join();
            }
            let words = pass.end();
            if count == 0 {
                return words;
            }
            if !words.is_empty() && words != reported {
                tracing::warn!("ffmpeg reports errors in {}: {words}", self.options.file.display());
                reported = words;
            }
            before += count;
            pass = match next.map_or_else(|| self.options.start(&self.decoders), Ok) {
                Ok(next) => next,
                Err(error) => return error.to_string(),
            };
        }
    }

    /// Reads the sound of a pass that begins after this many pictures.
    fn read_sound(&self, pass: &mut Pass, pictures: u64) -> Option<std::thread::JoinHandle<()>> {
        let (sound, samples) = (self.sound.clone()?, pass.sound.take()?);
        let place = pictures * u64::from(SOUND_RATE) / u64::from(self.options.fps.max(1));
        Some(std::thread::spawn(move || sound.read(samples, place)))
    }
}

impl DecodedPictures {
    /// Submits each picture when it is due, with its sound. A picture that equals the previous one, as in a video with fewer pictures per
    /// second, is not submitted.
    fn play(self, mut timer: FrameTimer, mut sound: Option<SoundSteps>, steps: u64, sink: &dyn PictureSink) {
        let Self { ready, spent, first } = self;
        let (mut next, mut shown) = (Some(first), None::<Canvas>);
        let mut step = 0;
        while let Some(captured_at) = timer.wait(&|| sink.now()) {
            if step % steps == 0 {
                let Some(picture) = next.take().or_else(|| ready.recv().ok()) else {
                    let reason = "its decoder, ffmpeg, has ended; start the server again".into();
                    return sink.on_failed(SceneError::File { file: "the film".into(), reason });
                };
                if shown.as_ref() == Some(&picture) {
                    let _ = spent.try_send(picture);
                } else {
                    let pixels = picture.pixels();
                    sink.submit(&SubmittedPicture { pixels, captured_at, damage: Damage::All, views: &[] });
                    if let Some(old) = shown.replace(picture) {
                        let _ = spent.try_send(old);
                    }
                }
            }
            if let Some(sound) = &mut sound {
                sound.advance();
            }
            step += 1;
        }
    }
}

impl Application for VideoSource {
    fn describe(&self) -> String {
        let (width, height) = self.options.size;
        format!("video {} ({width}x{height}, ffmpeg), {}", self.name(), self.heard)
    }

    fn on_input(&mut self, _now: Time, _viewer: Viewer, _input: &ViewerInput) {}

    fn on_viewer_left(&mut self, _viewer: Viewer) {}
}

impl PushSource for VideoSource {
    fn start(&mut self, sink: Arc<dyn PictureSink>) -> std::io::Result<()> {
        let Some(film) = self.film.take() else { return Ok(()) };
        let fps = self.options.fps;
        let sound = self.sound.clone().map(|sound| SoundSteps::new(sound, fps));
        let steps = if sound.is_some() { steps_per_picture(fps) } else { 1 };
        let (watch, timer) = FrameTimer::new(fps * steps as u16);
        let play = move || film.play(timer, sound, steps, sink.as_ref());
        std::thread::Builder::new().name("film".into()).spawn(play)?;
        self.watch = Some(watch);
        Ok(())
    }

    fn set_watched(&mut self, watched: bool) {
        if let Some(watch) = &self.watch {
            watch.set(watched);
        }
    }

    fn sound(&mut self) -> Option<Box<dyn SoundFeed>> {
        self.sound.as_ref().map(|sound| Box::new(Arc::clone(&sound.feed)) as Box<dyn SoundFeed>)
    }
}

impl Drop for VideoSource {
    fn drop(&mut self) {
        self.decoders.close();
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;

    use super::*;

    const SIZE: (u16, u16) = (64, 48);
    const FPS: u16 = 30;

    /// Makes a film with ffmpeg's test sources.
    fn film(name: &str, arguments: &[&str]) -> PathBuf {
        let file = std::env::temp_dir().join(format!("nearlight-{}-{name}", std::process::id()));
        let command = ["-nostdin", "-loglevel", "error", "-y"];
        let made = Command::new("ffmpeg").args(command).args(arguments).arg(&file).status();
        assert!(made.expect("the program ffmpeg; apt install ffmpeg").success());
        file
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test waits for another process")]
    fn a_film_plays_its_sound_in_step_with_its_pictures_in_every_pass() {
        // The sound is shorter than the pictures, which flash where it sounds.
        let flash = "color=black:s=64x48:r=30:d=1.5,drawbox=c=white:t=fill:enable='between(t,0.5,0.7)'";
        let tone = "sine=f=1000:r=48000:d=0.9,volume='if(between(t,0.5,0.7),1,0)':eval=frame";
        let inputs = ["-f", "lavfi", "-i", flash, "-f", "lavfi", "-i", tone, "-c:v", "mpeg4", "-c:a", "flac"];
        let file = film("flashes.mkv", &inputs);
        let mut source = VideoSource::open(&file, SIZE, FPS).expect("a film");
        assert!(source.describe().ends_with("with its sound"), "{}", source.describe());
        let (film, sound) = (source.film.take().expect("pictures"), source.sound.clone().expect("sound"));
        let mut steps = SoundSteps::new(sound.clone(), FPS);
        let (mut next, mut flashes, mut tones) = (Some(film.first), Vec::new(), Vec::new());
        for number in 0..4 * 45_u64 {
            let picture = next.take().unwrap_or_else(|| film.ready.recv().expect("a picture"));
            flashes.push(picture.bytes[picture.bytes.len() / 2] > 128);
            let _ = film.spent.try_send(picture);
            // In the film, a timer leaves the decoder time to read the sound. What follows the tone is silence, which is added at the end.
            let pass = number / 45 * 45;
            let needed = (pass + (number - pass + 1).min(21)) * u64::from(SOUND_RATE) / u64::from(FPS);
            let mut waits = 0;
            while sound.end() < needed {
                std::thread::sleep(Duration::from_millis(1));
                waits += 1;
                assert!(waits < 20_000, "picture {number} has no sound: {} of {needed}", sound.end());
            }
            let mut loud = false;
            for _ in 0..steps_per_picture(FPS) {
                loud |= steps.advance().iter().any(|sample| sample.abs() > 0.05);
            }
            tones.push(loud);
        }
        let begins =
            |events: &[bool]| -> Vec<usize> { (1..events.len()).filter(|&at| events[at] && !events[at - 1]).collect() };
        assert_eq!(begins(&flashes), [15, 60, 105, 150], "every pass has all its pictures");
        let (flashes, tones) = (begins(&flashes), begins(&tones));
        let apart: Vec<_> = flashes.iter().zip(&tones).map(|(flash, tone)| flash.abs_diff(*tone)).collect();
        assert!(tones.len() == 4 && apart.iter().all(|pictures| *pictures <= 1), "{flashes:?} {tones:?}");
        let _ = std::fs::remove_file(file);
    }

    #[test]
    fn a_film_without_sound_or_with_sound_that_cannot_be_decoded_says_so() {
        let pictures = ["-f", "lavfi", "-i", "testsrc=size=64x48:rate=30:duration=0.5"];
        let file = film("silent.mkv", &[&pictures[..], &["-c:v", "mpeg4"]].concat());
        let mut source = VideoSource::open(&file, SIZE, FPS).expect("a film");
        assert!(source.sound().is_none() && source.describe().ends_with("which has no sound"), "{}", source.describe());
        let _ = std::fs::remove_file(file);

        let tone = ["-f", "lavfi", "-i", "sine=d=0.5", "-c:v", "mpeg4", "-c:a", "flac"];
        let file = film("unknown.mkv", &[&pictures[..], &tone].concat());
        let mut bytes = std::fs::read(&file).expect("the film");
        let name = bytes.windows(6).position(|window| window == b"A_FLAC").expect("the codec's name");
        bytes[name..name + 6].copy_from_slice(b"A_NONE");
        std::fs::write(&file, bytes).expect("written");
        let mut source = VideoSource::open(&file, SIZE, FPS).expect("a film");
        assert!(source.sound().is_none() && source.describe().contains("cannot be decoded"), "{}", source.describe());
        let _ = std::fs::remove_file(file);
    }
}
