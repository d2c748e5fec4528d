//! From a plan's file to its cells.

use std::path::Path;
use std::sync::Arc;

use nearlight_codec::{CodecKind, Size};
use nearlight_fec::policy::new_policy;
use nearlight_flows::{Direction, law::LAWS};
use nearlight_link::{Ecn, HopSpec, LoadedPath, PathSpec, Random, Source as PathSource};
use nearlight_pace::Mode;
use nearlight_rate::{Bounds, PRESETS, Preset};
use nearlight_units::{Bitrate, Bytes, Span};
use nearlight_wifi::load_path;
use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use toml::Spanned;

use super::file::{
    Body, ContentKind, Controllers, DirectionKind, EncoderKind, FlowKind, FlowPart, MediaPart, PathPart, PlanFile,
    SourcePart, SystemPart,
};
use super::sweep::{Outline, Values, fill_in};
use super::system::{recovery, system};
use super::values::Length;
use super::{
    Cell, Client, Content, Encoder, Flow, Kind, Media, NO_FEC, Plan, PlanError, Published, Recovery, Route, Segment,
    Setting, Source, System, Transport,
};
use crate::digest::Digest;
use crate::encoder::ModelOptions;
use crate::world::Links;

/// More cells than this are a slip.
const MOST_CELLS: usize = 20_000;
/// A run is at most this long: a day.
const LONGEST: Span = Span::from_secs(86_400);

/// Where something in the file is, and how to say what is wrong with it.
struct Text<'a> {
    file: &'a Path,
    text: &'a str,
}

impl Text<'_> {
    fn error(&self, at: usize, what: impl Into<String>) -> PlanError {
        let line = self.text[..at.min(self.text.len())].matches('\n').count() + 1;
        PlanError::Value { file: self.file.to_owned(), line, what: what.into() }
    }
}

pub(super) fn plan(file: &Path, text: &str) -> Result<Plan, PlanError> {
    let parsed: PlanFile = parse(file, text).or_else(|error| {
        // Names of sweeps may stand where only a number can, so that the text is whole only with values in it.
        let outline: Outline = parse(file, text)?;
        let first = outline.combinations().ok().and_then(|all| Some(all.first()?.first()?.clone()));
        first.map_or(Err(error), |values| parse(file, &fill_in(text, &values)))
    })?;
    let place = Text { file, text };
    let mut digest = Digest::of(text.as_bytes());
    let mut cells = Vec::new();
    if !(1..=10_000).contains(&parsed.seeds) {
        return Err(place.error(0, "`seeds` is the number of runs of each cell; write a number from 1 to 10000"));
    }
    let outline: Outline = parse(file, text)?;
    let combinations = outline
        .combinations()
        .map_err(|name| place.error(text.find("values").unwrap_or(0), format!("the sweep `{name}` has no values")))?;
    for (case, combinations) in combinations.into_iter().enumerate() {
        for values in combinations {
            let filled = fill_in(text, &values);
            let parsed: PlanFile = parse(file, &filled)?;
            let place = Text { file, text: &filled };
            let (at, body) = match parsed.cases.get(case) {
                Some(case) => (case.span().start, case.as_ref().clone().or(&parsed.all)),
                None => (0, parsed.all),
            };
            expand(&place, at, &body, &values, (&mut cells, &mut digest))?;
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
        seeds: parsed.seeds,
        cells,
        published: published.collect(),
        digest: digest.value(),
    })
}

fn parse<T: DeserializeOwned>(file: &Path, text: &str) -> Result<T, PlanError> {
    toml::from_str(text).map_err(|error| PlanError::Syntax { file: file.to_owned(), reason: error.to_string() })
}

fn expand(
    place: &Text<'_>,
    at: usize,
    body: &Body,
    values: &Values,
    (cells, digest): (&mut Vec<Cell>, &mut Digest),
) -> Result<(), PlanError> {
    let setting = Arc::new(setting(place, at, body)?);
    if let Some(written) = &body.wifi.cell {
        let cell = traffic(place, at, body, written, &setting)?;
        return push(place, at, cells, Cell { labels: labels(body, values), ..cell });
    }
    let systems = systems(place, body, &setting)?;
    let Some(paths) = body.path.as_ref().filter(|paths| !paths.is_empty()) else {
        let what =
            "there is no path; add one with [[all.path]] or [[case.path]], or traffic in a cell with `wifi.cell`";
        return Err(place.error(at, what));
    };
    for path in paths {
        let segments = segments(place, at, path)?;
        let media = media(place, at, body, &segments, &setting)?;
        let flows = flows(place, at, body, &segments, &setting)?;
        for segment in &segments {
            note_traces(&segment.forward, digest);
            note_traces(&segment.feedback, digest);
        }
        for (index, (controller, system, own_labels)) in systems.iter().enumerate() {
            if let Some(what) = not_over_webrtc(&setting, system) {
                return Err(
                    place.error(at, format!("over WebRTC there is no {what}; leave it out, or use `webtransport`"))
                );
            }
            let mut labels = labels(body, values);
            labels.insert("path".to_owned(), path.name.clone());
            labels.extend(own_labels.iter().cloned());
            let cell = Cell {
                labels,
                setting: Arc::clone(&setting),
                controller: controller.clone(),
                system: system.clone(),
                segments: segments.clone(),
                media: media.clone(),
                flows: flows.clone(),
                traffic: None,
            };
            if index == 0 {
                check_cells(place, at, &cell)?;
            }
            push(place, at, cells, cell)?;
        }
    }
    Ok(())
}

fn labels(body: &Body, values: &Values) -> Values {
    let mut labels = values.clone();
    labels.extend(body.labels.clone().unwrap_or_default());
    labels.extend(body.name.clone().map(|name| ("case".to_owned(), name)));
    labels
}

/// A cell of the traffic model, still without labels.
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

fn push(place: &Text<'_>, at: usize, cells: &mut Vec<Cell>, cell: Cell) -> Result<(), PlanError> {
    cells.push(cell);
    if cells.len() > MOST_CELLS {
        return Err(place.error(at, format!("the plan spans more than {MOST_CELLS} cells; sweep less")));
    }
    Ok(())
}

/// Wi-Fi cells hold all sessions and flows, and each passes each of them once.
fn check_cells(place: &Text<'_>, at: usize, cell: &Cell) -> Result<(), PlanError> {
    let routes = cell.media.iter().map(|media| &media.route).chain(cell.flows.iter().map(|flow| &flow.route));
    let own = routes.flat_map(|route| [&route.access, &route.access_feedback]).flatten();
    let mut paths = cell.segments.iter().flat_map(|segment| [&segment.forward, &segment.feedback]).chain(own);
    if paths.all(|path| path.cells().next().is_none()) {
        return Ok(());
    }
    let links = Links::new(cell, 0, &mut Random::new(0));
    links.map(drop).map_err(|error| place.error(at, format!("no path leads through this cell: {error}")))
}

/// A trace that changed makes another plan of it.
fn note_traces(path: &LoadedPath, digest: &mut Digest) {
    for hop in &path.spec().hops {
        if let HopSpec::Bottleneck(bottleneck) = hop
            && let PathSource::File(file) = &bottleneck.source
        {
            digest.add(&std::fs::read(file).unwrap_or_default());
        }
    }
}

/// A controller, what belongs to it, and its labels.
type Named = (String, System, Vec<(String, String)>);

/// Each system of the case: those that it names, or its controllers as they are.
fn systems(place: &Text<'_>, body: &Body, setting: &Setting) -> Result<Vec<Named>, PlanError> {
    let Some(parts) = &body.system else {
        let plain = |name: String| (name.clone(), System::plain(setting), vec![("controller".to_owned(), name)]);
        return Ok(controllers(place, body.controllers.as_ref())?.into_iter().map(plain).collect());
    };
    let one = |part: &SystemPart| {
        let (system, labels) = system(part).map_err(|what| place.error(parts.span().start, what))?;
        Ok((part.controller.clone(), system, labels))
    };
    parts.as_ref().iter().map(one).collect()
}

fn controllers(place: &Text<'_>, wanted: Option<&Spanned<Controllers>>) -> Result<Vec<String>, PlanError> {
    // What never adapts is no rate controller to compare.
    let all = || PRESETS.iter().filter(|preset| preset.name != "fixed").map(|preset| preset.name.to_owned()).collect();
    let Some(wanted) = wanted else { return Ok(all()) };
    match wanted.as_ref() {
        Controllers::All => Ok(all()),
        Controllers::Named(names) => {
            for name in names {
                known_controller(place, wanted.span().start, name)?;
            }
            Ok(names.clone())
        }
    }
}

fn known_controller(place: &Text<'_>, at: usize, name: &str) -> Result<(), PlanError> {
    Preset::named(name).map(|_| ()).map_err(|error| place.error(at, error.to_string()))
}

fn read_path(place: &Text<'_>, value: Option<&Spanned<toml::Value>>) -> Result<LoadedPath, PlanError> {
    let Some(value) = value else {
        return PathSpec::default().load().map_err(|error| place.error(0, error.to_string()));
    };
    let at = value.span().start;
    let mut spec = PathSpec::deserialize(value.as_ref().clone()).map_err(|error| place.error(at, error.to_string()))?;
    for hop in &mut spec.hops {
        // A relative path means one beside the plan's own folder's parent, where plans are run from; else as it is.
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
        return Ok(vec![Segment { name: path.name.clone(), forward, feedback }]);
    }
    if let Some(value) = path.forward.as_ref().or(path.feedback.as_ref()) {
        let what = format!("the path `{}` has segments, so `forward` and `feedback` belong to these", path.name);
        return Err(place.error(value.span().start, what));
    }
    let segment = |part: &super::file::SegmentPart| {
        Ok(Segment { name: part.name.clone(), forward: read(&part.forward)?, feedback: read(&part.feedback)? })
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
) -> Result<Vec<Media>, PlanError> {
    let alone = [MediaPart::default()];
    let parts = body.media.as_deref().unwrap_or(&alone);
    let parts: Vec<MediaPart> = parts.iter().flat_map(copies).take(65).collect();
    if parts.is_empty() || parts.len() > 64 {
        return Err(place.error(at, "a case has from 1 to 64 media sessions; look at their `count`"));
    }
    let one = |(index, part): (usize, &MediaPart)| {
        let (start, stop) = during(setting, part.start, part.stop);
        if start >= stop {
            return Err(place.error(at, format!("media session {} ends before it starts", index + 1)));
        }
        if let Some(controller) = &part.controller {
            known_controller(place, controller.span().start, controller.as_ref())?;
        }
        let parts = RouteParts {
            direction: part.direction,
            through: part.through.as_ref(),
            access: &part.access,
            access_feedback: &part.access_feedback,
        };
        Ok(Media {
            name: part.name.clone().unwrap_or_else(|| (index + 1).to_string()),
            start,
            stop,
            priority: part.priority.filter(|weight| *weight > 0.0).unwrap_or(1.0),
            pauses: part.pauses.iter().map(|(from, to)| (from.0, to.0)).collect(),
            controller: part.controller.as_ref().map(|name| name.as_ref().clone()),
            route: route(place, &parts, segments)?,
        })
    };
    parts.iter().enumerate().map(one).collect()
}

/// `count` sessions that are alike; their names have numbers where there are several.
fn copies(part: &MediaPart) -> impl Iterator<Item = MediaPart> {
    let count = usize::from(part.count.unwrap_or(1));
    (1..=count).map(move |number| MediaPart {
        name: part.name.as_ref().map(|name| if count > 1 { format!("{name} {number}") } else { name.clone() }),
        ..part.clone()
    })
}

fn flows(
    place: &Text<'_>,
    at: usize,
    body: &Body,
    segments: &[Segment],
    setting: &Setting,
) -> Result<Vec<Flow>, PlanError> {
    let parts = body.flow.as_deref().unwrap_or_default();
    if parts.len() > 256 {
        return Err(place.error(at, "a case has at most 256 competing flows"));
    }
    let one = |part: &FlowPart| {
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
        None => "cubic",
        Some(name) => *LAWS.iter().find(|law| **law == name.as_ref()).ok_or_else(|| {
            let what = format!("there is no law `{}` of TCP; use {}", name.as_ref(), LAWS.join(", "));
            place.error(name.span().start, what)
        })?,
    };
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
                on: part.on.map_or(LONGEST, |on| on.0),
                off: part.off.map_or(Span::ZERO, |off| off.0),
            }
        }
    })
}

fn setting(place: &Text<'_>, at: usize, body: &Body) -> Result<Setting, PlanError> {
    let Some(Length(duration)) = body.duration.filter(|length| length.0 > Span::ZERO && length.0 <= LONGEST) else {
        return Err(place.error(at, "a case needs a `duration` of up to a day, such as duration = \"120s\""));
    };
    let warm_up = body.warm_up.map_or(Span::ZERO, |length| length.0);
    if warm_up >= duration {
        return Err(place.error(at, "`warm_up` is as long as the whole `duration`; leave something to measure"));
    }
    let pacing = match &body.pacing {
        None => Mode::Interval(Mode::DEFAULT_INTERVAL),
        Some(text) => text.as_ref().parse().map_err(|error| place.error(text.span().start, format!("{error}")))?,
    };
    let fec = body.fec.as_ref().map_or(NO_FEC, |name| name.as_ref().as_str());
    if let (Err(error), Some(name)) = (new_policy(fec), &body.fec) {
        return Err(place.error(name.span().start, error.to_string()));
    }
    let source = source(place, at, &body.source)?;
    let refresh = body.client.vsync_hz.unwrap_or(source.fps);
    let datagram = body.datagram.unwrap_or(1_200);
    if !(640..=9_000).contains(&datagram) || !(1..=1_000).contains(&refresh) {
        return Err(place.error(at, "`datagram` goes from 640 to 9000 bytes, `vsync_hz` from 1 to 1000"));
    }
    if let Some(names) = &body.own_rates {
        for name in names.as_ref() {
            known_controller(place, names.span().start, name)?;
        }
    }
    let sample = body.sample.map_or(Span::from_millis(200), |length| length.0);
    if sample < Span::from_millis(10) || sample > duration {
        return Err(place.error(at, "`sample` goes from 10ms to the whole duration"));
    }
    Ok(Setting {
        about: body.about.clone().unwrap_or_default(),
        duration,
        warm_up,
        sample,
        pacing,
        fec: fec.to_owned(),
        phases: body.phases.unwrap_or_default(),
        datagram: usize::from(datagram),
        headers: Bytes::new(u64::from(body.headers.unwrap_or(28))),
        ecn: body.ecn.as_ref().map_or(Ok(Ecn::NotCapable), |written| ecn(place, written))?,
        transport: body.transport.unwrap_or_default(),
        feedback_every: feedback_every(place, at, body)?,
        client: Client {
            refresh,
            decode: body.client.decode.map_or(Span::from_millis(4), |length| length.0),
            recovery: body.client.recovery.map_or(Recovery::Repair, recovery),
            deadline: body.client.deadline.map_or(Span::from_millis(100), |length| length.0),
        },
        own_rates: body.own_rates.as_ref().map_or_else(Vec::new, |names| names.as_ref().clone()),
        source,
    })
}

fn feedback_every(place: &Text<'_>, at: usize, body: &Body) -> Result<Option<Span>, PlanError> {
    let interval = body.feedback_every.map(|length| length.0);
    match interval.filter(|interval| *interval < Span::from_millis(1) || *interval > Span::from_secs(1)) {
        None => Ok(interval),
        Some(_) => {
            Err(place.error(at, "`feedback_every` goes from 1ms to 1s; leave it out for the transport's own way"))
        }
    }
}

/// What WebRTC has no means for, in a system's words.
fn not_over_webrtc(setting: &Setting, system: &System) -> Option<&'static str> {
    let reasons = [
        (setting.transport != Transport::WebRtc, None),
        (system.reliable.is_some(), Some("frames over TCP")),
        (system.recovery != Recovery::Repair || system.group > 0, Some("any recovery but `repair`")),
        (setting.ecn != Ecn::NotCapable, Some("marks in place of losses")),
    ];
    reasons.into_iter().find_map(|(applies, what)| applies.then_some(what))?
}

fn ecn(place: &Text<'_>, written: &Spanned<String>) -> Result<Ecn, PlanError> {
    match written.as_ref().as_str() {
        "none" => Ok(Ecn::NotCapable),
        "ect0" => Ok(Ecn::Ect0),
        "ect1" => Ok(Ecn::Ect1),
        other => Err(place.error(written.span().start, format!("`ecn` is none, ect0 or ect1, not `{other}`"))),
    }
}

fn source(place: &Text<'_>, at: usize, part: &SourcePart) -> Result<Source, PlanError> {
    let fps = part.fps.unwrap_or(72);
    if !(1..=1_000).contains(&fps) {
        return Err(place.error(at, "`fps` goes from 1 to 1000"));
    }
    let rate = |written: Option<super::values::Rate>, usual: Bitrate| written.map_or(usual, |rate| rate.0);
    let minimum = rate(part.minimum, Bounds::MINIMUM);
    let maximum = rate(part.maximum, Bitrate::from_mbps(100));
    let bounds = Bounds { minimum, start: rate(part.start, Bounds::START), maximum }.in_order();
    let content = match part.content {
        Some(ContentKind::Game) => Content::Game,
        _ => Content::Sample,
    };
    let encoder = match part.encoder.unwrap_or(EncoderKind::Model) {
        EncoderKind::Model => Encoder::Model(model(place, at, part)?),
        EncoderKind::H264 => Encoder::Codec { kind: CodecKind::H264, size: picture_size(place, part)?, content },
        EncoderKind::Vp8 => Encoder::Codec { kind: CodecKind::Vp8, size: picture_size(place, part)?, content },
    };
    let length = |written: Option<Length>, usual: Span| written.map_or(usual, |length| length.0);
    Ok(Source {
        fps,
        bounds,
        render: length(part.render, Span::from_millis(3)),
        encode: length(part.encode, Span::from_millis(5)),
        encoder,
    })
}

fn picture_size(place: &Text<'_>, part: &SourcePart) -> Result<Size, PlanError> {
    let Some(text) = &part.size else { return Ok(Size { width: 640, height: 360 }) };
    let sides = text.as_ref().split_once('x').and_then(|(width, height)| {
        Some(Size { width: width.trim().parse().ok()?, height: height.trim().parse().ok()? })
    });
    let at = text.span().start;
    let size = sides.ok_or_else(|| place.error(at, format!("`{}` is no size; write it as 640x360", text.as_ref())))?;
    size.check().map_err(|error| place.error(at, error.to_string()))?;
    Ok(size)
}

fn model(place: &Text<'_>, at: usize, part: &SourcePart) -> Result<ModelOptions, PlanError> {
    let usual = ModelOptions::default();
    let options = ModelOptions {
        key_ratio: part.key_ratio.unwrap_or(usual.key_ratio),
        deviation: part.deviation.unwrap_or(usual.deviation),
        correlation: part.correlation.unwrap_or(usual.correlation),
        reaction: part.reaction_frames.unwrap_or(usual.reaction),
        scene_every: part.scene_every.map(|length| length.0).or(usual.scene_every),
        scene_ratio: part.scene_ratio.unwrap_or(usual.scene_ratio),
        limited_every: part.limited_every.map(|length| length.0).or(usual.limited_every),
        limited_for: part.limited_for.map_or(usual.limited_for, |length| length.0),
        limited_share: part.limited_share.unwrap_or(usual.limited_share),
        ..usual
    };
    options.check().map_err(|what| place.error(at, what))?;
    Ok(options)
}
