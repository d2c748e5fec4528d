//! The oracle's name in plans, and the cells that it can play. The run itself is in `crate::world::oracle`.

use nearlight_flows::Direction;
use nearlight_link::Hop as _;
use nearlight_units::{Span, Time};

use super::{Cell, Encoder};

/// The name that labels carry in place of a controller's.
pub(crate) const NAME: &str = "oracle";

/// Returns why the oracle cannot play a cell; None when it can.
pub(super) fn refusal(cell: &Cell) -> Option<&'static str> {
    let ([media], [segment]) = (&cell.media[..], &cell.segments[..]) else {
        return Some("the oracle knows one session over one link; leave it out where there are several");
    };
    let whole = media.start == Span::ZERO && media.stop >= cell.setting.duration && media.pauses.is_empty();
    let route = &media.route;
    let own_hops = route.access.is_some() || route.access_feedback.is_some() || route.through != [0];
    if segment.forward.cells().next().is_some() {
        return Some("the oracle cannot know what a Wi-Fi cell carries; leave it out");
    }
    let reasons = [
        (
            segment.forward.path(0).capacity(Time::ZERO).is_none(),
            "nothing limits the path's rate, so there is no best schedule; leave the oracle out",
        ),
        (
            !cell.flows.is_empty(),
            "the oracle cannot know the capacity that competing flows leave; leave one of them out",
        ),
        (!whole, "the oracle's session lasts from start to end; leave it out where sessions pause or stop"),
        (
            route.direction != Direction::Forward || own_hops,
            "the oracle's session goes forward over the shared link alone",
        ),
        (
            !matches!(cell.setting.source.encoder, Encoder::Model(_)),
            "the oracle chooses frame sizes and encodes nothing; leave it out, or use the encoder model",
        ),
    ];
    reasons.into_iter().find_map(|(refused, why)| refused.then_some(why))
}
