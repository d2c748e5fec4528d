//! The configuration of a cell, and the presets that are validated against published numbers.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use nearlight_units::{Bitrate, Bytes, Span};
use serde::{Deserialize, Serialize};

use crate::error::ConfigError;
use crate::ofdma::MultiUser;
use crate::phy::{Guard, Mcs, Mode, Width};
use crate::timing::Timing;

/// Largest number of stations of a cell. Guess: beyond it contention is too crowded for streaming.
pub const MAX_STATIONS: usize = 128;

/// Cells whose behaviour was validated against other simulators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// The simulator of the Unity Render Streaming study: a Komondor with its fixed durations.
    KomondorVr,
    /// 802.11ax with the durations of ns-3 3.44.
    #[serde(rename = "standard-11ax")]
    Standard11ax,
}

impl fmt::Display for Preset {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::KomondorVr => "komondor-vr",
            Self::Standard11ax => "standard-11ax",
        })
    }
}

impl FromStr for Preset {
    type Err = ConfigError;

    fn from_str(name: &str) -> Result<Self, ConfigError> {
        let all = [Self::KomondorVr, Self::Standard11ax];
        all.into_iter().find(|preset| preset.to_string() == name).ok_or_else(|| ConfigError::Preset(name.to_owned()))
    }
}

/// Access categories of EDCA, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Category {
    Voice,
    Video,
    BestEffort,
    Background,
}

impl Category {
    pub const ALL: [Self; 4] = [Self::Voice, Self::Video, Self::BestEffort, Self::Background];

    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Category {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Voice => "voice",
            Self::Video => "video",
            Self::BestEffort => "best-effort",
            Self::Background => "background",
        })
    }
}

impl FromStr for Category {
    type Err = ConfigError;

    fn from_str(name: &str) -> Result<Self, ConfigError> {
        let found = Self::ALL.into_iter().find(|category| category.to_string() == name);
        found.ok_or_else(|| ConfigError::Category(name.to_owned()))
    }
}

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the access point to a station.
    Downlink,
    Uplink,
}

/// How one access category contends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edca {
    /// Slots that follow SIFS before the backoff counts.
    pub aifs_slots: u8,
    /// Minimum contention window: the first backoff is drawn from 0 to this.
    pub window_min: u16,
    /// Maximum contention window.
    pub window_max: u16,
    /// Longest duration of one access (TXOP). None for a single exchange.
    pub txop: Option<Span>,
}

impl Edca {
    /// The parameters of IEEE 802.11-2012, table 8-105: voice, video, best effort, background.
    pub const STANDARD: [Self; 4] = [
        Self { aifs_slots: 2, window_min: 3, window_max: 7, txop: Some(Span::from_micros(1_504)) },
        Self { aifs_slots: 2, window_min: 7, window_max: 15, txop: Some(Span::from_micros(3_008)) },
        Self { aifs_slots: 3, window_min: 15, window_max: 1_023, txop: None },
        Self { aifs_slots: 7, window_min: 15, window_max: 1_023, txop: None },
    ];

    /// The study's only class (its table 4): AIFS 34 µs, windows from 31 to 1023.
    const STUDY: Self = Self { aifs_slots: 2, window_min: 31, window_max: 1_023, txop: None };
}

/// How contenders count slots, and when they begin to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessRule {
    /// Komondor's rule. An arrival that finds everything idle waits an AIFS. A backoff counts whole idle slots. A contender that meets a busy medium
    /// while it waits draws a backoff. After a collision all wait for the missing CTS.
    Komondor,
    /// The rule of the standard (IEEE 802.11-2020, section 10.23.2.4) and of ns-3. All contenders act at slot boundaries, the first of which ends the
    /// AIFS. A backoff counts at each of them, including that at which another contender begins. After a collision only the senders wait for their
    /// CTS.
    Edca,
}

/// How the access point chooses among stations with packets of one category.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// The station whose oldest packet has waited longest, as in ns-3 and in any access point with a single queue.
    OldestFirst,
    /// Stations take turns, one access each.
    InTurn,
    /// Stations get equal airtime, as in Linux: a station that had more than its share waits for the others.
    AirtimeFair,
}

/// When a packet counts as delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveredAt {
    /// When the sender receives the acknowledgement.
    Acknowledgement,
    /// When the receiver has the whole transmission.
    DataEnd,
    /// When the receiver has the packet, while the rest of its transmission is still on the air.
    PacketEnd,
}

/// The configuration of a cell. Start from a preset and change what differs.
#[derive(Clone, Debug, PartialEq)]
pub struct CellConfig {
    pub timing: Timing,
    pub width: Width,
    /// Every access starts with RTS and CTS.
    pub rts_cts: bool,
    /// Contention parameters, indexed by [`Category`].
    pub edca: [Edca; 4],
    pub access: AccessRule,
    pub service: Service,
    pub delivered_at: DeliveredAt,
    /// The receiver holds packets back until those before them have arrived or were given up.
    pub in_order: bool,
    /// The sender keeps its packets within 256 of the first unacknowledged one, as block acknowledgement demands.
    pub window: bool,
    /// Largest number of packets of an A-MPDU, 1 to 256.
    pub aggregate: u16,
    /// Retransmissions of a packet before it is given up.
    pub retries: u8,
    /// Packets, those on the air included, that the access point holds for one station and category.
    pub access_point_queue: u16,
    /// Packets, those on the air included, that a station holds in one category.
    pub station_queue: u16,
    pub stations: Vec<StationConfig>,
    /// Other cells on the same channel.
    pub neighbours: Vec<Neighbour>,
    pub multi_user: MultiUser,
}

/// One station.
#[derive(Clone, Debug, PartialEq)]
pub struct StationConfig {
    /// The scheme it uses, or the highest that rate adaptation may choose.
    pub mcs: Mcs,
    pub streams: u8,
    pub guard: Guard,
    pub channel: Channel,
    pub adaptation: Adaptation,
    /// It leaves the channel to look for other access points.
    pub scan: Option<Scan>,
    /// Traffic that the cell generates for it; its packets are counted but never exit.
    pub background: Option<Background>,
    /// How long its packets may wait, for schedulers that look at deadlines.
    pub patience: Span,
}

/// What happens to packets on the way between access point and station.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Channel {
    /// Each packet is lost with this probability, at every scheme and size.
    Fixed { loss: f64 },
    /// The signal-to-noise ratio wanders, and loss follows from it, scheme and size.
    Fading(Fading),
}

/// A signal-to-noise ratio that wanders around a mean (first-order Gauss-Markov, in dB).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fading {
    /// Mean in dB.
    pub mean: f64,
    /// Standard deviation in dB.
    pub deviation: f64,
    /// Time in which the memory of a value falls to 1/e.
    pub coherence: Span,
}

/// How the modulation and coding scheme is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adaptation {
    /// Fixed: always the station's scheme.
    Fixed,
    /// The highest scheme that loses at most a tenth at the present signal-to-noise ratio: an upper bound that no device reaches.
    Ideal,
    /// From the outcome of transmissions, after Linux's Minstrel.
    Minstrel,
}

/// Periodic absences that the station announces, so that the access point buffers its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// From one absence's start to the next.
    pub interval: Span,
    pub dwell: Span,
    /// The first absence.
    pub first: Span,
}

/// Traffic that loads the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Background {
    pub direction: Direction,
    pub category: Category,
    pub size: Bytes,
    /// None for a saturated source.
    pub rate: Option<Bitrate>,
}

/// Another cell on the same channel, within carrier sense range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbour {
    /// Share of time for which it has something to send, 0 to 0.95.
    pub load: f64,
    /// How long each of its exchanges lasts.
    pub burst: Span,
}

impl CellConfig {
    /// Returns the preset: one station at 80 MHz, MCS 11, two streams, 10 % packet loss (the study's table 4).
    #[must_use]
    pub fn preset(preset: Preset) -> Self {
        let [voice, video, _, background] = Edca::STANDARD;
        let komondor = Self {
            timing: Timing::KOMONDOR,
            width: Width::Mhz80,
            rts_cts: true,
            edca: [voice, video, Edca::STUDY, Edca { window_min: 31, ..background }],
            access: AccessRule::Komondor,
            service: Service::OldestFirst,
            delivered_at: DeliveredAt::Acknowledgement,
            in_order: false,
            window: false,
            aggregate: 256,
            retries: 7,
            access_point_queue: 1_000,
            station_queue: 150,
            stations: vec![StationConfig { guard: Guard::Nanos3200, ..StationConfig::default() }],
            neighbours: Vec::new(),
            multi_user: MultiUser::default(),
        };
        match preset {
            Preset::KomondorVr => komondor,
            Preset::Standard11ax => Self {
                timing: Timing::STANDARD,
                access: AccessRule::Edca,
                delivered_at: DeliveredAt::DataEnd,
                window: true,
                stations: vec![StationConfig::default()],
                ..komondor
            },
        }
    }

    /// Repeats the first station `count` times.
    #[must_use]
    pub fn with_stations(mut self, count: usize) -> Self {
        if let Some(first) = self.stations.first().cloned() {
            // One more than the maximum is enough for a rejection.
            self.stations = vec![first; count.min(MAX_STATIONS + 1)];
        }
        self
    }

    /// Returns the station's transmission mode, for both directions.
    pub fn mode(&self, station: &StationConfig) -> Result<Mode, ConfigError> {
        Mode::new(self.width.whole(), station.mcs, station.streams, station.guard)
    }

    /// Returns the largest packet that every scheme of the station carries within the limits of a transmission.
    pub fn longest_packet(&self, station: &StationConfig) -> Result<Bytes, ConfigError> {
        let lowest = if station.adaptation == Adaptation::Fixed { station.mcs } else { Mcs::LOWEST };
        let mode = Mode::new(self.width.whole(), lowest, station.streams, station.guard)?;
        let bits = self.timing.data_bits(mode, self.timing.longest);
        // Less the delimiter, the headers and, if packets are aligned, up to three bytes of padding.
        let overhead = self.timing.packet_bits(Bytes::ZERO) / 8 + 3;
        let most = MAX_MPDU.saturating_sub(self.timing.packet_overhead);
        Ok(Bytes::new((bits / 8).saturating_sub(overhead)).min(most))
    }

    /// Checks the configuration.
    ///
    /// # Errors
    ///
    /// The first invalid setting.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.stations.is_empty() {
            return Err(ConfigError::NoStations);
        }
        if self.stations.len() > MAX_STATIONS {
            return Err(ConfigError::TooManyStations);
        }
        self.timing.check()?;
        for edca in &self.edca {
            edca.check(&self.timing)?;
        }
        within("the number of packets in an A-MPDU", self.aggregate, 1..=u64::from(MAX_AGGREGATED_PACKETS))?;
        within("the number of retries", self.retries, 0..=15)?;
        within("the access point's queue", self.access_point_queue, 1..=u64::from(MAX_QUEUED_PACKETS))?;
        within("a station's queue", self.station_queue, 1..=u64::from(MAX_QUEUED_PACKETS))?;
        for station in &self.stations {
            station.check(self)?;
        }
        within("the number of neighbours", self.neighbours.len() as u64, 0..=16)?;
        for neighbour in &self.neighbours {
            share("a neighbour's load", neighbour.load, 0.95)?;
            length("a neighbour's exchange", neighbour.burst, Span::from_micros(50), Span::from_millis(10))?;
        }
        self.multi_user.check(self)
    }
}

/// Longest MPDU of an HE station (IEEE 802.11ax-2021, table 9-25).
const MAX_MPDU: Bytes = Bytes::new(11_454);
/// Most packets of an A-MPDU: the bits of a block acknowledgement's bitmap.
pub(crate) const MAX_AGGREGATED_PACKETS: u16 = 256;
/// Largest queue in packets. Guess: a longer one holds seconds.
const MAX_QUEUED_PACKETS: u16 = 20_000;

impl Default for StationConfig {
    /// MCS 11, two streams, the short guard interval, a tenth of all packets lost, no rate adaptation.
    fn default() -> Self {
        Self {
            mcs: Mcs::HIGHEST,
            streams: 2,
            guard: Guard::Nanos800,
            channel: Channel::Fixed { loss: 0.1 },
            adaptation: Adaptation::Fixed,
            scan: None,
            background: None,
            patience: Span::from_millis(10),
        }
    }
}

impl StationConfig {
    fn check(&self, cell: &CellConfig) -> Result<(), ConfigError> {
        cell.mode(self)?;
        match self.channel {
            Channel::Fixed { loss } => share("packet loss", loss, 1.0)?,
            Channel::Fading(fading) => {
                decibel("the mean signal-to-noise ratio", fading.mean, -20.0, 80.0)?;
                decibel("the deviation of the signal-to-noise ratio", fading.deviation, 0.0, 20.0)?;
                length("the coherence time", fading.coherence, Span::from_micros(100), Span::from_secs(1_000))?;
            }
        }
        if let Some(scan) = self.scan {
            length("the interval of scans", scan.interval, Span::from_millis(1), Span::from_secs(86_400))?;
            length("a scan", scan.dwell, Span::from_micros(1), scan.interval - Span::from_micros(1))?;
            length("the time to the first scan", scan.first, Span::ZERO, Span::from_secs(86_400))?;
        }
        length("a station's patience", self.patience, Span::ZERO, Span::from_secs(10))?;
        if let Some(background) = self.background {
            let longest = cell.longest_packet(self)?;
            if background.size > longest {
                return Err(ConfigError::PacketTooLong { size: background.size, longest, mcs: self.mcs });
            }
            within("the size of a background packet", background.size.get(), 1..=longest.get())?;
            if let Some(rate) = background.rate {
                within("the rate of background traffic in b/s", rate.as_bps(), 1_000..=10_000_000_000)?;
            }
        }
        Ok(())
    }
}

impl Edca {
    /// Returns the AIFS: SIFS and this category's slots.
    pub(crate) fn aifs(&self, timing: &Timing) -> Span {
        timing.sifs + timing.slot * i64::from(self.aifs_slots)
    }

    fn check(&self, timing: &Timing) -> Result<(), ConfigError> {
        within("the slots of an AIFS", self.aifs_slots, 1..=15)?;
        within("the largest contention window", self.window_max, 0..=32_767)?;
        within("the smallest contention window", self.window_min, 0..=u64::from(self.window_max))?;
        if let Some(txop) = self.txop {
            // Protection, an acknowledgement and half a millisecond of data.
            let least = timing.protection() + timing.sifs + timing.acknowledgement(2) + Span::from_micros(500);
            length("a transmit opportunity", txop, least, Span::from_millis(32))?;
        }
        Ok(())
    }
}

impl Timing {
    fn check(&self) -> Result<(), ConfigError> {
        let micro = Span::from_micros(1);
        length("a slot", self.slot, micro, Span::from_micros(100))?;
        length("a SIFS", self.sifs, micro, Span::from_micros(100))?;
        length("the legacy preamble", self.legacy_preamble, micro, Span::from_millis(1))?;
        length("the longest transmission", self.longest, Span::from_millis(1), Span::from_micros(5_484))?;
        within("bits of a control symbol", self.control_symbol, 24..=216)?;
        within("bits of an acknowledgement's symbol", self.acknowledgement_symbol, 24..=216)
    }
}

pub(crate) fn within(what: &'static str, value: impl Into<u64>, range: RangeInclusive<u64>) -> Result<(), ConfigError> {
    let (value, least, most) = (value.into(), *range.start(), *range.end());
    if range.contains(&value) { Ok(()) } else { Err(ConfigError::Range { what, value, least, most }) }
}

pub(crate) fn length(what: &'static str, value: Span, least: Span, most: Span) -> Result<(), ConfigError> {
    if (least..=most).contains(&value) { Ok(()) } else { Err(ConfigError::Length { what, value, least, most }) }
}

pub(crate) fn share(what: &'static str, value: f64, most: f64) -> Result<(), ConfigError> {
    if (0.0..=most).contains(&value) { Ok(()) } else { Err(ConfigError::Share { what, value, most }) }
}

fn decibel(what: &'static str, value: f64, least: f64, most: f64) -> Result<(), ConfigError> {
    if (least..=most).contains(&value) { Ok(()) } else { Err(ConfigError::Decibel { what, value, least, most }) }
}
