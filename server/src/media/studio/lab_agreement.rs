//! Tests that the studio on its thread and the lab in virtual time make the same decisions: each moment of a session in the lab is repeated
//! in the studio.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc;

use nearlight_codec::{
    CodecError, CodecKind, EncodedPicture, Encoder, EncoderDescription, EncoderFactory, Picture, Reference,
};
use nearlight_lab::{CaptureMoment, Plan, capture_moments};
use nearlight_scene::{TestCard, Viewer};
use nearlight_session::SkipReason;
use nearlight_units::{Bitrate, FrameId};

use super::*;
use crate::session::exchange::StreamTarget;

const SIZE: Size = Size { width: 128, height: 128 };
const LONGEST: Duration = Duration::from_secs(20);

/// A plan with every reason to skip a frame but a busy encoder: a closed window, an interrupted path, a slow decoder, and a rung with a
/// lower frame rate.
const PLAN: &str = r#"
question = "?"
[all]
duration = "8s"
pacing = "burst"
feedback_every = "20ms"
[all.source]
fps = 30
minimum = "600kbit"
start = "1mbit"
maximum = "2mbit"
[[case]]
name = "window"
about = "?"
controllers = ["scream-v2"]
[[case.path]]
name = "interrupted"
forward = "rate=400kbit,queue=100ms,delay=10ms,outage=3s+2s"
feedback = "delay=10ms"
[[case]]
name = "decoder"
about = "?"
controllers = ["fixed"]
[case.client]
decode = "150ms"
[[case.path]]
name = "wide"
forward = "rate=10mbit,delay=10ms"
feedback = "delay=10ms"
[[case]]
name = "ladder"
about = "?"
[case.source]
minimum = "30kbit"
start = "500kbit"
maximum = "1mbit"
[[case.path]]
name = "narrow"
forward = "rate=150kbit,queue=40p,delay=10ms,loss=3%"
feedback = "delay=10ms"
[[case.system]]
controller = "nebula"
"#;

/// An encoder that signals when it has encoded a picture.
struct Signal(mpsc::Sender<()>);

impl Encoder for Signal {
    fn encode(&mut self, _: &Picture, _: Reference) -> Result<EncodedPicture, CodecError> {
        // If nobody listens, the script has ended.
        let _ = self.0.send(());
        Ok(EncodedPicture { bits: vec![0; 16], reference: None, distortion: None })
    }

    fn on_decoded(&mut self, _: FrameId) {}

    fn set_rate(&mut self, _: Bitrate) -> Result<(), CodecError> {
        Ok(())
    }

    fn set_size(&mut self, _: Size) -> Result<(), CodecError> {
        Ok(())
    }
}

struct Signals(Mutex<mpsc::Sender<()>>);

impl EncoderFactory for Signals {
    fn describe(&self, _: CodecKind, _: EncoderConfig) -> Result<EncoderDescription, CodecError> {
        Ok(EncoderDescription { name: "signal".into(), codec_string: "vp8".into(), keeps_references: false })
    }

    fn open(&self, _: CodecKind, _: EncoderConfig) -> Result<Box<dyn Encoder>, CodecError> {
        Ok(Box::new(Signal(self.0.lock().expect("not poisoned").clone())))
    }
}

/// A source that sets the session's target before each moment, and reads the studio's decision after it.
struct Script {
    card: TestCard,
    exchange: Arc<SessionExchange>,
    facts: VecDeque<CaptureFacts>,
    /// Whether the decision of the current moment is not known yet.
    pending: bool,
    encoded: mpsc::Receiver<()>,
    decisions: mpsc::Sender<CaptureDecision>,
}

impl Script {
    fn on_decided(&mut self) {
        let decision = if let Some(reason) = self.exchange.skipped.poll() {
            CaptureDecision::Skip(reason)
        } else {
            self.encoded.recv_timeout(LONGEST).expect("a frame that is not skipped is encoded");
            CaptureDecision::Capture
        };
        let _ = self.decisions.send(decision);
    }
}

impl Application for Script {
    fn describe(&self) -> String {
        "a script".into()
    }

    fn on_input(&mut self, _: Time, _: Viewer, _: &ViewerInput) {}

    fn on_viewer_left(&mut self, _: Viewer) {}
}

impl Source for Script {
    fn advance(&mut self, now: Time) {
        if std::mem::take(&mut self.pending) {
            self.on_decided();
        }
        if let Some(facts) = self.facts.pop_front() {
            self.exchange.stream.set_target(target(&facts));
            self.pending = true;
        } else {
            self.exchange.leave();
        }
        self.card.advance(now);
    }

    fn render(
        &mut self,
        request: &RenderRequest<'_>,
        take: &mut dyn FnMut(RenderedPicture<'_>),
    ) -> Result<(), SceneError> {
        self.card.render(request, take)
    }
}

fn target(facts: &CaptureFacts) -> StreamTarget {
    let mut target = StreamTarget { refusal: facts.refusal, ..StreamTarget::of_screen(Bitrate::from_mbps(1)) };
    target.step.frame_rate = facts.frame_rate;
    target
}

#[test]
fn the_studio_decides_as_the_lab_does() {
    let plan = Plan::parse(Path::new("test.toml"), PLAN).unwrap_or_else(|error| panic!("{error}"));
    let moments = |cell| capture_moments(cell, 1).unwrap_or_else(|error| panic!("{error}"));
    let all: Vec<Vec<CaptureMoment>> = plan.cells.iter().map(moments).collect();
    let skipped =
        |wanted| all.iter().flatten().filter(|moment| moment.decision == CaptureDecision::Skip(wanted)).count();
    let reasons = [SkipReason::PacerQueue, SkipReason::PathBlocked, SkipReason::DecoderBehind, SkipReason::FrameRate]
        .map(skipped);
    assert!(reasons.iter().all(|count| *count > 5), "{reasons:?}");
    for moments in &all {
        assert!(moments.len() > 200, "{} moments", moments.len());
        repeat(moments);
    }
}

/// Checks that the studio makes the same decision at each of these moments.
fn repeat(moments: &[CaptureMoment]) {
    let (deliveries, _delivered) = tokio::sync::mpsc::channel(moments.len() + 2);
    let (outputs, _) = tokio::sync::mpsc::channel(1);
    let first = target(&moments[0].facts);
    let exchange = SessionExchange::new(Viewer(1), CodecKind::Vp8, first, deliveries, outputs).with_stream(SIZE, 1);
    let exchange = Arc::new(exchange);
    #[expect(clippy::disallowed_methods, reason = "a test is short, and so is its queue")]
    let (signal, encoded) = mpsc::channel();
    #[expect(clippy::disallowed_methods, reason = "a test is short, and so is its queue")]
    let (decisions, decided) = mpsc::channel();
    let facts = moments.iter().map(|moment| moment.facts).collect();
    let card = TestCard::default();
    let script = Script { card, exchange: Arc::clone(&exchange), facts, pending: false, encoded, decisions };
    let options = StudioOptions {
        format: Format { size: SIZE, fps: 240, stereo: false },
        sizes: Vec::new(),
        advice: "",
        clock: Clock::start(),
        encoders: Encoders::new(Signals(Mutex::new(signal))),
        sound: None,
        room: None,
        captures: CaptureAlignment::Even,
        shared_encodes: false,
        placement: EncoderPlacement::Thread,
        metrics: Arc::new(Metrics::new()),
    };
    let studio = Studio::start(OpenedSource::OnDemand(Box::new(script)), options).expect("a thread");
    assert!(studio.add_viewer(exchange));
    for (number, CaptureMoment { facts, decision, .. }) in moments.iter().enumerate() {
        let studio = decided.recv_timeout(LONGEST).expect("the studio runs");
        assert_eq!(studio, *decision, "moment {number}: {facts:?}");
    }
    studio.finish().expect("no failure");
}
