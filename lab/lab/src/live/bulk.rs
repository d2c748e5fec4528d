//! A bulk transfer of the kernel's TCP over a real path, recorded from its receiver's counts, and the same transfer in virtual time.

use nearlight_flows::Direction;
use nearlight_flows::law::{LawSpec, LossResponse};
use nearlight_units::{Bytes, Span, Time};

use super::{CumulativeCount, LiveLink, LiveNote, sample_capacities};
use crate::plan::{Cell, Flow, Kind};
use crate::record::RunRecord;

/// The label that distinguishes live transfers from those in virtual time, and its values.
pub(crate) const TIME_LABEL: &str = "time";
pub(crate) const IN_REAL_TIME: &str = "real";
pub(crate) const IN_VIRTUAL_TIME: &str = "virtual";

/// Returns a transfer once for real time and once for virtual time, which costs almost nothing. Sessions are returned as they are.
pub(crate) fn with_virtual_time(cell: &Cell) -> Vec<Cell> {
    if law_of(cell).is_none() {
        return vec![cell.clone()];
    }
    let labelled = |time: &str| {
        let mut cell = cell.clone();
        cell.labels.insert(TIME_LABEL.to_owned(), time.to_owned());
        cell
    };
    vec![labelled(IN_REAL_TIME), labelled(IN_VIRTUAL_TIME)]
}

/// Everything recorded about a live transfer.
#[derive(Clone, Debug)]
pub struct LiveBulk<'a> {
    pub cell: &'a Cell,
    pub seed: u64,
    /// Bytes received by each time, on the path's clock.
    pub received: Vec<(Time, u64)>,
    pub link: LiveLink,
    pub note: LiveNote,
}

/// Returns the congestion control law of a cell that is a single bulk transfer.
#[must_use]
pub fn law_of(cell: &Cell) -> Option<LawSpec> {
    match (&cell.media[..], &cell.flows[..]) {
        ([], [Flow { kind: Kind::Tcp { law }, .. }]) => Some(*law),
        _ => None,
    }
}

/// Returns the written law of a transfer whose law no kernel has, neither Linux nor what is loaded into it.
#[must_use]
pub fn without_kernel(cell: &Cell) -> Option<String> {
    let law = law_of(cell)?;
    let known = match law {
        LawSpec::Hera(hera) => hera.on_loss == LossResponse::Ignore,
        law => matches!(law, LawSpec::Reno | LawSpec::Cubic | LawSpec::Bbr),
    };
    (!known).then(|| law.to_string())
}

/// Returns the reason why a cell without sessions cannot be run over a real path. None if it can.
pub(super) fn refusal(cell: &Cell) -> Option<&'static str> {
    let [flow] = &cell.flows[..] else {
        return Some("it has several flows; live there is one transfer, or one session");
    };
    if law_of(cell).is_none() {
        return Some("its flow is not a bulk transfer, which is all that runs live without a session");
    }
    let route = &flow.route;
    let mut paths = cell.segments.iter().flat_map(|segment| [&segment.forward, &segment.feedback]);
    let reasons = [
        (paths.any(|path| path.cells().next().is_some()), "its path crosses a Wi-Fi cell"),
        (
            flow.start != Span::ZERO || flow.stop < cell.setting.duration,
            "its flow starts later or stops earlier; live, flows last for the whole run",
        ),
        (
            route.direction != Direction::Forward,
            "its flow is in the reverse direction; live, flows go from the server to the client",
        ),
        (route.access.is_some() || route.access_feedback.is_some(), "its flow has hops of its own beside the shared"),
        (route.through.len() != cell.segments.len(), "its flow takes only some of the path's segments"),
    ];
    reasons.into_iter().find_map(|(applies, reason)| applies.then_some(reason))
}

/// Returns the record of a live transfer.
#[must_use]
pub fn record_bulk(live: &LiveBulk<'_>) -> RunRecord {
    let setting = &live.cell.setting;
    let (from, to) = (Time::ZERO + setting.warm_up, Time::ZERO + setting.duration);
    let mut record = RunRecord::new(live.cell, live.seed);
    record.live = Some(live.note.clone());
    record.dropped.clone_from(&live.link.dropped);
    let mut curve = CumulativeCount::default();
    curve.add(Time::ZERO, 0);
    live.received.iter().for_each(|(at, sum)| curve.add(*at, *sum));
    if let Some(flow) = record.rivals.first_mut() {
        flow.delivered = Bytes::new(curve.between(from, to) as u64).over(to - from).as_bps() / 1_000;
        flow.delay = live.link.one_way_delay.clone();
        let mut at = Time::ZERO + setting.sample;
        while at <= to {
            flow.on_sample(Bytes::new(curve.at(at) as u64), setting.sample);
            at += setting.sample;
        }
    }
    sample_capacities(&mut record, live.cell, live.seed);
    record
}
