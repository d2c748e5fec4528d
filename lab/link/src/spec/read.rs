//! From keys and values to a path.

use std::str::FromStr;

use nearlight_units::{Bitrate, Bytes, Span};

use super::values::{self, parts};
use super::{BottleneckSpec, HopSpec, LossSpec, Model, PathSpec, Source, SpecError};
use crate::bottleneck::Service;
use crate::capacity::{FineStructure, Rates};
use crate::jitter::JitterModel;
use crate::loss::GilbertElliott;
use crate::outage::OutageKind;
use crate::queue::{CoDel, Limit, Pie, Policy, QueueConfig, Ramp, Step};
use crate::random::Probability;
use crate::scenes::Scene;

/// A key of a path's notation, and the form of its values.
struct Key {
    name: &'static str,
    kind: Kind,
    form: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bottleneck,
    Hop,
    /// A property of a bottleneck.
    Detail,
}

const fn key(name: &'static str, kind: Kind, form: &'static str) -> Key {
    Key { name, kind, form }
}

/// The form of times without service.
const PERIODS: &str =
    "starts and lengths, 5s+2s, several with slashes, 5s+2s/9s+1s, or periodic, shorter than its period: 5s+2s@30s";

/// All keys; the only place where their forms are written down.
const KEYS: [Key; 20] = [
    key(
        "rate",
        Kind::Bottleneck,
        "a rate with bit, kbit, mbit or gbit, such as 10mbit, or steps with ascending times, such as 35mbit/10mbit@40s; not all 0",
    ),
    key("trace", Kind::Bottleneck, "the path of a trace file, Mahimahi's format or CSV with the header t_s,mbps"),
    key(
        "model",
        Kind::Bottleneck,
        "5g, wifi, city-drive, beach-stationary, urban-macro, rural-macro, indoor-walking or indoor-stationary, with a mean rate if you like (5g/60mbit), another rate every so often, drawn/2mbit/10mbit/5s, or one that wanders \
         with a mean, a deviation and a memory: log-normal/8mbit/5mbit/2s",
    ),
    key("queue", Kind::Detail, "a time (100ms), a size (64kb, 64kib), packets (100p) or unlimited"),
    key(
        "aqm",
        Kind::Detail,
        "droptail, codel, codel/5ms/100ms, pie, pie/15ms, l4s-step, l4s-step/1ms, l4s-ramp or l4s-ramp/8ms/12ms",
    ),
    key("burst", Kind::Detail, "the size of a token bucket with b, kb, mb, kib or mib, up to 100mb, such as 3kb"),
    key("bucket", Kind::Detail, "tbf or htb"),
    key("fine", Kind::Detail, "smooth, tdd, tdd-up or aggregates"),
    key("scale", Kind::Detail, "a factor from 0.01 to 1000, such as 2.5"),
    key("offset", Kind::Detail, "a time, such as 12s: where in its file a trace begins"),
    key("police", Kind::Hop, "a rate and a burst: 10mbit/30kb"),
    key("delay", Kind::Hop, "a time with ns, us, ms, s or min, such as 10ms"),
    key(
        "jitter",
        Kind::Hop,
        "the maximum additional delay (30ms), optionally with a line rate (30ms/100mbit), a measured distribution, ascending up to 100%, \
         0%:0ms/50%:2ms/100%:30ms, or a correlated one with a mean, a deviation and a correlation time: log-normal/20ms/30ms/200ms",
    ),
    key("loss", Kind::Hop, "a share (1% or 0.01), or a share and its correlation: 1%/25%"),
    key(
        "gilbert",
        Kind::Hop,
        "probabilities from good to bad and back, 1%/30%, optionally with the losses in bad and good: 1%/30%/100%/0%",
    ),
    key("reorder", Kind::Hop, "a share (1%), optionally with the time by which packets are delayed: 1%/5ms"),
    key("duplicate", Kind::Hop, "a share (1% or 0.01)"),
    key("outage", Kind::Hop, PERIODS),
    key("freeze", Kind::Hop, PERIODS),
    key("wifi", Kind::Hop, "a cell's settings with slashes in between, such as standard-11ax/mcs:7"),
];

/// Default delay of reordered packets. Guess: longer than a frame's burst, shorter than a frame.
const DEFAULT_REORDER_DELAY: Span = Span::from_millis(5);

pub(super) const MAX_HOPS: usize = 64;

/// The keys, for an error.
pub(super) fn names() -> String {
    KEYS.iter().map(|key| key.name).collect::<Vec<_>>().join(", ")
}

impl FromStr for PathSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let mut pairs: Vec<(&str, String)> = Vec::new();
        for token in text.split(',').map(str::trim).filter(|token| !token.is_empty()) {
            match (token.split_once('='), pairs.last_mut()) {
                (Some((key, value)), _) => pairs.push((key.trim(), value.trim().to_owned())),
                // `loss=1%,25%`: more of the value before it.
                (None, Some((_, value))) => *value = format!("{value},{token}"),
                (None, None) => return Err(SpecError::NotAPair { text: token.to_owned() }),
            }
        }
        PathSpec::from_pairs(pairs.iter().map(|(key, value)| (*key, value.as_str())))
    }
}

impl PathSpec {
    pub(super) fn from_pairs<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Self, SpecError> {
        let mut draft = Draft::default();
        for (name, value) in pairs {
            let key = KEYS.iter().find(|key| key.name == name);
            let key = key.ok_or_else(|| SpecError::UnknownKey { key: name.to_owned() })?;
            let refused = || SpecError::BadValue { key: key.name, value: value.to_owned(), form: key.form };
            match key.kind {
                Kind::Bottleneck => draft.on_bottleneck(source(key.name, value).ok_or_else(refused)?),
                Kind::Hop => draft.hops.push(Some(hop(key.name, value).ok_or_else(refused)?)),
                Kind::Detail => draft.on_detail(key.name, detail(key.name, value).ok_or_else(refused)?)?,
            }
            if draft.hops.len() > MAX_HOPS {
                return Err(SpecError::TooManyHops);
            }
        }
        draft.finish()
    }

    /// Parses a table that describes one hop. Its keys may be in any order.
    pub(super) fn from_table(pairs: &[(String, String)]) -> Result<Self, SpecError> {
        let known = |name: &str| KEYS.iter().find(|key| key.name == name && key.kind != Kind::Detail);
        let mut hops = pairs.iter().filter_map(|(name, _)| known(name));
        if let (Some(first), Some(second)) = (hops.next(), hops.next()) {
            return Err(SpecError::SeveralHops { first: first.name, second: second.name });
        }
        Self::from_pairs(pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())))
    }
}

/// A value that describes a bottleneck.
enum Detail {
    Queue(Limit),
    Policy(Policy),
    Burst(Bytes),
    /// Whether the value selects an HTB class.
    Borrowing(bool),
    Fine(FineStructure),
    Scale(f64),
    Offset(Span),
}

/// A bottleneck whose details are not all known yet.
#[derive(Default)]
struct Bottleneck {
    source: Option<Source>,
    /// None while the hop has not been read yet.
    place: Option<usize>,
    details: Vec<(&'static str, Detail)>,
}

/// A path that is being read.
#[derive(Default)]
struct Draft {
    /// None where a bottleneck will be.
    hops: Vec<Option<HopSpec>>,
    bottlenecks: Vec<Bottleneck>,
}

impl Draft {
    fn on_bottleneck(&mut self, source: Source) {
        let place = Some(self.hops.len());
        self.hops.push(None);
        match self.bottlenecks.last_mut() {
            // Its details preceded it.
            Some(early) if early.source.is_none() => (early.source, early.place) = (Some(source), place),
            _ => self.bottlenecks.push(Bottleneck { source: Some(source), place, details: Vec::new() }),
        }
    }

    fn on_detail(&mut self, name: &'static str, detail: Detail) -> Result<(), SpecError> {
        if self.bottlenecks.is_empty() {
            self.bottlenecks.push(Bottleneck::default());
        }
        let details = &mut self.bottlenecks.last_mut().expect("one was just made").details;
        if details.iter().any(|(known, _)| *known == name) {
            return Err(SpecError::Twice { key: name });
        }
        details.push((name, detail));
        Ok(())
    }

    fn finish(mut self) -> Result<PathSpec, SpecError> {
        for bottleneck in self.bottlenecks {
            let (Some(source), Some(place)) = (bottleneck.source, bottleneck.place) else {
                let key = bottleneck.details.first().map_or("rate", |(name, _)| *name);
                return Err(SpecError::NoBottleneck { key });
            };
            self.hops[place] = Some(HopSpec::Bottleneck(assemble(source, bottleneck.details)?));
        }
        Ok(PathSpec { hops: self.hops.into_iter().flatten().collect() })
    }
}

fn assemble(source: Source, details: Vec<(&'static str, Detail)>) -> Result<BottleneckSpec, SpecError> {
    let mut spec = BottleneckSpec::new(source);
    let (mut burst, mut borrowing) = (None, None);
    for (_, detail) in details {
        match detail {
            Detail::Queue(limit) => spec.queue.limit = limit,
            Detail::Policy(policy) => spec.queue.policy = policy,
            Detail::Burst(size) => burst = Some(size),
            Detail::Borrowing(htb) => borrowing = Some(htb),
            Detail::Fine(fine) => spec.fine = fine,
            Detail::Scale(scale) => spec.scale = scale,
            Detail::Offset(_) if !matches!(spec.source, Source::File(_)) => {
                return Err(SpecError::OffsetWithoutTrace { capacity: spec.source.to_string() });
            }
            Detail::Offset(offset) => spec.offset = Some(offset),
        }
    }
    spec.service = match (burst, borrowing) {
        (Some(_), _) if spec.fine != FineStructure::Smooth => return Err(SpecError::BurstWithSlots),
        (Some(burst), Some(true)) => Service::Borrowing { burst },
        (Some(burst), _) => Service::TokenBucket { burst },
        (None, Some(_)) => return Err(SpecError::BucketWithoutBurst),
        (None, None) => Service::Serial,
    };
    Ok(spec)
}

impl BottleneckSpec {
    /// A wire with the default queue.
    #[must_use]
    pub fn new(source: Source) -> Self {
        let (service, queue) = (Service::Serial, QueueConfig::default());
        Self { source, service, queue, fine: FineStructure::Smooth, scale: 1.0, offset: None }
    }
}

fn source(name: &str, value: &str) -> Option<Source> {
    match name {
        "rate" => Rates::steps(&values::steps(value)?, None).ok().map(Source::Rates),
        "trace" => (!value.is_empty()).then(|| Source::File(value.into())),
        _ => {
            let mut parts = parts(value);
            let model = match parts.next()? {
                "5g" => Model::FiveG,
                "wifi" => Model::WiFi,
                "drawn" => return drawn(&parts.collect::<Vec<_>>()),
                "log-normal" => return log_normal_rate(&parts.collect::<Vec<_>>()),
                name => Model::Scene(Scene::ALL.into_iter().find(|scene| scene.name() == name)?),
            };
            let mean = match parts.next() {
                Some(mean) => Some(values::rate(mean)?),
                None => None,
            };
            parts.next().is_none().then_some(Source::Model { model, mean })
        }
    }
}

fn drawn(parts: &[&str]) -> Option<Source> {
    /// Shortest step of a capacity. `fine` adds shorter ones.
    const MIN_STEP: Span = Span::from_millis(10);
    let [lowest, highest, every] = parts else { return None };
    let (lowest, highest, every) = (values::rate(lowest)?, values::rate(highest)?, values::span(every)?);
    (lowest <= highest && highest > Bitrate::ZERO && every >= MIN_STEP).then_some(Source::Drawn {
        lowest,
        highest,
        every,
    })
}

fn log_normal_rate(parts: &[&str]) -> Option<Source> {
    let [mean, deviation, memory] = parts else { return None };
    let (mean, deviation, memory) = (values::rate(mean)?, values::rate(deviation)?, values::span(memory)?);
    (mean > Bitrate::ZERO && memory > Span::ZERO).then_some(Source::LogNormal { mean, deviation, memory })
}

fn log_normal_delay(parts: &[&str]) -> Option<JitterModel> {
    let [mean, deviation, memory] = parts else { return None };
    let (mean, deviation, memory) = (values::span(mean)?, values::span(deviation)?, values::span(memory)?);
    (mean > Span::ZERO && memory > Span::ZERO).then_some(JitterModel::LogNormal { mean, deviation, memory })
}

fn detail(name: &str, value: &str) -> Option<Detail> {
    Some(match name {
        "queue" => Detail::Queue(values::limit(value)?),
        "aqm" => Detail::Policy(policy(value)?),
        "burst" => Detail::Burst(burst_size(value)?),
        "bucket" => Detail::Borrowing(match value {
            "tbf" => false,
            "htb" => true,
            _ => return None,
        }),
        "fine" => Detail::Fine(match value {
            "smooth" => FineStructure::Smooth,
            "tdd" => FineStructure::TddDown,
            "tdd-up" => FineStructure::TddUp,
            "aggregates" => FineStructure::Aggregates,
            _ => return None,
        }),
        "offset" => Detail::Offset(values::span(value)?),
        _ => Detail::Scale(value.parse().ok().filter(|scale| (0.01..=1_000.0).contains(scale))?),
    })
}

fn burst_size(value: &str) -> Option<Bytes> {
    /// Largest bucket in bytes, so that sums of work cannot overflow. Far larger than any bucket in use.
    const MAX_BUCKET: u64 = 100_000_000;
    values::bytes(value).filter(|burst| burst.get() <= MAX_BUCKET)
}

fn policy(value: &str) -> Option<Policy> {
    let mut parts = parts(value);
    let name = parts.next()?;
    let times: Vec<Span> = parts.map(values::span).collect::<Option<_>>()?;
    match (name, times.as_slice()) {
        ("droptail", []) => Some(Policy::DropTail),
        ("codel", []) => Some(Policy::CoDel(CoDel::default())),
        ("codel", &[target, interval]) => Some(Policy::CoDel(CoDel { target, interval })),
        ("pie", []) => Some(Policy::Pie(Pie::default())),
        ("pie", &[target]) => Some(Policy::Pie(Pie { target })),
        ("l4s-step", []) => Some(Policy::L4sStep(Step::default())),
        ("l4s-step", &[threshold]) => Some(Policy::L4sStep(Step { threshold })),
        ("l4s-ramp", []) => Some(Policy::L4sRamp(Ramp::default())),
        ("l4s-ramp", &[from, to]) if from <= to => Some(Policy::L4sRamp(Ramp { from, to })),
        _ => None,
    }
}

fn hop(name: &str, value: &str) -> Option<HopSpec> {
    match name {
        "delay" => values::span(value).map(HopSpec::Delay),
        "wifi" => (!value.is_empty()).then(|| HopSpec::Cell(value.replace(',', "/"))),
        "duplicate" => values::probability(value).map(HopSpec::Duplicate),
        "jitter" => jitter(value),
        "loss" => loss(value).map(HopSpec::Loss),
        "gilbert" => gilbert(value).map(|chain| HopSpec::Loss(LossSpec::Gilbert(chain))),
        "police" => {
            let (rate, burst) = value.split_once(['/', ','])?;
            Some(HopSpec::Police { rate: values::rate(rate.trim())?, burst: burst_size(burst.trim())? })
        }
        "reorder" => {
            let (chance, by) = value.split_once(['/', ',']).map_or((value, None), |(chance, by)| (chance, Some(by)));
            let by = by.map_or(Some(DEFAULT_REORDER_DELAY), |by| values::span(by.trim()))?;
            Some(HopSpec::Reorder { chance: values::probability(chance)?, by })
        }
        _ => {
            let kind = if name == "freeze" { OutageKind::Freeze } else { OutageKind::Drop };
            let windows = parts(value).map(values::window).collect::<Option<_>>()?;
            Some(HopSpec::Outage { kind, windows })
        }
    }
}

fn jitter(value: &str) -> Option<HopSpec> {
    if value.contains(':') {
        return Some(HopSpec::Jitter { model: JitterModel::Measured(values::quantiles(value)?), line: None });
    }
    let mut parts = parts(value);
    let first = parts.next()?;
    if first == "log-normal" {
        let model = log_normal_delay(&parts.collect::<Vec<_>>())?;
        return Some(HopSpec::Jitter { model, line: None });
    }
    let model = JitterModel::Normal { longest: values::span(first)? };
    let line = match parts.next() {
        Some(line) => Some(values::rate(line)?),
        None => None,
    };
    parts.next().is_none().then_some(HopSpec::Jitter { model, line })
}

fn loss(value: &str) -> Option<LossSpec> {
    let shares: Vec<Probability> = parts(value).map(values::probability).collect::<Option<_>>()?;
    match shares[..] {
        [share] => Some(LossSpec::Independent(share)),
        [share, correlation] => Some(LossSpec::Correlated { share, correlation }),
        _ => None,
    }
}

fn gilbert(value: &str) -> Option<GilbertElliott> {
    let chances: Vec<Probability> = parts(value).map(values::probability).collect::<Option<_>>()?;
    let (always, never) = (Probability::ALWAYS, Probability::NEVER);
    let (to_bad, to_good, loss_in_bad, loss_in_good) = match chances[..] {
        [to_bad, to_good] => (to_bad, to_good, always, never),
        [to_bad, to_good, bad] => (to_bad, to_good, bad, never),
        [to_bad, to_good, bad, good] => (to_bad, to_good, bad, good),
        _ => return None,
    };
    Some(GilbertElliott { to_bad, to_good, loss_in_bad, loss_in_good })
}
