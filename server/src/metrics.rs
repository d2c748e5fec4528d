//! Metrics of the server, and `/metrics` in Prometheus' formats.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard};

use nearlight_scene::Viewer;
use nearlight_session::{SenderStatistics, SharedStatistics};
use nearlight_units::{Bitrate, Span, lock};
use nearlight_wire::FrameReport;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Edges of the latency buckets in seconds, from a fifth of a frame interval at 90 Hz to half a second, which is no longer interactive.
const LATENCY_BUCKETS: [f64; 12] = [0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.055, 0.075, 0.1, 0.2, 0.5];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct SessionLabel {
    session: u32,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RefusalLabel {
    reason: Refusal,
}

/// Why a client was refused.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, EncodeLabelValue)]
pub(crate) enum Refusal {
    Token,
    TooManyAttempts,
    Full,
    Protocol,
    Codec,
    Silent,
}

/// The figures of an open session.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SessionFigures {
    pub(crate) sender: SenderStatistics,
    pub(crate) target: Bitrate,
}

/// The figures of an open session, updated five times a second.
#[derive(Clone, Copy, Debug)]
pub struct SessionStatistics {
    /// Counts since the session began.
    pub sender: SenderStatistics,
    /// Rate that the controller allows the encoder.
    pub target: Bitrate,
}

/// Reads the statistics of a running server's sessions.
#[derive(Clone)]
pub struct Observer(pub(crate) Arc<Metrics>);

impl Observer {
    /// Returns the figures of each open session, in the order of the viewers' numbers.
    #[must_use]
    pub fn sessions(&self) -> Vec<(Viewer, SessionStatistics)> {
        let reported = |(session, figures): (&u32, &SessionFigures)| {
            let SessionFigures { sender, target } = *figures;
            (Viewer(*session), SessionStatistics { sender, target })
        };
        self.0.live().iter().map(reported).collect()
    }

    /// Returns how many places are taken, by open sessions and by members of rooms.
    #[must_use]
    pub fn places_taken(&self) -> usize {
        self.clients() + self.members()
    }

    /// Returns the number of open sessions.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.0.live().len()
    }

    /// Returns the number of members of all rooms who are connected to this server.
    #[must_use]
    pub fn members(&self) -> usize {
        usize::try_from(self.0.exported.room_members.get()).unwrap_or_default()
    }

    /// Returns the rooms that have members connected to this server, and how many.
    #[must_use]
    pub fn rooms(&self) -> BTreeMap<String, u32> {
        self.0.rooms().clone()
    }
}

/// Figures of shared encodes: counts since the last update, and the current numbers of layers and viewers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SharedFigures {
    added: SharedStatistics,
    pub(crate) layers: usize,
    /// Viewers who receive a layer.
    pub(crate) sharing: usize,
}

impl SharedFigures {
    /// Adds one group's counts, given the previous and the current totals.
    pub(crate) fn on_counted(&mut self, before: SharedStatistics, now: SharedStatistics) {
        self.added.pictures += now.pictures - before.pictures;
        self.added.encodes += now.encodes - before.encodes;
        self.added.key_frames += now.key_frames - before.key_frames;
        self.added.switches += now.switches - before.switches;
    }
}

/// Counters of encodes for a source that paces itself.
#[derive(Default)]
struct EncodeCounters {
    pictures: Counter,
    shared: Counter,
    own: Counter,
    key_frames: Counter,
    switches: Counter,
    layers: Gauge,
    sharing: Gauge,
}

type Gauges = Family<SessionLabel, Gauge<f64, std::sync::atomic::AtomicU64>>;

/// A counter for each session, and the function that reads its value.
type SessionCounter = (Family<SessionLabel, Counter>, fn(&SenderStatistics) -> u64);

struct ExportedMetrics {
    registry: Registry,
    sessions_open: Gauge,
    room_members: Gauge,
    target: Gauges,
    sent_rate: Gauges,
    round_trip: Gauges,
    counters: [SessionCounter; 13],
    sessions: Counter,
    refusals: Family<RefusalLabel, Counter>,
    motion_to_photon: Histogram,
    network: Histogram,
    decode: Histogram,
    late_frames: Counter,
    encodes: EncodeCounters,
}

/// Everything the server counts.
pub(crate) struct Metrics {
    exported: ExportedMetrics,
    live: Mutex<BTreeMap<u32, SessionFigures>>,
    /// Number of members of each room that has any. It is not exported, because members choose the names of rooms.
    rooms: Mutex<BTreeMap<String, u32>>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("nearlight");
        let mut gauges = |name, help, unit| {
            let family = Gauges::default();
            registry.register_with_unit(name, help, unit, family.clone());
            family
        };
        let rate = || Unit::Other("bytes_per_second".into());
        let target = gauges("target", "Rate that the controller allows the encoder", rate());
        let sent_rate = gauges("sent", "Mean rate of media datagrams over the last second", rate());
        let round_trip = gauges("round_trip", "Smoothed round trip of media datagrams", Unit::Seconds);
        let mut counters = |name, help, read: fn(&SenderStatistics) -> u64| {
            let family = Family::<SessionLabel, Counter>::default();
            registry.register(name, help, family.clone());
            (family, read)
        };
        let counters = [
            counters("frames", "Frames encoded and sent", |sender| sender.frames),
            counters("frames_skipped", "Frames left out because pacer or encoder was behind", |sender| sender.skipped),
            counters("key_frames", "Key frames sent", |sender| sender.key_frames),
            counters("recovery_frames", "Frames predicted from an acknowledged one after a loss", |sender| {
                sender.recovery_frames
            }),
            counters("packets", "Media datagrams sent", |sender| sender.packets),
            counters("packets_lost", "Media datagrams reported missing", |sender| sender.packets_lost),
            counters("retransmissions", "Pieces of frames sent again", |sender| sender.retransmissions),
            counters("repairs", "Repairs that stand in for any lost piece", |sender| sender.repairs),
            counters("redundant_bytes", "Bytes of retransmissions and repairs", |sender| sender.redundant.get()),
            counters("malformed_datagrams", "Datagrams that no parser accepts", |sender| sender.malformed),
            counters("sent_bytes", "Bytes of media datagrams sent", |sender| sender.sent.get()),
            counters("sound_packets", "Sound datagrams sent", |sender| sender.sound_packets),
            counters("sound_bytes", "Bytes of sound datagrams sent", |sender| sender.sound.get()),
        ];
        let histogram = || Histogram::new(LATENCY_BUCKETS);
        let exported = ExportedMetrics {
            sessions_open: Gauge::default(),
            room_members: Gauge::default(),
            target,
            sent_rate,
            round_trip,
            counters,
            sessions: Counter::default(),
            refusals: Family::default(),
            motion_to_photon: histogram(),
            network: histogram(),
            decode: histogram(),
            late_frames: Counter::default(),
            encodes: EncodeCounters::default(),
            registry,
        };
        Self { exported: exported.register(), live: Mutex::default(), rooms: Mutex::default() }
    }

    fn live(&self) -> MutexGuard<'_, BTreeMap<u32, SessionFigures>> {
        lock(&self.live)
    }

    fn rooms(&self) -> MutexGuard<'_, BTreeMap<String, u32>> {
        lock(&self.rooms)
    }

    /// Counts a member of this room until what this returns is dropped.
    pub(crate) fn join_room(self: &Arc<Self>, room: &str) -> RoomMember {
        *self.rooms().entry(room.to_owned()).or_default() += 1;
        RoomMember { metrics: Arc::clone(self), room: room.to_owned() }
    }

    /// Counts a session as open until what this returns is dropped, however the session ends.
    pub(crate) fn open_session(self: &Arc<Self>, session: u32) -> OpenSession {
        self.exported.sessions.inc();
        self.live().insert(session, SessionFigures::default());
        OpenSession { metrics: Arc::clone(self), session }
    }

    pub(crate) fn on_figures(&self, session: u32, figures: SessionFigures) {
        self.live().insert(session, figures);
    }

    /// Removes the session's own series: a server that runs for months would otherwise accumulate them without bound.
    fn on_session_end(&self, session: u32) {
        self.live().remove(&session);
        let label = SessionLabel { session };
        for gauges in [&self.exported.target, &self.exported.sent_rate, &self.exported.round_trip] {
            gauges.remove(&label);
        }
        for (counters, _) in &self.exported.counters {
            counters.remove(&label);
        }
    }

    pub(crate) fn on_refusal(&self, reason: Refusal) {
        self.exported.refusals.get_or_create(&RefusalLabel { reason }).inc();
    }

    pub(crate) fn on_outcome(&self, report: &FrameReport) {
        let seconds = Span::as_secs_f64;
        if let Some(span) = report.motion_to_photon {
            self.exported.motion_to_photon.observe(seconds(span));
        }
        self.exported.network.observe(seconds(report.network + report.reassemble));
        self.exported.decode.observe(seconds(report.decode));
        if report.late {
            self.exported.late_frames.inc();
        }
    }

    /// Counts pictures that went to viewers' own encoders.
    pub(crate) fn on_own_encodes(&self, count: u64) {
        self.exported.encodes.own.inc_by(count);
    }

    pub(crate) fn on_shared(&self, figures: &SharedFigures) {
        let SharedFigures { added, layers, sharing } = *figures;
        let encodes = &self.exported.encodes;
        encodes.pictures.inc_by(added.pictures);
        encodes.shared.inc_by(added.encodes);
        encodes.key_frames.inc_by(added.key_frames);
        encodes.switches.inc_by(added.switches);
        encodes.layers.set(layers as i64);
        encodes.sharing.set(sharing as i64);
    }

    /// Sets the number of members of all rooms together.
    pub(crate) fn on_members(&self, count: usize) {
        self.exported.room_members.set(count as i64);
    }

    /// Returns the page that Prometheus fetches.
    pub(crate) fn text(&self, format: Exposition) -> String {
        let live = self.live();
        self.exported.sessions_open.set(live.len() as i64);
        for (session, figures) in live.iter() {
            let label = SessionLabel { session: *session };
            self.exported.target.get_or_create(&label).set(bytes_per_second(figures.target));
            self.exported.sent_rate.get_or_create(&label).set(bytes_per_second(figures.sender.sent_rate));
            if let Some(round_trip) = figures.sender.round_trip {
                self.exported.round_trip.get_or_create(&label).set(round_trip.as_secs_f64());
            }
            for (counters, read) in &self.exported.counters {
                let counter = counters.get_or_create(&label);
                counter.inc_by(read(&figures.sender).saturating_sub(counter.get()));
            }
        }
        let mut text = String::new();
        match encode(&mut text, &self.exported.registry) {
            Ok(()) if format == Exposition::Plain => plain(&text),
            Ok(()) => text,
            Err(error) => format!("# metrics could not be written: {error}\n"),
        }
    }
}

/// Prometheus' base unit of data is the byte.
fn bytes_per_second(rate: Bitrate) -> f64 {
    rate.as_bps() as f64 / 8.0
}

/// The format of the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exposition {
    /// `OpenMetrics` 1.0, for those who ask for it, as Prometheus does.
    OpenMetrics,
    /// Prometheus' older text format 0.0.4, which its `promtool` and most other tools read.
    Plain,
}

impl Exposition {
    /// Returns the format for a request with these `Accept` headers.
    pub(crate) fn accepted<'a>(mut accepted: impl Iterator<Item = &'a str>) -> Self {
        if accepted.any(|types| types.contains("application/openmetrics-text")) {
            Self::OpenMetrics
        } else {
            Self::Plain
        }
    }

    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Plain => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Converts `OpenMetrics` to Prometheus' text format, where a counter's family has the name of its samples, and units and the end are not marked.
fn plain(open: &str) -> String {
    let counter = |line: &'_ str| line.strip_prefix("# TYPE ")?.strip_suffix(" counter").map(str::to_owned);
    let counters: BTreeSet<String> = open.lines().filter_map(counter).collect();
    let mut text = String::with_capacity(open.len());
    for line in open.lines().filter(|line| !line.starts_with("# UNIT ") && *line != "# EOF") {
        let described = line.strip_prefix("# ").and_then(|line| line.split_once(' '));
        match described.and_then(|(word, rest)| Some((word, rest.split_once(' ')?))) {
            Some((word, (name, rest))) if counters.contains(name) => {
                let _ = writeln!(text, "# {word} {name}_total {rest}");
            }
            _ => {
                let _ = writeln!(text, "{line}");
            }
        }
    }
    text
}

/// A session's series.
pub(crate) struct OpenSession {
    metrics: Arc<Metrics>,
    session: u32,
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        self.metrics.on_session_end(self.session);
    }
}

/// A member's part of its room's count.
pub(crate) struct RoomMember {
    metrics: Arc<Metrics>,
    room: String,
}

impl Drop for RoomMember {
    fn drop(&mut self) {
        let mut rooms = self.metrics.rooms();
        if let Some(count) = rooms.get_mut(&self.room) {
            *count -= 1;
            if *count == 0 {
                rooms.remove(&self.room);
            }
        }
    }
}

impl ExportedMetrics {
    fn register(mut self) -> Self {
        let registry = &mut self.registry;
        registry.register("sessions_open", "Sessions that are open now", self.sessions_open.clone());
        registry.register("room_members", "Members of all rooms", self.room_members.clone());
        registry.register("sessions", "Sessions that were opened", self.sessions.clone());
        registry.register("refusals", "Clients that were turned away", self.refusals.clone());
        registry.register("frames_late", "Frames displayed after their deadline", self.late_frames.clone());
        let EncodeCounters { pictures, shared, own, key_frames, switches, layers, sharing } = &self.encodes;
        registry.register("shared_pictures", "Pictures that were coded for several viewers", pictures.clone());
        registry.register("shared_encodes", "Frames coded for them, in all layers", shared.clone());
        registry.register("shared_key_frames", "Key frames among them", key_frames.clone());
        registry.register(
            "own_encodes",
            "Pictures of a source that paces itself that went to a viewer's own encoder",
            own.clone(),
        );
        registry.register("layer_switches", "Viewers that went from one layer to another", switches.clone());
        registry.register("layers", "Layers that are coded now", layers.clone());
        registry.register("layer_viewers", "Viewers that get a layer now", sharing.clone());
        let mut latency = |name, help, histogram: &Histogram| {
            registry.register_with_unit(name, help, Unit::Seconds, histogram.clone());
        };
        latency(
            "motion_to_photon",
            "Of displayed frames: from the newest input that a frame is the first to show to its display",
            &self.motion_to_photon,
        );
        latency("network", "From the last packet sent to the frame whole", &self.network);
        latency("decode", "Decoding at the client", &self.decode);
        self
    }
}

#[cfg(test)]
mod tests {
    use nearlight_units::FrameId;

    use super::*;

    #[test]
    fn figures_appear_and_go_with_their_session() {
        let metrics = Arc::new(Metrics::new());
        let session = metrics.open_session(7);
        let sender = SenderStatistics { frames: 30, ..SenderStatistics::default() };
        metrics.on_figures(7, SessionFigures { sender, target: Bitrate::from_mbps(8) });
        metrics.on_refusal(Refusal::Token);
        metrics.on_outcome(&FrameReport {
            frame: FrameId(1),
            network: Span::from_millis(1),
            reassemble: Span::ZERO,
            decode: Span::from_millis(2),
            present: Span::ZERO,
            motion_to_photon: Some(Span::from_millis(41)),
            late: true,
        });
        let text = metrics.text(Exposition::OpenMetrics);
        for line in [
            "nearlight_sessions_open 1",
            "nearlight_frames_total{session=\"7\"} 30",
            "nearlight_target_bytes_per_second{session=\"7\"} 1000000.0",
            "nearlight_refusals_total{reason=\"Token\"} 1",
            "nearlight_motion_to_photon_seconds_count 1",
            "nearlight_frames_late_total 1",
        ] {
            assert!(text.contains(line), "`{line}` is missing in\n{text}");
        }
        drop(session);
        assert!(!metrics.text(Exposition::Plain).contains("session=\"7\""));
    }

    /// The rules that `promtool check metrics` has for names and help texts.
    #[test]
    fn names_and_help_texts_follow_prometheus_rules() {
        let metrics = Arc::new(Metrics::new());
        let _session = metrics.open_session(7);
        metrics.on_refusal(Refusal::Token);
        let open = metrics.text(Exposition::OpenMetrics);
        let text = metrics.text(Exposition::Plain);
        assert!(
            open.ends_with("# EOF\n")
                && open.contains("# UNIT ")
                && open.contains("# TYPE nearlight_sessions counter\n")
        );
        assert!(!text.contains("# EOF") && !text.contains("# UNIT"), "{text}");
        let of = |mark: &str| -> BTreeMap<String, String> {
            let lines = text.lines().filter_map(|line| line.strip_prefix(mark)?.split_once(' '));
            lines.map(|(name, rest)| (name.to_owned(), rest.to_owned())).collect()
        };
        let (types, helps) = (of("# TYPE "), of("# HELP "));
        assert!(types.len() > 25 && types.keys().eq(helps.keys()), "{types:?} {helps:?}");
        for (name, kind) in &types {
            let help = &helps[name];
            assert!(help.ends_with('.') && !help.ends_with(".."), "{name}: {help}");
            assert_eq!(name.ends_with("_total"), kind == "counter", "{name} is a {kind}");
            let parts: Vec<&str> = name.split('_').collect();
            assert_eq!(parts[0], "nearlight");
            let has = |words: &[&str]| words.iter().any(|word| parts.contains(word));
            // Base units are seconds and bytes; the type is not part of the name.
            assert!(
                !has(&["bits", "kilobytes", "milliseconds", "ms", "microseconds", "us", "minutes", "percent"]),
                "{name}"
            );
            assert!(!has(&["gauge", "counter", "histogram", "summary", "count", "sum", "bucket"]), "{name}");
        }
        for sample in text.lines().filter(|line| !line.starts_with('#')) {
            let name = sample.split(['{', ' ']).next().unwrap_or_default();
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
            assert!(types.contains_key(family), "{sample} belongs to no family");
        }
    }

    #[test]
    fn figures_are_written_in_the_format_that_is_asked_for() {
        // The header of Prometheus 3.
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
        assert_eq!(Exposition::accepted([prometheus].into_iter()), Exposition::OpenMetrics);
        assert_eq!(Exposition::accepted(["*/*"].into_iter()), Exposition::Plain);
        assert_eq!(Exposition::accepted(std::iter::empty()), Exposition::Plain);
    }

    #[test]
    fn rooms_are_counted_while_they_have_members() {
        let metrics = Arc::new(Metrics::new());
        let observer = Observer(Arc::clone(&metrics));
        let members = ["lab", "lab", "main"].map(|room| metrics.join_room(room));
        assert_eq!(observer.rooms(), [("lab".into(), 2), ("main".into(), 1)].into());
        drop(members);
        assert!(observer.rooms().is_empty());
    }

    #[test]
    fn a_session_whose_task_panics_leaves_no_figures() {
        let metrics = Arc::new(Metrics::new());
        let of_task = Arc::clone(&metrics);
        let task = std::thread::spawn(move || {
            let _open = of_task.open_session(8);
            of_task.on_figures(8, SessionFigures::default());
            panic!("as a library would");
        });
        assert!(task.join().is_err());
        let text = metrics.text(Exposition::Plain);
        assert!(text.contains("nearlight_sessions_open 0") && !text.contains("session=\"8\""), "{text}");
    }
}
