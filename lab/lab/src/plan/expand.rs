//! Expands a plan file into its cells.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use crate::dash::{Content, ContentError};
use nearlight_flows::{Direction, law::LawSpec};
use nearlight_link::{Ecn, HopSpec, LoadedPath, PathSpec, Source as PathSource};
use nearlight_rate::PRESETS;
use nearlight_units::{Bytes, Span};
use nearlight_wifi::{Cells, ConfigError, Direction as Way, Users, load_path};
use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use toml::Spanned;

use super::file::{
    Body, Controllers, DirectionKind, FlowKind, FlowPart, MediaPart, PathPart, PlanFile, SegmentPart, SystemPart,
};
use super::setting::{MAX_DURATION, known_controller, setting};
use super::sweep::{Outline, Values, fill_in};
use super::system::system;
use super::text::{Text, or, place as place_of};
use super::values::Length;
use super::{
    Cell, Flow, Kind, MediaSession, Plan, PlanError, Published, Recovery, Route, Segment, Setting, System, Transport,
    oracle,
};
use crate::digest::Digest;

/// Largest number of cells. Guess: a plan with more has a mistake in a sweep.
const MAX_CELLS: usize = 20_000;

pub(super) fn plan(file: &Path, text: &str) -> Result<Plan, PlanError> {
    let parsed: PlanFile = parse(file, text).or_else(|error| {
        // Placeholders of sweeps may replace numbers, so that the text is valid only after they are filled in.
        let outline: Outline = parse(file, text)?;
        let first = outline.combinations().first().and_then(|all| Some(all.first()?.clone()));
        first.map_or(Err(error), |values| parse(file, &fill_in(text, &values)))
    })?;
    let place = Text { file, text };
    let seeds = or(parsed.seeds.as_ref(), 3);
    if !(1..=10_000).contains(&seeds) {
        let at = place_of(parsed.seeds.as_ref(), 0);
        return Err(place.error(at, "`seeds` is the number of runs of each cell; write a number from 1 to 10000"));
    }
    let outline: Outline = parse(file, text)?;
    outline.check(&place)?;
    let meaning = Digest::of_plan(&parse(file, text)?);
    let mut expanded = PlanBuilder { cells: Vec::new(), labels: BTreeSet::new(), digest: meaning };
    let combinations = outline.combinations();
    for (case, combinations) in combinations.into_iter().enumerate() {
        for values in combinations {
            let filled = fill_in(text, &values);
            let parsed: PlanFile = parse(file, &filled)?;
            let place = Text { file, text: &filled };
            let at = place_of(parsed.all.as_ref(), 0);
            let all = parsed.all.map(Spanned::into_inner).unwrap_or_default();
            let (at, body) = match parsed.cases.get(case) {
                Some(case) => (case.span().start, case.as_ref().clone().or(&all)),
                None => (at, all),
            };
            expanded.add_case(&place, at, &body, &values)?;
        }
    }
    let published = parsed.published.into_iter().map(|part| Published {
        source: part.source,
        labels: part.labels,
        metrics: part.metrics,
    });
    Ok(Plan {
        name: file.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        question: parsed.question,
        notes: parsed.notes,
        seeds,
        cells: expanded.cells,
        published: published.collect(),
        digest: expanded.digest.value(),
    })
}

fn parse<T: DeserializeOwned>(file: &Path, text: &str) -> Result<T, PlanError> {
    toml::from_str(text).map_err(|error| PlanError::Syntax { file: file.to_owned(), reason: error.to_string() })
}

/// Collects the cells of a plan.
struct PlanBuilder {
    cells: Vec<Cell>,
    /// Labels of the cells so far, which must differ.
    labels: BTreeSet<Values>,
    digest: Digest,
}

impl PlanBuilder {
    fn add_case(&mut self, place: &Text<'_>, at: usize, body: &Body, values: &Values) -> Result<(), PlanError> {
        let setting = Arc::new(setting(place, at, body)?);
        if let Some(written) = &body.wifi.cell {
            let cell = traffic(place, at, body, written, &setting)?;
            return self.push(place, at, Cell { labels: labels(body, values), ..cell });
        }
        let systems = systems(place, body, &setting)?;
        let Some(paths) = body.path.as_ref().filter(|paths| !paths.is_empty()) else {
            let what =
                "there is no path; add one with [[all.path]] or [[case.path]], or traffic in a cell with `wifi.cell`";
            return Err(place.error(at, what));
        };
        place.reject_duplicates("the path", paths.iter().map(|path| &path.as_ref().name))?;
        for path in paths {
            let (path_at, path) = (path.span().start, path.as_ref());
            let segments = segments(place, path_at, path)?;
            let media = media(place, at, body, &segments, &setting)?;
            let flows = flows(place, at, body, &segments, &setting)?;
            for segment in &segments {
                note_traces(&segment.forward, &mut self.digest);
                note_traces(&segment.feedback, &mut self.digest);
            }
            for (index, named) in systems.iter().enumerate() {
                let at = named.at.unwrap_or(at);
                if let Some(what) = not_over_webrtc(&setting, &named.system) {
                    let what = format!("over WebRTC there is no {what}; leave it out, or use `webtransport`");
                    return Err(place.error(at, what));
                }
                let mut labels = labels(body, values);
                labels.insert("path".to_owned(), path.name.as_ref().clone());
                labels.extend(named.labels.iter().cloned());
                let cell = Cell {
                    labels,
                    setting: Arc::clone(&setting),
                    controller: named.controller.clone(),
                    system: named.system.clone(),
                    segments: segments.clone(),
                    media: media.clone(),
                    flows: flows.clone(),
                    traffic: None,
                };
                if cell.controller == oracle::NAME
                    && let Some(why) = oracle::refusal(&cell)
                {
                    return Err(place.error(at, why));
                }
                if index == 0 {
                    check_cells(place, place_of(path.forward.as_ref(), path_at), &cell)?;
                }
                self.push(place, at, cell)?;
            }
        }
        Ok(())
    }

    fn push(&mut self, place: &Text<'_>, at: usize, cell: Cell) -> Result<(), PlanError> {
        if !self.labels.insert(cell.labels.clone()) {
            let labels = cell.labels.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>();
            let what = format!(
                "a second cell has the labels {}, and runs are distinguished only by their labels; give each case a `name` \
                 of its own, or differ by `labels`",
                labels.join(", ")
            );
            return Err(place.error(at, what));
        }
        self.cells.push(cell);
        if self.cells.len() > MAX_CELLS {
            return Err(place.error(at, format!("the plan spans more than {MAX_CELLS} cells; sweep less")));
        }
        Ok(())
    }
}

fn labels(body: &Body, values: &Values) -> Values {
    let mut labels = values.clone();
    labels.extend(body.labels.clone().unwrap_or_default());
    labels.extend(body.name.as_ref().map(|name| ("case".to_owned(), name.as_ref().clone())));
    labels
}

/// Returns a cell of the traffic model, without labels.
fn traffic(
    place: &Text<'_>,
    at: usize,
    body: &Body,
    written: &Spanned<String>,
    setting: &Arc<Setting>,
) -> Result<Cell, PlanError> {
    if body.path.is_some() || body.media.is_some() || body.flow.is_some() || body.controllers.is_some() {
        let what =
            "`wifi` is traffic of its own: leave path, media, flow and controllers out, or write wifi= into a path";
        return Err(place.error(at, what));
    }
    let traffic = body
        .wifi
        .traffic(written, setting.phases, (setting.duration, setting.warm_up))
        .map_err(|refused| place.error(refused.at, refused.what))?;
    Ok(Cell {
        system: System::plain(setting),
        labels: Values::new(),
        setting: Arc::clone(setting),
        controller: String::new(),
        segments: Vec::new(),
        media: Vec::new(),
        flows: Vec::new(),
        traffic: Some(Box::new(traffic)),
    })
}

/// Checks that every session and flow passes each Wi-Fi cell exactly once.
fn check_cells(place: &Text<'_>, at: usize, cell: &Cell) -> Result<(), PlanError> {
    let routes = cell.media.iter().map(|media| &media.route).chain(cell.flows.iter().map(|flow| &flow.route));
    let own = routes.flat_map(|route| [&route.access, &route.access_feedback]).flatten();
    let mut paths = cell.segments.iter().flat_map(|segment| [&segment.forward, &segment.feedback]).chain(own);
    if paths.all(|path| path.cells().next().is_none()) {
        return Ok(());
    }
    connect_cells(cell).map_err(|error| place.error(at, format!("no path crosses this cell: {error}")))
}

/// Connects all paths to their Wi-Fi cells, as a run does.
fn connect_cells(cell: &Cell) -> Result<(), ConfigError> {
    let mut cells = Cells::new(cell.media.len() + cell.flows.len(), 0);
    let session_of = |_| 0;
    for segment in &cell.segments {
        cells.path(&segment.forward, 0, Users::All(session_of), Way::Downlink)?;
        cells.path(&segment.feedback, 0, Users::All(session_of), Way::Uplink)?;
    }
    let routes = cell.media.iter().map(|media| &media.route).chain(cell.flows.iter().map(|flow| &flow.route));
    for (flow, route) in routes.enumerate() {
        let (there, back) = match route.direction {
            Direction::Forward => (Way::Downlink, Way::Uplink),
            Direction::Back => (Way::Uplink, Way::Downlink),
        };
        for (path, way) in [(&route.access, there), (&route.access_feedback, back)] {
            if let Some(path) = path {
                cells.path(path, 0, Users::One(flow), way)?;
            }
        }
    }
    Ok(())
}

/// Adds the contents of trace files to the digest, because a changed trace changes the plan.
fn note_traces(path: &LoadedPath, digest: &mut Digest) {
    for hop in &path.spec().hops {
        if let HopSpec::Bottleneck(bottleneck) = hop
            && let PathSource::File(file) = &bottleneck.source
        {
            digest.add(&std::fs::read(file).unwrap_or_default());
        }
    }
}

/// A controller with the rest of its system, and its labels.
struct NamedSystem {
    controller: String,
    system: System,
    labels: Vec<(String, String)>,
    /// Position in the file.
    at: Option<usize>,
}

/// Returns the systems of the case: those that it names, or its controllers by themselves. Flows without sessions have no controller.
fn systems(place: &Text<'_>, body: &Body, setting: &Setting) -> Result<Vec<NamedSystem>, PlanError> {
    if let Some(media) = body.media.as_ref().filter(|media| media.as_ref().is_empty()) {
        if body.controllers.is_some() || body.system.is_some() || body.oracle == Some(true) {
            let what = "there are no sessions (`media = []`), so there is nothing to control; leave `controllers`, `system` and \
                        `oracle` out";
            return Err(place.error(media.span().start, what));
        }
        let (controller, system) = (String::new(), System::plain(setting));
        return Ok(vec![NamedSystem { controller, system, labels: Vec::new(), at: None }]);
    }
    let plain = |name: String| NamedSystem {
        controller: name.clone(),
        system: System::plain(setting),
        labels: vec![("controller".to_owned(), name)],
        at: None,
    };
    let oracle = (body.oracle == Some(true)).then(|| plain(oracle::NAME.to_owned()));
    let Some(parts) = &body.system else {
        let named = controllers(place, body.controllers.as_ref())?;
        return Ok(named.into_iter().map(plain).chain(oracle).collect());
    };
    if parts.as_ref().is_empty() {
        let what = "`system` is empty, so that there is nothing to run; add one with [[all.system]], or leave it out for `controllers`";
        return Err(place.error(parts.span().start, what));
    }
    let one = |part: &Spanned<SystemPart>| {
        let at = part.span().start;
        let (system, labels) = system(part.as_ref()).map_err(|what| place.error(at, what))?;
        Ok(NamedSystem { controller: part.as_ref().controller.clone(), system, labels, at: Some(at) })
    };
    parts.as_ref().iter().map(one).chain(oracle.map(Ok)).collect()
}

fn controllers(place: &Text<'_>, wanted: Option<&Spanned<Controllers>>) -> Result<Vec<String>, PlanError> {
    // `fixed` never adapts, so it is not compared.
    let all = || PRESETS.iter().filter(|preset| preset.name != "fixed").map(|preset| preset.name.to_owned()).collect();
    let Some(wanted) = wanted else { return Ok(all()) };
    match wanted.as_ref() {
        Controllers::All => Ok(all()),
        Controllers::One(name) => {
            known_controller(place, wanted.span().start, name)?;
            Ok(vec![name.clone()])
        }
        Controllers::Named(names) if names.is_empty() => {
            let what = "`controllers` is empty, so that there is nothing to run; name at least one, such as \
                        [\"gcc-libwebrtc\"], or write \"all\"";
            Err(place.error(wanted.span().start, what))
        }
        Controllers::Named(names) => {
            place.reject_duplicates("the controller", names)?;
            for name in names {
                known_controller(place, name.span().start, name.as_ref())?;
            }
            Ok(names.iter().map(|name| name.as_ref().clone()).collect())
        }
    }
}

fn read_path(place: &Text<'_>, value: Option<&Spanned<toml::Value>>) -> Result<LoadedPath, PlanError> {
    let Some(value) = value else {
        return PathSpec::default().load().map_err(|error| place.error(0, error.to_string()));
    };
    let at = value.span().start;
    let mut spec = PathSpec::deserialize(value.as_ref().clone()).map_err(|error| place.error(at, error.to_string()))?;
    for hop in &mut spec.hops {
        // A relative path that does not exist is looked up in the plan's folder.
        if let HopSpec::Bottleneck(bottleneck) = hop
            && let PathSource::File(file) = &mut bottleneck.source
            && file.is_relative()
            && !file.exists()
            && let Some(beside) = place.file.parent().map(|folder| folder.join(&*file)).filter(|beside| beside.exists())
        {
            *file = beside;
        }
    }
    load_path(&spec).map_err(|error| place.error(at, error.to_string()))
}

fn segments(place: &Text<'_>, at: usize, path: &PathPart) -> Result<Vec<Segment>, PlanError> {
    let read = |value: &Option<Spanned<toml::Value>>| read_path(place, value.as_ref());
    if path.segment.is_empty() {
        let (forward, feedback) = (read(&path.forward)?, read(&path.feedback)?);
        return Ok(vec![Segment { name: path.name.as_ref().clone(), forward, feedback }]);
    }
    if let Some(value) = path.forward.as_ref().or(path.feedback.as_ref()) {
        let what =
            format!("the path `{}` has segments, so `forward` and `feedback` belong to these", path.name.as_ref());
        return Err(place.error(value.span().start, what));
    }
    place.reject_duplicates("the segment", path.segment.iter().map(|segment| &segment.name))?;
    let segment = |part: &SegmentPart| {
        Ok(Segment { name: part.name.as_ref().clone(), forward: read(&part.forward)?, feedback: read(&part.feedback)? })
    };
    let segments = path.segment.iter().map(segment).collect::<Result<Vec<_>, PlanError>>()?;
    if segments.len() > 16 {
        return Err(place.error(at, "a path has at most 16 segments"));
    }
    Ok(segments)
}

/// The parts of a route as media and flows write them.
struct RouteParts<'a> {
    direction: DirectionKind,
    through: Option<&'a Spanned<Vec<String>>>,
    access: &'a Option<Spanned<toml::Value>>,
    access_feedback: &'a Option<Spanned<toml::Value>>,
}

fn route(place: &Text<'_>, parts: &RouteParts<'_>, segments: &[Segment]) -> Result<Route, PlanError> {
    let through = match parts.through {
        None => (0..segments.len()).collect(),
        Some(names) => {
            let index = |name: &String| {
                segments.iter().position(|segment| segment.name == *name).ok_or_else(|| {
                    let known: Vec<&str> = segments.iter().map(|segment| segment.name.as_str()).collect();
                    place.error(
                        names.span().start,
                        format!("there is no segment `{name}`; there are {}", known.join(", ")),
                    )
                })
            };
            names.as_ref().iter().map(index).collect::<Result<Vec<_>, _>>()?
        }
    };
    let own =
        |value: &Option<Spanned<toml::Value>>| value.is_some().then(|| read_path(place, value.as_ref())).transpose();
    let direction = match parts.direction {
        DirectionKind::Forward => Direction::Forward,
        DirectionKind::Back => Direction::Back,
    };
    Ok(Route { direction, through, access: own(parts.access)?, access_feedback: own(parts.access_feedback)? })
}

fn during(setting: &Setting, start: Option<Length>, stop: Option<Length>) -> (Span, Span) {
    (start.map_or(Span::ZERO, |start| start.0), stop.map_or(setting.duration, |stop| stop.0.min(setting.duration)))
}

fn media(
    place: &Text<'_>,
    at: usize,
    body: &Body,
    segments: &[Segment],
    setting: &Setting,
) -> Result<Vec<MediaSession>, PlanError> {
    let at = place_of(body.media.as_ref(), at);
    let written = body.media.as_ref().map(|parts| parts.as_ref().as_slice());
    place.reject_duplicates(
        "the session",
        written.iter().copied().flatten().filter_map(|part| part.as_ref().name.as_ref()),
    )?;
    let parts: Vec<(usize, MediaPart)> = match written {
        None => vec![(at, MediaPart::default())],
        Some(parts) => parts.iter().flat_map(copies).take(65).collect(),
    };
    // An empty list of sessions leaves the path to the flows.
    let flows_alone = written.is_some_and(<[_]>::is_empty) && body.flow.is_some();
    if (parts.is_empty() && !flows_alone) || parts.len() > 64 {
        let what = "a case has from 1 to 64 media sessions; look at their `count`, or add flows for `media = []`";
        return Err(place.error(at, what));
    }
    let one = |(index, (at, part)): (usize, &(usize, MediaPart))| {
        let at = *at;
        let (start, stop) = during(setting, part.start, part.stop);
        if start >= stop {
            return Err(place.error(at, format!("media session {} ends before it starts", index + 1)));
        }
        if let Some(controller) = &part.controller {
            known_controller(place, controller.span().start, controller.as_ref())?;
        }
        let usable = |weight: &f64| *weight > 0.0 && weight.is_finite();
        if let Some(priority) = part.priority.as_ref().filter(|weight| !usable(weight.as_ref())) {
            let what = "`priority` is a session's weight beside the others': write a number above 0, such as 2.0";
            return Err(place.error(priority.span().start, what));
        }
        let parts = RouteParts {
            direction: part.direction,
            through: part.through.as_ref(),
            access: &part.access,
            access_feedback: &part.access_feedback,
        };
        Ok(MediaSession {
            name: part.name.as_ref().map_or_else(|| (index + 1).to_string(), |name| name.as_ref().clone()),
            start,
            stop,
            priority: or(part.priority.as_ref(), 1.0),
            pauses: part.pauses.iter().map(|(from, to)| (from.0, to.0)).collect(),
            controller: part.controller.as_ref().map(|name| name.as_ref().clone()),
            route: route(place, &parts, segments)?,
        })
    };
    parts.iter().enumerate().map(one).collect()
}

/// Repeats a session `count` times, with numbered names if there are several.
fn copies(part: &Spanned<MediaPart>) -> impl Iterator<Item = (usize, MediaPart)> {
    let (at, part) = (part.span().start, part.as_ref());
    let count = usize::from(part.count.unwrap_or(1));
    let numbered = move |name: &Spanned<String>, number| {
        let text = if count > 1 { format!("{} {number}", name.as_ref()) } else { name.as_ref().clone() };
        Spanned::new(name.span(), text)
    };
    (1..=count).map(move |number| {
        (at, MediaPart { name: part.name.as_ref().map(|name| numbered(name, number)), ..part.clone() })
    })
}

fn flows(
    place: &Text<'_>,
    at: usize,
    body: &Body,
    segments: &[Segment],
    setting: &Setting,
) -> Result<Vec<Flow>, PlanError> {
    let parts = body.flow.as_ref().map_or(&[][..], |parts| parts.as_ref());
    if parts.len() > 256 {
        return Err(place.error(place_of(body.flow.as_ref(), at), "a case has at most 256 competing flows"));
    }
    let one = |part: &Spanned<FlowPart>| {
        let (at, part) = (part.span().start, part.as_ref());
        let (start, stop) = during(setting, part.start, part.stop);
        let parts = RouteParts {
            direction: part.direction,
            through: part.through.as_ref(),
            access: &part.access,
            access_feedback: &part.access_feedback,
        };
        Ok(Flow { kind: kind(place, at, part)?, start, stop, route: route(place, &parts, segments)? })
    };
    parts.iter().map(one).collect()
}

fn kind(place: &Text<'_>, at: usize, part: &FlowPart) -> Result<Kind, PlanError> {
    let law = match &part.law {
        None => LawSpec::default(),
        Some(name) => {
            name.as_ref().parse::<LawSpec>().map_err(|error| place.error(name.span().start, error.to_string()))?
        }
    };
    let dash = part.ladder.is_some() || part.segment.is_some() || part.length.is_some();
    if dash && part.kind != FlowKind::Dash {
        let what = "only a flow of the kind `dash` has a `ladder`, a `segment` and a `length`";
        return Err(place.error(at, what));
    }
    Ok(match part.kind {
        FlowKind::Tcp => Kind::Tcp { law },
        FlowKind::Short => Kind::Short {
            law,
            connections: part.connections.unwrap_or(10).min(1_000),
            begin_busy: part.begin_busy.unwrap_or(0),
        },
        FlowKind::Cbr => {
            let Some(rate) = part.rate else {
                return Err(place.error(at, "a flow of the kind `cbr` needs a `rate`, such as rate = \"2mbit\""));
            };
            Kind::Cbr {
                rate: rate.0,
                packet: part.packet.map_or(Bytes::new(1_200), |size| size.0),
                on: part.on.map_or(MAX_DURATION, |on| on.0),
                off: part.off.map_or(Span::ZERO, |off| off.0),
            }
        }
        FlowKind::Dash => Kind::Dash { law, content: content(place, at, part)? },
    })
}

/// Returns the content that a player streams. Defaults: segments of 4 s, ten minutes in all.
fn content(place: &Text<'_>, at: usize, part: &FlowPart) -> Result<Content, PlanError> {
    let Some(ladder) = &part.ladder else {
        let what = "a flow of the kind `dash` needs a `ladder` of bit rates, such as ladder = [\"500kbit\", \"2mbit\"]";
        return Err(place.error(at, what));
    };
    let rates = ladder.as_ref().iter().map(|rate| rate.0).collect();
    let segment = part.segment.map_or(Span::from_secs(4), |length| length.0);
    let length = part.length.map_or(Span::from_secs(600), |length| length.0);
    Content::new(rates, segment, length).map_err(|error| {
        let at = if error == ContentError::Ladder { ladder.span().start } else { at };
        place.error(at, error.to_string())
    })
}

/// Returns the feature of a system that WebRTC lacks, for an error message.
fn not_over_webrtc(setting: &Setting, system: &System) -> Option<&'static str> {
    let reasons = [
        (setting.transport != Transport::WebRtc, None),
        (system.reliable.is_some(), Some("frames over TCP")),
        (system.recovery != Recovery::RETRANSMISSION || system.group > 0, Some("any recovery but `retransmission`")),
        (setting.ecn != Ecn::NotCapable, Some("marks in place of losses")),
    ];
    reasons.into_iter().find_map(|(applies, what)| applies.then_some(what))?
}
