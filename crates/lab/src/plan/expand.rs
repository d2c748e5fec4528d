//! From a plan's file to its cells.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use nearlight_codec::{CodecKind, Size};
use nearlight_flows::{Direction, law::LAWS};
use nearlight_link::{HopSpec, LoadedPath, PathSpec, Source as PathSource};
use nearlight_pace::Mode;
use nearlight_rate::{Bounds, PRESETS, Preset};
use nearlight_units::{Bitrate, Bytes, Span};
use serde::Deserialize as _;
use toml::Spanned;

use super::file::{
    Body, Controllers, DirectionKind, EncoderKind, FlowKind, FlowPart, MediaPart, PathPart, PlanFile, RecoveryKind,
    SourcePart,
};
use super::values::Length;
use super::{
    Cell, Client, Encoder, Flow, Kind, Media, Plan, PlanError, Published, Recovery, Route, Segment, Setting, Source,
};
use crate::digest::Digest;
use crate::encoder::ModelOptions;

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

/// A value of each sweep.
type Values = BTreeMap<String, String>;

pub(super) fn plan(file: &Path, text: &str) -> Result<Plan, PlanError> {
    let parsed: PlanFile =
        toml::from_str(text).map_err(|error| PlanError::Syntax { file: file.to_owned(), reason: error.to_string() })?;
    let place = Text { file, text };
    let mut digest = Digest::of(text.as_bytes());
    let mut cells = Vec::new();
    if !(1..=10_000).contains(&parsed.seeds) {
        return Err(place.error(0, "`seeds` is the number of runs of each cell; write a number from 1 to 10000"));
    }
    if parsed.cases.is_empty() {
        expand(&place, 0, &parsed.all, &mut cells, &mut digest)?;
    }
    for case in &parsed.cases {
        let body = case.as_ref().clone().or(&parsed.all);
        expand(&place, case.span().start, &body, &mut cells, &mut digest)?;
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

fn expand(
    place: &Text<'_>,
    at: usize,
    body: &Body,
    cells: &mut Vec<Cell>,
    digest: &mut Digest,
) -> Result<(), PlanError> {
    let setting = Arc::new(setting(place, at, body)?);
    let controllers = controllers(place, body.controllers.as_ref())?;
    let Some(paths) = body.path.as_ref().filter(|paths| !paths.is_empty()) else {
        return Err(place.error(at, "there is no path; add one with [[all.path]] or [[case.path]]"));
    };
    for path in paths {
        for values in sweeps(place, at, body)? {
            let read = |value: &Option<Spanned<toml::Value>>| read_path(place, value.as_ref(), &values);
            let segments = segments(place, at, path, &read)?;
            let media = media(place, at, body, &segments, &setting, &read)?;
            let flows = flows(place, at, body, &segments, &setting, &read)?;
            for segment in &segments {
                note_traces(&segment.forward, digest);
                note_traces(&segment.feedback, digest);
            }
            for controller in &controllers {
                let mut labels = values.clone();
                labels.extend(body.name.clone().map(|name| ("case".to_owned(), name)));
                labels.insert("path".to_owned(), path.name.clone());
                labels.insert("controller".to_owned(), controller.clone());
                cells.push(Cell {
                    labels,
                    setting: Arc::clone(&setting),
                    controller: controller.clone(),
                    segments: segments.clone(),
                    media: media.clone(),
                    flows: flows.clone(),
                });
                if cells.len() > MOST_CELLS {
                    return Err(place.error(at, format!("the plan spans more than {MOST_CELLS} cells; sweep less")));
                }
            }
        }
    }
    Ok(())
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

/// Every combination of one value from each sweep; one empty combination without sweeps.
fn sweeps(place: &Text<'_>, at: usize, body: &Body) -> Result<Vec<Values>, PlanError> {
    let mut combinations = vec![Values::new()];
    for sweep in body.sweep.iter().flatten() {
        if sweep.values.is_empty() {
            return Err(place.error(at, format!("the sweep `{}` has no values", sweep.name)));
        }
        let with = |values: &Values| {
            let pair = |value: &String| (sweep.name.clone(), value.clone());
            sweep
                .values
                .iter()
                .map(|value| values.clone().into_iter().chain([pair(value)]).collect())
                .collect::<Vec<_>>()
        };
        combinations = combinations.iter().flat_map(with).collect();
    }
    Ok(combinations)
}

/// `{name}` becomes the sweep's value, wherever a path's text has it.
fn fill_in(value: &toml::Value, values: &Values) -> toml::Value {
    match value {
        toml::Value::String(text) => {
            let filled =
                values.iter().fold(text.clone(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value));
            toml::Value::String(filled)
        }
        toml::Value::Array(parts) => toml::Value::Array(parts.iter().map(|part| fill_in(part, values)).collect()),
        toml::Value::Table(table) => {
            toml::Value::Table(table.iter().map(|(key, part)| (key.clone(), fill_in(part, values))).collect())
        }
        other => other.clone(),
    }
}

fn read_path(place: &Text<'_>, value: Option<&Spanned<toml::Value>>, values: &Values) -> Result<LoadedPath, PlanError> {
    let Some(value) = value else {
        return PathSpec::default().load().map_err(|error| place.error(0, error.to_string()));
    };
    let at = value.span().start;
    let filled = fill_in(value.as_ref(), values);
    let spec = PathSpec::deserialize(filled).map_err(|error| place.error(at, error.to_string()))?;
    let mut spec = spec;
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
    spec.load().map_err(|error| place.error(at, error.to_string()))
}

/// Reads a direction's hops.
type ReadPath<'a> = dyn Fn(&Option<Spanned<toml::Value>>) -> Result<LoadedPath, PlanError> + 'a;

fn segments(place: &Text<'_>, at: usize, path: &PathPart, read: &ReadPath<'_>) -> Result<Vec<Segment>, PlanError> {
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

fn route(
    place: &Text<'_>,
    parts: &RouteParts<'_>,
    segments: &[Segment],
    read: &ReadPath<'_>,
) -> Result<Route, PlanError> {
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
    let own = |value: &Option<Spanned<toml::Value>>| value.is_some().then(|| read(value)).transpose();
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
    read: &ReadPath<'_>,
) -> Result<Vec<Media>, PlanError> {
    let alone = [MediaPart::default()];
    let parts = body.media.as_deref().unwrap_or(&alone);
    if parts.is_empty() || parts.len() > 64 {
        return Err(place.error(at, "a case has from 1 to 64 media sessions"));
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
            route: route(place, &parts, segments, read)?,
        })
    };
    parts.iter().enumerate().map(one).collect()
}

fn flows(
    place: &Text<'_>,
    at: usize,
    body: &Body,
    segments: &[Segment],
    setting: &Setting,
    read: &ReadPath<'_>,
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
        Ok(Flow { kind: kind(place, at, part)?, start, stop, route: route(place, &parts, segments, read)? })
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
        datagram: usize::from(datagram),
        headers: Bytes::new(u64::from(body.headers.unwrap_or(28))),
        client: Client {
            refresh,
            decode: body.client.decode.map_or(Span::from_millis(4), |length| length.0),
            recovery: match body.client.recovery {
                Some(RecoveryKind::Intra) => Recovery::Intra,
                _ => Recovery::Repair,
            },
            deadline: body.client.deadline.map_or(Span::from_millis(100), |length| length.0),
        },
        own_rates: body.own_rates.as_ref().map_or_else(Vec::new, |names| names.as_ref().clone()),
        source,
    })
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
    let encoder = match part.encoder.unwrap_or(EncoderKind::Model) {
        EncoderKind::Model => Encoder::Model(model(place, at, part)?),
        EncoderKind::H264 => Encoder::Codec { kind: CodecKind::H264, size: picture_size(place, part)? },
        EncoderKind::Vp8 => Encoder::Codec { kind: CodecKind::Vp8, size: picture_size(place, part)? },
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
