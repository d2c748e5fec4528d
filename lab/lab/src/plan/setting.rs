//! Reads the settings that all cells of a case share.

use nearlight_codec::Size;
use nearlight_fec::policy::new_policy;
use nearlight_link::Ecn;
use nearlight_rate::{Bounds, Preset};
use nearlight_session::pace::Mode;
use nearlight_session::{DisplayOrder, UnknownDisplayOrder};
use nearlight_units::{Bitrate, Bytes, Span};
use toml::Spanned;

use super::file::{Body, ContentKind, EncoderKind, SourcePart};
use super::text::{Text, or, place as place_of};
use super::values::{Length, Rate};
use super::{Client, Content, Encoder, ModelOptions, NO_FEC, PlanError, Recovery, Setting, Source, oracle};

/// Longest run: a day.
pub(super) const MAX_DURATION: Span = Span::from_secs(86_400);
/// Default deadline from capture to display. A choice: older pictures are of little use to someone who acts on them.
const DEFAULT_DEADLINE: Length = Length(Span::from_millis(100));

pub(super) fn setting(place: &Text<'_>, at: usize, body: &Body) -> Result<Setting, PlanError> {
    let usable = |length: &&Spanned<Length>| length.as_ref().0 > Span::ZERO && length.as_ref().0 <= MAX_DURATION;
    let Some(duration) = body.duration.as_ref().filter(usable).map(|length| length.as_ref().0) else {
        let at = place_of(body.duration.as_ref(), at);
        return Err(place.error(at, "a case needs a `duration` of up to a day, such as duration = \"120s\""));
    };
    let warm_up = or(body.warm_up.as_ref(), Length(Span::ZERO)).0;
    if warm_up >= duration {
        let at = place_of(body.warm_up.as_ref(), at);
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
    let refresh = or(body.client.vsync_hz.as_ref(), source.fps);
    if !(1..=1_000).contains(&refresh) {
        return Err(place.error(place_of(body.client.vsync_hz.as_ref(), at), "`vsync_hz` goes from 1 to 1000"));
    }
    let order = body.client.display.as_ref().map_or(Ok(DisplayOrder::default()), |name| {
        name.as_ref()
            .parse()
            .map_err(|error: UnknownDisplayOrder| place.error(name.span().start, format!("`display`: {error}")))
    })?;
    let datagram = or(body.datagram.as_ref(), 1_200);
    if !(640..=9_000).contains(&datagram) {
        return Err(place.error(place_of(body.datagram.as_ref(), at), "`datagram` goes from 640 to 9000 bytes"));
    }
    let deadline = or(body.client.deadline.as_ref(), DEFAULT_DEADLINE).0;
    if deadline <= Span::ZERO {
        let what = "`deadline` must be above 0, such as deadline = \"100ms\"";
        return Err(place.error(place_of(body.client.deadline.as_ref(), at), what));
    }
    let transport = body.transport.unwrap_or_default();
    let playback_buffer = or(body.client.playback_buffer.as_ref(), 0);
    if playback_buffer > 0 && transport == super::Transport::WebRtc {
        let what = "over WebRTC the browser holds what it likes: leave out `playback_buffer`";
        return Err(place.error(place_of(body.client.playback_buffer.as_ref(), at), what));
    }
    if let Some(names) = &body.own_rates {
        for name in names.as_ref() {
            known_controller(place, names.span().start, name)?;
        }
    }
    let sample = or(body.sample.as_ref(), Length(Span::from_millis(200))).0;
    if sample < Span::from_millis(10) || sample > duration {
        return Err(place.error(place_of(body.sample.as_ref(), at), "`sample` goes from 10ms to the whole duration"));
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
        transport,
        feedback_every: feedback_every(place, at, body)?,
        client: Client {
            refresh,
            order,
            decode: body.client.decode.map_or(Span::from_millis(4), |length| length.0),
            recovery: body.client.recovery.unwrap_or(Recovery::RETRANSMISSION),
            deadline,
            playback_buffer,
        },
        own_rates: body.own_rates.as_ref().map_or_else(Vec::new, |names| names.as_ref().clone()),
        source,
    })
}

pub(super) fn known_controller(place: &Text<'_>, at: usize, name: &str) -> Result<(), PlanError> {
    if name == oracle::NAME {
        return Err(place.error(
            at,
            "the oracle is not a controller that could be deployed; write `oracle = true` beside `controllers`",
        ));
    }
    Preset::named(name).map(|_| ()).map_err(|error| place.error(at, error.to_string()))
}

fn feedback_every(place: &Text<'_>, at: usize, body: &Body) -> Result<Option<Span>, PlanError> {
    let interval = body.feedback_every.as_ref().map(|length| length.as_ref().0);
    let at = place_of(body.feedback_every.as_ref(), at);
    match interval.filter(|interval| *interval < Span::from_millis(1) || *interval > Span::from_secs(1)) {
        None => Ok(interval),
        Some(_) => {
            Err(place.error(at, "`feedback_every` goes from 1ms to 1s; leave it out for the transport's own way"))
        }
    }
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
    let fps = or(part.fps.as_ref(), 72);
    if !(1..=1_000).contains(&fps) {
        return Err(place.error(place_of(part.fps.as_ref(), at), "`fps` goes from 1 to 1000"));
    }
    let bounds = bounds(place, part)?;
    let content = match part.content {
        Some(ContentKind::Game) => Content::Game,
        _ => Content::Sample,
    };
    let encoder = match part.encoder.unwrap_or(EncoderKind::Model) {
        EncoderKind::Model => Encoder::Model(model(place, at, part)?),
        EncoderKind::Codec(kind) => Encoder::Codec { kind, size: picture_size(place, part)?, content },
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

/// Returns the rate bounds. Written values must be in order; defaults adapt to them.
fn bounds(place: &Text<'_>, part: &SourcePart) -> Result<Bounds, PlanError> {
    let rate = |written: &Option<Spanned<Rate>>, usual: Bitrate| or(written.as_ref(), Rate(usual)).0;
    let minimum = rate(&part.minimum, Bounds::MINIMUM);
    let maximum = rate(&part.maximum, Bitrate::from_mbps(100).max(minimum));
    if let Some(written) = part.minimum.as_ref().filter(|_| minimum > maximum) {
        let what = format!(
            "`minimum` ({} Mb/s) is above `maximum` ({} Mb/s); exchange them, or write the same rate twice for a fixed one",
            minimum.as_mbps_f64(),
            maximum.as_mbps_f64()
        );
        return Err(place.error(written.span().start, what));
    }
    let start = rate(&part.start, Bounds::START);
    let bounds = Bounds { minimum, start, maximum }.in_order();
    if let Some(written) = part.start.as_ref().filter(|_| bounds.start != start) {
        let what = format!(
            "`start` ({} Mb/s) lies outside `minimum` to `maximum` ({} to {} Mb/s); write a rate in between, or leave it out",
            start.as_mbps_f64(),
            bounds.minimum.as_mbps_f64(),
            bounds.maximum.as_mbps_f64()
        );
        return Err(place.error(written.span().start, what));
    }
    Ok(bounds)
}

fn picture_size(place: &Text<'_>, part: &SourcePart) -> Result<Size, PlanError> {
    let Some(text) = &part.size else { return Ok(Size { width: 640, height: 360 }) };
    let sides = text.as_ref().split_once('x').and_then(|(width, height)| {
        Some(Size { width: width.trim().parse().ok()?, height: height.trim().parse().ok()? })
    });
    let at = text.span().start;
    let size =
        sides.ok_or_else(|| place.error(at, format!("`{}` is not a size: write it as 640x360", text.as_ref())))?;
    size.check().map_err(|error| place.error(at, error.to_string()))?;
    Ok(size)
}

/// Removes a key from the part.
type FieldRemover = fn(&mut SourcePart);

fn model(place: &Text<'_>, at: usize, part: &SourcePart) -> Result<ModelOptions, PlanError> {
    let options = model_options(part);
    let Err(what) = options.check() else { return Ok(options) };
    // The key whose removal would resolve the error.
    let at_ratio = |written: &Option<Spanned<f64>>| written.as_ref().map(|written| written.span().start);
    let at_length = |written: &Option<Spanned<Length>>| written.as_ref().map(|written| written.span().start);
    let without = |change: fn(&mut SourcePart)| {
        let mut part = part.clone();
        change(&mut part);
        model_options(&part).check().is_ok()
    };
    let keys: [(Option<usize>, FieldRemover); 9] = [
        (at_ratio(&part.key_ratio), |part| part.key_ratio = None),
        (at_ratio(&part.deviation), |part| part.deviation = None),
        (at_ratio(&part.correlation), |part| part.correlation = None),
        (at_ratio(&part.reaction_frames), |part| part.reaction_frames = None),
        (at_length(&part.scene_every), |part| part.scene_every = None),
        (at_ratio(&part.scene_ratio), |part| part.scene_ratio = None),
        (at_length(&part.limited_every), |part| part.limited_every = None),
        (at_length(&part.limited_for), |part| part.limited_for = None),
        (at_ratio(&part.limited_share), |part| part.limited_share = None),
    ];
    let written = || keys.iter().filter_map(|(at, change)| Some(((*at)?, *change)));
    // If several are wrong, the first in the file.
    let guilty = written().find(|(_, change)| without(*change)).or_else(|| written().next());
    Err(place.error(guilty.map_or(at, |(at, _)| at), what))
}

fn model_options(part: &SourcePart) -> ModelOptions {
    let usual = ModelOptions::default();
    let length = |written: &Option<Spanned<Length>>| written.as_ref().map(|length| length.as_ref().0);
    ModelOptions {
        key_ratio: or(part.key_ratio.as_ref(), usual.key_ratio),
        deviation: or(part.deviation.as_ref(), usual.deviation),
        correlation: or(part.correlation.as_ref(), usual.correlation),
        reaction: or(part.reaction_frames.as_ref(), usual.reaction),
        scene_every: length(&part.scene_every).or(usual.scene_every),
        scene_ratio: or(part.scene_ratio.as_ref(), usual.scene_ratio),
        limited_every: length(&part.limited_every).or(usual.limited_every),
        limited_for: length(&part.limited_for).unwrap_or(usual.limited_for),
        limited_share: or(part.limited_share.as_ref(), usual.limited_share),
        ..usual
    }
}
