//! Channel maps: their names, and the mix of any map down to two channels.

use pulseaudio::protocol::{ChannelMap, ChannelPosition};

use crate::pulse::format::MAX_CHANNELS;

/// Gain of the centre and of each channel behind or above the listener: -3 dB, as ITU-R BS.775 mixes surround sound down.
const SURROUND_GAIN: f32 = std::f32::consts::FRAC_1_SQRT_2;
/// Gain of the low-frequency channel in each of both channels. BS.775 leaves it out, but programs may play there alone.
const LOW_FREQUENCY_GAIN: f32 = 0.5;

/// Names of the positions (`pa_channel_position_to_string`), in the order of their numbers. The auxiliary ones are numbered.
const POSITIONS: [(&str, ChannelPosition); 19] = [
    ("mono", ChannelPosition::Mono),
    ("front-left", ChannelPosition::FrontLeft),
    ("front-right", ChannelPosition::FrontRight),
    ("front-center", ChannelPosition::FrontCenter),
    ("rear-center", ChannelPosition::RearCenter),
    ("rear-left", ChannelPosition::RearLeft),
    ("rear-right", ChannelPosition::RearRight),
    ("lfe", ChannelPosition::Lfe),
    ("front-left-of-center", ChannelPosition::FrontLeftOfCenter),
    ("front-right-of-center", ChannelPosition::FrontRightOfCenter),
    ("side-left", ChannelPosition::SideLeft),
    ("side-right", ChannelPosition::SideRight),
    ("top-center", ChannelPosition::TopCenter),
    ("top-front-left", ChannelPosition::TopFrontLeft),
    ("top-front-right", ChannelPosition::TopFrontRight),
    ("top-front-center", ChannelPosition::TopFrontCenter),
    ("top-rear-left", ChannelPosition::TopRearLeft),
    ("top-rear-right", ChannelPosition::TopRearRight),
    ("top-rear-center", ChannelPosition::TopRearCenter),
];

/// Other names by which `pa_channel_map_parse` knows positions.
const ALIASES: [(&str, &str); 4] =
    [("left", "front-left"), ("right", "front-right"), ("center", "front-center"), ("subwoofer", "lfe")];

/// Names of complete maps.
const MAPS: [(&str, &str); 9] = [
    ("mono", "mono"),
    ("stereo", "front-left,front-right"),
    ("surround-21", "front-left,front-right,lfe"),
    ("surround-40", "front-left,front-right,rear-left,rear-right"),
    ("surround-41", "front-left,front-right,rear-left,rear-right,lfe"),
    ("surround-50", "front-left,front-right,rear-left,rear-right,front-center"),
    ("surround-51", "front-left,front-right,rear-left,rear-right,front-center,lfe"),
    ("surround-71", "front-left,front-right,rear-left,rear-right,front-center,lfe,side-left,side-right"),
    ("quad", "front-left,front-right,rear-left,rear-right"),
];

/// Returns the positions of channels whose client states none: in the order of WAV files up to 7.1, otherwise auxiliary.
pub(crate) fn default_map(channels: u8) -> ChannelMap {
    use ChannelPosition::{
        FrontCenter, FrontLeft, FrontRight, Lfe, Mono, RearCenter, RearLeft, RearRight, SideLeft, SideRight,
    };
    let positions: &[ChannelPosition] = match channels {
        1 => &[Mono],
        2 => &[FrontLeft, FrontRight],
        3 => &[FrontLeft, FrontRight, FrontCenter],
        4 => &[FrontLeft, FrontRight, RearLeft, RearRight],
        5 => &[FrontLeft, FrontRight, FrontCenter, RearLeft, RearRight],
        6 => &[FrontLeft, FrontRight, FrontCenter, Lfe, RearLeft, RearRight],
        7 => &[FrontLeft, FrontRight, FrontCenter, Lfe, RearCenter, SideLeft, SideRight],
        8 => &[FrontLeft, FrontRight, FrontCenter, Lfe, RearLeft, RearRight, SideLeft, SideRight],
        _ => return ChannelMap::new((0..channels.min(MAX_CHANNELS)).filter_map(auxiliary)),
    };
    ChannelMap::new(positions.iter().copied())
}

/// Parses a map: the name of a complete one, or a list of positions.
pub(crate) fn map_of(text: &str) -> Option<ChannelMap> {
    let text = text.trim();
    let list = MAPS.iter().find(|(name, _)| *name == text).map_or(text, |(_, list)| list);
    let positions: Option<Vec<ChannelPosition>> = list.split(',').map(|name| position_of(name.trim())).collect();
    positions.filter(|positions| positions.len() <= MAX_CHANNELS.into()).map(ChannelMap::new)
}

/// Returns a map as a list of positions.
pub(crate) fn name_of_map(map: &ChannelMap) -> String {
    map.into_iter().map(name_of).collect::<Vec<_>>().join(",")
}

/// Returns the gains with which a channel is heard left and right. `alone` means that the stream has no other channel.
pub(crate) fn gains(position: ChannelPosition, alone: bool) -> [f32; 2] {
    use ChannelPosition as At;
    match position {
        At::Mono | At::FrontCenter if alone => [1.0; 2],
        At::FrontLeft | At::FrontLeftOfCenter => [1.0, 0.0],
        At::FrontRight | At::FrontRightOfCenter => [0.0, 1.0],
        At::RearLeft | At::SideLeft | At::TopFrontLeft | At::TopRearLeft => [SURROUND_GAIN, 0.0],
        At::RearRight | At::SideRight | At::TopFrontRight | At::TopRearRight => [0.0, SURROUND_GAIN],
        At::Lfe => [LOW_FREQUENCY_GAIN; 2],
        At::Mono | At::FrontCenter | At::RearCenter | At::TopCenter | At::TopFrontCenter | At::TopRearCenter => {
            [SURROUND_GAIN; 2]
        }
        // Auxiliary channels are pairs of left and right.
        auxiliary => {
            let odd = (auxiliary as u8 - At::Aux0 as u8) % 2 == 1;
            if alone { [1.0; 2] } else { [f32::from(u8::from(!odd)), f32::from(u8::from(odd))] }
        }
    }
}

fn position_of(name: &str) -> Option<ChannelPosition> {
    if let Some(number) = name.strip_prefix("aux") {
        return auxiliary(number.parse().ok()?);
    }
    let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name);
    POSITIONS.iter().find(|(known, _)| *known == name).map(|(_, position)| *position)
}

fn name_of(position: ChannelPosition) -> String {
    let known = POSITIONS.iter().find(|(_, known)| *known == position);
    known.map_or_else(|| format!("aux{}", position as u8 - ChannelPosition::Aux0 as u8), |(name, _)| (*name).into())
}

/// Returns the auxiliary position of this number; `None` if there is none.
fn auxiliary(number: u8) -> Option<ChannelPosition> {
    use ChannelPosition::{
        Aux0, Aux1, Aux2, Aux3, Aux4, Aux5, Aux6, Aux7, Aux8, Aux9, Aux10, Aux11, Aux12, Aux13, Aux14, Aux15, Aux16,
        Aux17, Aux18, Aux19, Aux20, Aux21, Aux22, Aux23, Aux24, Aux25, Aux26, Aux27, Aux28, Aux29, Aux30, Aux31,
    };
    const ALL: [ChannelPosition; 32] = [
        Aux0, Aux1, Aux2, Aux3, Aux4, Aux5, Aux6, Aux7, Aux8, Aux9, Aux10, Aux11, Aux12, Aux13, Aux14, Aux15, Aux16,
        Aux17, Aux18, Aux19, Aux20, Aux21, Aux22, Aux23, Aux24, Aux25, Aux26, Aux27, Aux28, Aux29, Aux30, Aux31,
    ];
    ALL.get(usize::from(number)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_known_by_name_and_by_their_positions() {
        for channels in 1..=MAX_CHANNELS {
            let map = default_map(channels);
            assert_eq!((map.num_channels(), map_of(&name_of_map(&map))), (channels, Some(map)));
        }
        assert_eq!(map_of("stereo"), Some(ChannelMap::stereo()));
        assert_eq!(map_of("left, right"), Some(ChannelMap::stereo()));
        assert_eq!(map_of("surround-71").map(|map| map.num_channels()), Some(8));
        for wrong in ["", "front", "aux32", "aux", &["lfe"; 33].join(",")] {
            assert_eq!(map_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn every_position_is_heard_on_its_side() {
        for (name, position) in POSITIONS {
            let [left, right] = gains(position, false);
            match (name.contains("left"), name.contains("right")) {
                (true, _) => assert!(left > 0.5 && right == 0.0, "{name}"),
                (_, true) => assert!(right > 0.5 && left == 0.0, "{name}"),
                _ => assert!(left >= 0.5 && (left - right).abs() < 1e-6, "{name}"),
            }
        }
        assert!(gains(ChannelPosition::Mono, true).iter().all(|gain| (gain - 1.0).abs() < f32::EPSILON));
        assert_eq!([ChannelPosition::Aux4, ChannelPosition::Aux5].map(|at| gains(at, false)), [[1.0, 0.0], [0.0, 1.0]]);
    }
}
