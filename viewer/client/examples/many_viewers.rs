//! Many viewers of one server in one process, which receive frames but decode nothing: used to measure their cost on the server.
//!
//! `cargo run --release -p nearlight-client --example many_viewers -- LINK VIEWERS SECONDS [CODEC…]`. The viewers start one after another,
//! 250 ms apart; each takes one of the codecs, in turn, or any. The result is one JSON object; `first_frame_ms` counts from the start of
//! each viewer's connection.

use std::error::Error;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nearlight_client::{HeadlessOptions, ViewOptions, headless};
use nearlight_codec::{CodecError, CodecKind, Decoder, Decoders, Picture, PictureView, Size};
use nearlight_net::{Clock, Link};
use nearlight_units::{Span, Time};
use tokio::sync::watch;

const BETWEEN_ARRIVALS: Duration = Duration::from_millis(250);

/// Returns the same picture for every frame.
struct NoDecoder {
    clock: Clock,
    first: Arc<OnceLock<Time>>,
    picture: Picture,
}

impl Decoder for NoDecoder {
    fn name(&self) -> String {
        "none".into()
    }

    fn decode(&mut self, _: &[u8]) -> Result<Option<PictureView<'_>>, CodecError> {
        self.first.get_or_init(|| self.clock.now());
        Ok(Some(self.picture.view()))
    }
}

/// Displayed frames, lost frames, and milliseconds to the first frame.
async fn watch(link: Link, clock: Clock, length: Span, codecs: Vec<CodecKind>) -> Result<(u64, u64, f64), String> {
    let (began, first) = (clock.now(), Arc::new(OnceLock::new()));
    let seen = Arc::clone(&first);
    let decoders = Decoders::new(move |_| {
        let picture = Picture::new(Size { width: 64, height: 64 });
        Ok(Box::new(NoDecoder { clock, first: Arc::clone(&seen), picture }))
    });
    let view = ViewOptions { length: Some(length), decoders, codecs, ..ViewOptions::new(link) };
    let options = HeadlessOptions::new(view);
    let (_running, stopped) = watch::channel(false);
    let summary = headless::watch_until(options, clock, stopped).await.map_err(|error| error.to_string())?;
    let first = first.get().ok_or("no frame came")?;
    let waited = (*first - began).as_micros() as f64 / 1e3;
    Ok((summary.frames.displayed, summary.frames.lost, waited))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [link, viewers, seconds, codecs @ ..] = arguments.as_slice() else {
        return Err("needed: LINK VIEWERS SECONDS [CODEC…]".into());
    };
    let (link, viewers, length) =
        (Link::parse(link)?, viewers.parse::<usize>()?, Span::from_secs_f64(seconds.parse()?));
    let codecs = codecs.iter().map(|codec| codec.parse()).collect::<Result<Vec<CodecKind>, _>>()?;
    let clock = Clock::start();
    let mut tasks = Vec::new();
    for number in 0..viewers {
        let one = |codec: &CodecKind| vec![*codec];
        let codecs = codecs.get(number % codecs.len().max(1)).map_or_else(|| CodecKind::ALL.to_vec(), one);
        tasks.push(tokio::spawn(watch(link.clone(), clock, length, codecs)));
        tokio::time::sleep(BETWEEN_ARRIVALS).await;
    }
    let (mut displayed, mut lost, mut waited) = (Vec::new(), 0, Vec::new());
    for task in tasks {
        let (frames, missing, first) = task.await??;
        displayed.push(frames);
        lost += missing;
        waited.push(first);
    }
    displayed.sort_unstable();
    waited.sort_by(f64::total_cmp);
    let middle = viewers / 2;
    let result = serde_json::json!({
        "viewers": viewers,
        "displayed": { "min": displayed.first(), "median": displayed.get(middle) },
        "lost": lost,
        "first_frame_ms": { "median": waited.get(middle), "max": waited.last() },
    });
    println!("{result}");
    Ok(())
}
