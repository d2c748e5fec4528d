//! The written form of cells: words separated by slashes, as in a path's `wifi=` and on the command line.
//!
//! ```
//! use nearlight_wifi::CellSpec;
//!
//! let spec: CellSpec = "standard-11ax/mcs:7/background:saturated-up".parse()?;
//! let cell = spec.config(2);
//! assert_eq!(cell.stations.len(), 3);
//! # Ok::<(), nearlight_wifi::ConfigError>(())
//! ```

use std::fmt;
use std::str::FromStr;

use nearlight_units::{Bitrate, Bytes, Span};

use crate::config::{
    Adaptation, Background, Category, CellConfig, Channel, Direction, Fading, Neighbour, Preset, Scan, Service,
    StationConfig,
};
use crate::error::ConfigError;
use crate::ofdma::{SchedulerKind, TriggerTiming, UplinkTrigger};
use crate::phy::{Guard, Mcs, Width};

/// The written form of a cell, and the category of the path's packets.
///
/// Sessions' stations are alike; background traffic has stations of its own, at the same distance.
#[derive(Clone, Debug, PartialEq)]
pub struct CellSpec {
    written: String,
    /// Name that distinguishes cells with the same settings.
    name: String,
    /// Configuration with one session's station, followed by those with background traffic.
    config: CellConfig,
    category: Category,
}

struct Keyword {
    name: &'static str,
    form: &'static str,
    read: fn(&mut Draft, &str) -> Option<()>,
}

/// The settings read so far.
struct Draft {
    name: String,
    category: Category,
    config: CellConfig,
    station: StationConfig,
    background: Vec<Background>,
}

const fn word(name: &'static str, form: &'static str, read: fn(&mut Draft, &str) -> Option<()>) -> Keyword {
    Keyword { name, form, read }
}

/// All keywords except the presets, with the form of their values.
const KEYWORDS: [Keyword; 27] = [
    word("cell", "a name: cells of different names are different cells", |draft, value| {
        (!value.is_empty()).then(|| value.clone_into(&mut draft.name))
    }),
    word("as", "voice, video, best-effort or background: the category of this path's packets", |draft, value| {
        number(value).map(|category| draft.category = category)
    }),
    word("width", "20, 40, 80 or 160 (MHz)", |draft, value| {
        Width::try_from(number::<u16>(value)?).ok().map(|width| draft.config.width = width)
    }),
    word("mcs", "0 to 11, the highest where rates adapt", |draft, value| {
        Mcs::try_from(number::<u8>(value)?).ok().map(|mcs| draft.station.mcs = mcs)
    }),
    word("streams", "1 to 4", |draft, value| number(value).map(|streams| draft.station.streams = streams)),
    word("guard", "800, 1600 or 3200 (ns)", |draft, value| {
        Guard::try_from(number::<u16>(value)?).ok().map(|guard| draft.station.guard = guard)
    }),
    word("loss", "the share of packets that a transmission loses, such as 10%", |draft, value| {
        share(value).map(|loss| draft.station.channel = Channel::Fixed { loss })
    }),
    word(
        "snr",
        "mean in dB, optionally with standard deviation and coherence time of fading: 30 or 30~4@100ms",
        |draft, value| {
            fading(value).map(|fading| {
                draft.station.channel = Channel::Fading(fading);
                if draft.station.adaptation == Adaptation::Fixed {
                    draft.station.adaptation = Adaptation::Minstrel;
                }
            })
        },
    ),
    word("adapt", "fixed, ideal or minstrel; after snr", |draft, value| {
        let all = [("fixed", Adaptation::Fixed), ("ideal", Adaptation::Ideal), ("minstrel", Adaptation::Minstrel)];
        named(&all, value).map(|adaptation| draft.station.adaptation = adaptation)
    }),
    word("scan", "a time and how often: 100ms@30s", |draft, value| {
        let (dwell, interval) = value.split_once('@')?;
        let (dwell, interval) = (span(dwell)?, span(interval)?);
        draft.station.scan = Some(Scan { interval, dwell, first: interval / 2 });
        Some(())
    }),
    word("patience", "how long packets may wait where deadlines order them, such as 10ms", |draft, value| {
        span(value).map(|patience| draft.station.patience = patience)
    }),
    word("background", "saturated-up, saturated-down, 20mbit-up or 20mbit-down; again for one more", |draft, value| {
        background(value).map(|background| draft.background.push(background))
    }),
    word(
        "neighbour",
        "share of airtime that a neighbouring cell uses, optionally with the duration of its exchanges: 30% or 30%@3ms",
        |draft, value| {
            let (load, burst) = value.split_once('@').unwrap_or((value, "2ms"));
            draft.config.neighbours.push(Neighbour { load: share(load)?, burst: span(burst)? });
            Some(())
        },
    ),
    word("downlink-ofdma", "the most stations of a transmission, such as 4", |draft, value| {
        number(value).map(|stations| draft.config.multi_user.downlink = Some(stations))
    }),
    word(
        "downlink-ofdma-always",
        "yes or no: also send to a single station in the multi-user format; after downlink-ofdma",
        |draft, value| {
            let always = yes(value)?;
            draft.config.multi_user.downlink.map(|_| draft.config.multi_user.always = always)
        },
    ),
    word("trigger", "interval of trigger frames, such as 2ms, or after-downlink", |draft, value| {
        let when =
            if value == "after-downlink" { TriggerTiming::AfterDownlink } else { TriggerTiming::Every(span(value)?) };
        let usual = UplinkTrigger { when, category: Category::BestEffort, stations: 4, contend: false };
        draft.config.multi_user.uplink =
            Some(UplinkTrigger { when, ..draft.config.multi_user.uplink.unwrap_or(usual) });
        Some(())
    }),
    word("triggered-stations", "the most stations that send at once, such as 4; after trigger", |draft, value| {
        let stations = number(value)?;
        draft.config.multi_user.uplink.as_mut().map(|uplink| uplink.stations = stations)
    }),
    word("triggered-as", "the category that triggers ask for; after trigger", |draft, value| {
        let category = number(value)?;
        draft.config.multi_user.uplink.as_mut().map(|uplink| uplink.category = category)
    }),
    word("triggered-contend", "yes or no: stations also send without being asked; after trigger", |draft, value| {
        let contend = yes(value)?;
        draft.config.multi_user.uplink.as_mut().map(|uplink| uplink.contend = contend)
    }),
    word("order", "round-robin, deadline-first or least-served: who shares a transmission", |draft, value| {
        let all = [
            ("round-robin", SchedulerKind::RoundRobin),
            ("deadline-first", SchedulerKind::DeadlineFirst),
            ("least-served", SchedulerKind::LeastServed),
        ];
        named(&all, value).map(|order| draft.config.multi_user.order = order)
    }),
    word(
        "serve",
        "oldest-first, in-turn or airtime-fair: how the access point chooses the next station",
        |draft, value| {
            let all = [
                ("oldest-first", Service::OldestFirst),
                ("in-turn", Service::InTurn),
                ("airtime-fair", Service::AirtimeFair),
            ];
            named(&all, value).map(|service| draft.config.service = service)
        },
    ),
    word("in-order", "yes or no: receivers hold packets back until those before them are there", |draft, value| {
        yes(value).map(|in_order| draft.config.in_order = in_order)
    }),
    word("rts", "yes or no", |draft, value| yes(value).map(|rts| draft.config.rts_cts = rts)),
    word("aggregate", "the most packets of an A-MPDU, 1 to 256", |draft, value| {
        number(value).map(|aggregate| draft.config.aggregate = aggregate)
    }),
    word("retries", "0 to 15", |draft, value| number(value).map(|retries| draft.config.retries = retries)),
    word("access-point-queue", "packets, such as 1000", |draft, value| {
        number(value).map(|packets| draft.config.access_point_queue = packets)
    }),
    word("station-queue", "packets, such as 150", |draft, value| {
        number(value).map(|packets| draft.config.station_queue = packets)
    }),
];

impl CellSpec {
    /// Returns the configuration with stations for `sessions` sessions, followed by those with background traffic.
    #[must_use]
    pub fn config(&self, sessions: usize) -> CellConfig {
        let mut config = self.config.clone();
        let session = config.stations[0].clone();
        let sessions = sessions.min(crate::config::MAX_STATIONS + 1);
        config.stations.splice(0..1, std::iter::repeat_n(session, sessions));
        config
    }

    /// Returns the access category of this path's packets.
    pub fn category(&self) -> Category {
        self.category
    }

    /// Returns whether both describe the same cell, regardless of the category of their packets.
    pub fn is_same_cell(&self, other: &Self) -> bool {
        self.name == other.name && self.config == other.config
    }
}

impl FromStr for CellSpec {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let preset = CellConfig::preset(Preset::Standard11ax);
        let mut draft = Draft::new(preset);
        for (place, part) in text.split('/').map(str::trim).enumerate() {
            let Some((name, value)) = part.split_once(':') else {
                if place > 0 {
                    return Err(ConfigError::Word { word: part.to_owned(), words: names() });
                }
                draft = Draft::new(CellConfig::preset(part.parse()?));
                continue;
            };
            let word = KEYWORDS.iter().find(|word| word.name == name);
            let word = word.ok_or_else(|| ConfigError::Word { word: name.to_owned(), words: names() })?;
            let refused = || ConfigError::Value { word: word.name, value: value.to_owned(), form: word.form };
            (word.read)(&mut draft, value).ok_or_else(refused)?;
        }
        let Draft { name, category, mut config, station, background } = draft;
        let with = |background| StationConfig { background: Some(background), scan: None, ..station.clone() };
        config.stations = std::iter::once(station.clone()).chain(background.into_iter().map(with)).collect();
        config.check()?;
        Ok(Self { written: text.to_owned(), name, config, category })
    }
}

impl fmt::Display for CellSpec {
    /// The text that was parsed.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.written.fmt(formatter)
    }
}

impl Draft {
    fn new(config: CellConfig) -> Self {
        let station = config.stations.first().cloned().unwrap_or_default();
        Self { name: String::new(), category: Category::BestEffort, config, station, background: Vec::new() }
    }
}

/// Returns the keywords, for an error message.
fn names() -> String {
    KEYWORDS.iter().map(|word| word.name).collect::<Vec<_>>().join(", ")
}

/// Returns every keyword and the form of its value, for help texts.
pub fn words() -> impl Iterator<Item = (&'static str, &'static str)> {
    KEYWORDS.iter().map(|word| (word.name, word.form))
}

fn number<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

fn named<T: Copy>(all: &[(&str, T)], text: &str) -> Option<T> {
    all.iter().find(|(name, _)| *name == text).map(|(_, value)| *value)
}

fn yes(text: &str) -> Option<bool> {
    named(&[("yes", true), ("no", false)], text)
}

/// Parses a share; `2%` and `0.02` are equivalent.
fn share(text: &str) -> Option<f64> {
    let (number, scale) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    number.trim().parse::<f64>().ok().map(|number| number / scale).filter(|share| (0.0..=1.0).contains(share))
}

fn quantity(text: &str, units: &[(&str, f64)]) -> Option<u64> {
    const MAX_QUANTITY: f64 = 9.2e18;
    let split = text.find(|symbol: char| symbol.is_ascii_alphabetic()).unwrap_or(text.len());
    let scale = named(units, text[split..].trim())?;
    let value = text[..split].trim().parse::<f64>().ok()? * scale;
    (0.0..=MAX_QUANTITY).contains(&value).then_some(value.round() as u64)
}

fn span(text: &str) -> Option<Span> {
    let nanos = quantity(text, &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9)])?;
    i64::try_from(nanos).ok().map(Span::from_nanos)
}

fn rate(text: &str) -> Option<Bitrate> {
    quantity(text, &[("bit", 1.0), ("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)]).map(Bitrate::from_bps)
}

fn fading(text: &str) -> Option<Fading> {
    let decibel = |text: &str| text.trim_end_matches("dB").trim().parse::<f64>().ok();
    let Some((mean, rest)) = text.split_once('~') else {
        return Some(Fading { mean: decibel(text)?, deviation: 0.0, coherence: Span::from_secs(1) });
    };
    let (deviation, coherence) = rest.split_once('@')?;
    Some(Fading { mean: decibel(mean)?, deviation: decibel(deviation)?, coherence: span(coherence)? })
}

fn background(text: &str) -> Option<Background> {
    /// Full Ethernet packets.
    const SIZE: Bytes = Bytes::new(1_500);
    let (what, direction) = text.rsplit_once('-')?;
    let direction = named(&[("up", Direction::Uplink), ("down", Direction::Downlink)], direction)?;
    let rate = if what == "saturated" { None } else { Some(rate(what)?) };
    Some(Background { direction, category: Category::BestEffort, size: SIZE, rate })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> CellSpec {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn presets_are_what_nothing_else_is_said_of() {
        assert_eq!(read("komondor-vr").config(1), CellConfig::preset(Preset::KomondorVr));
        assert_eq!(read("standard-11ax").config(3), CellConfig::preset(Preset::Standard11ax).with_stations(3));
        assert_eq!(read("mcs:11").config(1), CellConfig::preset(Preset::Standard11ax));
        assert_eq!(read("komondor-vr/mcs:7").to_string(), "komondor-vr/mcs:7");
    }

    #[test]
    fn words_mean_what_they_say() {
        let spec = read(
            "width:40/mcs:9/streams:1/guard:1600/loss:2%/rts:no/in-order:yes/aggregate:64/as:video/scan:100ms@30s",
        );
        let config = spec.config(2);
        let station = &config.stations[1];
        assert_eq!((config.width, station.mcs.index(), station.streams), (Width::Mhz40, 9, 1));
        assert_eq!((station.guard, station.channel), (Guard::Nanos1600, Channel::Fixed { loss: 0.02 }));
        assert_eq!((config.rts_cts, config.in_order, config.aggregate), (false, true, 64));
        assert_eq!(spec.category(), Category::Video);
        assert_eq!((config.service, read("serve:in-turn").config(2).service), (Service::OldestFirst, Service::InTurn));
        let scan = Scan { interval: Span::from_secs(30), dwell: Span::from_millis(100), first: Span::from_secs(15) };
        assert_eq!(station.scan, Some(scan));

        let config = read("snr:31~4@80ms/neighbour:30%@3ms/background:saturated-up/background:20mbit-down").config(2);
        let fading = Fading { mean: 31.0, deviation: 4.0, coherence: Span::from_millis(80) };
        assert_eq!(config.stations[0].channel, Channel::Fading(fading));
        assert_eq!(config.stations[0].adaptation, Adaptation::Minstrel);
        assert_eq!(config.neighbours, [Neighbour { load: 0.3, burst: Span::from_millis(3) }]);
        let background = |station: usize| config.stations[station].background.map(|b| (b.direction, b.rate));
        assert_eq!(config.stations.len(), 4);
        assert_eq!([background(0), background(1), background(2)], [None, None, Some((Direction::Uplink, None))]);
        assert_eq!(background(3), Some((Direction::Downlink, Some(Bitrate::from_mbps(20)))));

        let config = read("trigger:2ms/triggered-stations:8/triggered-as:voice/triggered-contend:yes/downlink-ofdma:4");
        let multi_user = config.config(1).multi_user;
        let triggered = UplinkTrigger {
            when: TriggerTiming::Every(Span::from_millis(2)),
            category: Category::Voice,
            stations: 8,
            contend: true,
        };
        assert_eq!((multi_user.downlink, multi_user.uplink), (Some(4), Some(triggered)));
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_reason() {
        let cases = [
            ("komondor", "komondor-vr or standard-11ax"),
            ("mcs:12", "0 to 11"),
            ("width:60", "20, 40, 80 or 160"),
            ("speed:5", "width"),
            ("standard-11ax/fast", "width"),
            ("streams:5", "1 to 4"),
            ("loss:110%", "such as 10%"),
            ("neighbour:99%", "0.95"),
            ("scan:5s@1s", "a scan lasts"),
            ("triggered-stations:4", "after trigger"),
            ("background:saturated", "saturated-up"),
            ("snr:30~4", "30~4@100ms"),
            ("aggregate:300", "256"),
            ("serve:fairly", "airtime-fair"),
            (
                "downlink-ofdma:8/background:20mbit-down/background:20mbit-down/background:20mbit-down/background:20mbit-down",
                "MCS 11",
            ),
        ];
        for (text, words) in cases {
            let error = text.parse::<CellSpec>().expect_err(text).to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn a_cell_is_the_same_whatever_goes_through_it() {
        assert!(read("mcs:7/as:video").is_same_cell(&read("mcs:7")));
        assert!(!read("mcs:7/cell:upstairs").is_same_cell(&read("mcs:7")));
        assert!(!read("mcs:8").is_same_cell(&read("mcs:7")));
    }
}
