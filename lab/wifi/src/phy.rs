//! What one OFDM symbol carries: channel width or resource unit, modulation and coding, streams, guard interval.

use std::fmt;

use nearlight_units::{Bitrate, Span};
use serde::{Deserialize, Serialize};

use crate::error::ConfigError;

/// A channel's width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub enum Width {
    Mhz20,
    Mhz40,
    Mhz80,
    Mhz160,
}

impl Width {
    pub const fn mhz(self) -> u16 {
        match self {
            Self::Mhz20 => 20,
            Self::Mhz40 => 40,
            Self::Mhz80 => 80,
            Self::Mhz160 => 160,
        }
    }

    /// Returns the resource unit that fills the channel.
    pub const fn whole(self) -> Tones {
        match self {
            Self::Mhz20 => Tones::T242,
            Self::Mhz40 => Tones::T484,
            Self::Mhz80 => Tones::T996,
            Self::Mhz160 => Tones::T2x996,
        }
    }

    /// Returns how many of `stations` get a resource unit when the channel is split into equal units and none stays empty.
    pub fn filled_by(self, stations: usize) -> usize {
        let counts = Tones::ALL.into_iter().map(|tones| tones.in_channel(self));
        counts.filter(|count| *count <= stations).max().unwrap_or(1)
    }

    /// Returns the largest resource unit of which the channel holds at least `stations` (IEEE 802.11ax-2021, tables 27-7 to 27-9).
    pub fn split(self, stations: usize) -> Option<Tones> {
        Tones::ALL.into_iter().rev().find(|tones| tones.in_channel(self) >= stations.max(1))
    }
}

impl TryFrom<u16> for Width {
    type Error = ConfigError;

    fn try_from(mhz: u16) -> Result<Self, ConfigError> {
        let all = [Self::Mhz20, Self::Mhz40, Self::Mhz80, Self::Mhz160];
        all.into_iter().find(|width| width.mhz() == mhz).ok_or(ConfigError::Width(mhz))
    }
}

impl From<Width> for u16 {
    fn from(width: Width) -> Self {
        width.mhz()
    }
}

/// A resource unit by its number of subcarriers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Tones {
    T26,
    T52,
    T106,
    T242,
    T484,
    T996,
    T2x996,
}

impl Tones {
    /// From the smallest to the largest.
    pub const ALL: [Self; 7] = [Self::T26, Self::T52, Self::T106, Self::T242, Self::T484, Self::T996, Self::T2x996];

    /// Returns the number of subcarriers.
    pub const fn subcarriers(self) -> u64 {
        match self {
            Self::T26 => 26,
            Self::T52 => 52,
            Self::T106 => 106,
            Self::T242 => 242,
            Self::T484 => 484,
            Self::T996 => 996,
            Self::T2x996 => 1_992,
        }
    }

    /// Returns the number of data subcarriers (IEEE 802.11ax-2021, table 27-15 and its neighbours: `N_SD`).
    pub const fn data_subcarriers(self) -> u64 {
        match self {
            Self::T26 => 24,
            Self::T52 => 48,
            Self::T106 => 102,
            Self::T242 => 234,
            Self::T484 => 468,
            Self::T996 => 980,
            Self::T2x996 => 1_960,
        }
    }

    /// Returns how many units of this size a channel holds; zero if none fits.
    pub const fn in_channel(self, width: Width) -> usize {
        let counts = match width {
            Width::Mhz20 => [9, 4, 2, 1, 0, 0, 0],
            Width::Mhz40 => [18, 8, 4, 2, 1, 0, 0],
            Width::Mhz80 => [37, 16, 8, 4, 2, 1, 0],
            Width::Mhz160 => [74, 32, 16, 8, 4, 2, 1],
        };
        counts[self as usize]
    }
}

/// Guard interval between symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub enum Guard {
    Nanos800,
    Nanos1600,
    Nanos3200,
}

impl Guard {
    pub const fn nanos(self) -> u16 {
        match self {
            Self::Nanos800 => 800,
            Self::Nanos1600 => 1_600,
            Self::Nanos3200 => 3_200,
        }
    }

    /// Returns the duration of a symbol with its guard interval: 12.8 µs and the interval (IEEE 802.11ax-2021, table 27-12).
    pub const fn symbol(self) -> Span {
        Span::from_nanos(12_800 + self.nanos() as i64)
    }
}

impl TryFrom<u16> for Guard {
    type Error = ConfigError;

    fn try_from(nanos: u16) -> Result<Self, ConfigError> {
        let all = [Self::Nanos800, Self::Nanos1600, Self::Nanos3200];
        all.into_iter().find(|guard| guard.nanos() == nanos).ok_or(ConfigError::Guard(nanos))
    }
}

impl From<Guard> for u16 {
    fn from(guard: Guard) -> Self {
        guard.nanos()
    }
}

/// Modulation and coding scheme of 802.11ax: 0 (BPSK 1/2) to 11 (1024-QAM 5/6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Mcs(u8);

impl Mcs {
    pub const LOWEST: Self = Self(0);
    pub const HIGHEST: Self = Self(11);
    /// The lowest with 1024-QAM.
    const FIRST_1024_QAM: Self = Self(10);

    pub const fn index(self) -> u8 {
        self.0
    }

    /// Returns all schemes up to this one.
    pub fn up_to(self) -> impl DoubleEndedIterator<Item = Self> {
        (0..=self.0).map(Self)
    }

    /// Returns the coded bits per subcarrier, and the code rate as numerator and denominator (IEEE 802.11ax-2021, section 27.5).
    const fn bits_and_rate(self) -> (u64, u64, u64) {
        match self.0 {
            0 => (1, 1, 2),
            1 => (2, 1, 2),
            2 => (2, 3, 4),
            3 => (4, 1, 2),
            4 => (4, 3, 4),
            5 => (6, 2, 3),
            6 => (6, 3, 4),
            7 => (6, 5, 6),
            8 => (8, 3, 4),
            9 => (8, 5, 6),
            10 => (10, 3, 4),
            _ => (10, 5, 6),
        }
    }
}

impl TryFrom<u8> for Mcs {
    type Error = ConfigError;

    fn try_from(index: u8) -> Result<Self, ConfigError> {
        if index <= Self::HIGHEST.0 { Ok(Self(index)) } else { Err(ConfigError::Mcs(index)) }
    }
}

impl From<Mcs> for u8 {
    fn from(mcs: Mcs) -> Self {
        mcs.0
    }
}

impl fmt::Display for Mcs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// A transmission mode: everything that determines how many bits a symbol carries and how long it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    tones: Tones,
    mcs: Mcs,
    streams: u8,
    guard: Guard,
}

impl Mode {
    /// Largest number of spatial streams. Clients have one or two; the standard allows eight.
    pub const MAX_STREAMS: u8 = 4;

    /// Returns a mode on a whole channel or a resource unit.
    ///
    /// # Errors
    ///
    /// The scheme or the number of streams is not supported.
    pub fn new(tones: Tones, mcs: Mcs, streams: u8, guard: Guard) -> Result<Self, ConfigError> {
        if !(1..=Self::MAX_STREAMS).contains(&streams) {
            return Err(ConfigError::Streams(streams));
        }
        if mcs >= Mcs::FIRST_1024_QAM && tones < Tones::T242 {
            return Err(ConfigError::McsOnTones { mcs, tones });
        }
        Ok(Self { tones, mcs, streams, guard })
    }

    /// Returns the mode on other subcarriers, with the highest scheme that they support if they do not support this one.
    #[must_use]
    pub fn on(self, tones: Tones) -> Self {
        let most = if tones < Tones::T242 { Mcs(Mcs::FIRST_1024_QAM.0 - 1) } else { Mcs::HIGHEST };
        Self { tones, mcs: self.mcs.min(most), ..self }
    }

    #[must_use]
    pub const fn with_mcs(self, mcs: Mcs) -> Self {
        Self { mcs, ..self }
    }

    #[must_use]
    pub const fn with_guard(self, guard: Guard) -> Self {
        Self { guard, ..self }
    }

    pub const fn guard(self) -> Guard {
        self.guard
    }

    pub const fn mcs(self) -> Mcs {
        self.mcs
    }

    pub const fn streams(self) -> u8 {
        self.streams
    }

    pub const fn symbol(self) -> Span {
        self.guard.symbol()
    }

    /// Returns the symbols that `bits` fill, exactly: a symbol may carry a fraction of a bit (80 MHz, MCS 11, 2 streams: 16333 1/3).
    pub const fn symbols(self, bits: u64) -> u64 {
        let (numerator, denominator) = self.bits_per_symbol();
        (bits * denominator).div_ceil(numerator)
    }

    /// Returns the most bits that fit into `symbols`.
    pub const fn bits_in(self, symbols: u64) -> u64 {
        let (numerator, denominator) = self.bits_per_symbol();
        symbols * numerator / denominator
    }

    /// Returns the data rate without overhead.
    pub fn rate(self) -> Bitrate {
        let (numerator, denominator) = self.bits_per_symbol();
        Bitrate::from_bps(numerator * 1_000_000_000 / (denominator * self.symbol().as_nanos() as u64))
    }

    const fn bits_per_symbol(self) -> (u64, u64) {
        let (bits, numerator, denominator) = self.mcs.bits_and_rate();
        (self.tones.data_subcarriers() * bits * self.streams as u64 * numerator, denominator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(width: Width, mcs: u8, streams: u8, guard: Guard) -> Mode {
        Mode::new(width.whole(), Mcs::try_from(mcs).expect("a scheme"), streams, guard).expect("a mode")
    }

    /// Data rates in Mb/s, one decimal, as IEEE 802.11ax-2021 prints them in section 27.5.
    #[test]
    fn data_rates_equal_the_standard() {
        let cases = [
            (Width::Mhz20, 0, 1, Guard::Nanos800, 8.6),
            (Width::Mhz20, 0, 1, Guard::Nanos1600, 8.1),
            (Width::Mhz20, 0, 1, Guard::Nanos3200, 7.3),
            (Width::Mhz20, 11, 1, Guard::Nanos800, 143.4),
            (Width::Mhz40, 7, 2, Guard::Nanos800, 344.1),
            (Width::Mhz80, 9, 2, Guard::Nanos800, 960.8),
            (Width::Mhz80, 11, 2, Guard::Nanos800, 1_201.0),
            (Width::Mhz80, 4, 1, Guard::Nanos3200, 183.8),
            (Width::Mhz160, 11, 4, Guard::Nanos800, 4_803.9),
        ];
        for (width, mcs, streams, guard, expected) in cases {
            let rate = mode(width, mcs, streams, guard).rate().as_mbps_f64();
            assert!((rate - expected).abs() <= 0.051, "{width:?} MCS {mcs}: {rate} instead of {expected}");
        }
    }

    #[test]
    fn symbols_and_bits_are_inverse() {
        for mcs in Mcs::HIGHEST.up_to() {
            for width in [Width::Mhz20, Width::Mhz40, Width::Mhz80, Width::Mhz160] {
                for streams in 1..=4 {
                    let mode = mode(width, mcs.index(), streams, Guard::Nanos800);
                    for symbols in 1..40 {
                        let bits = mode.bits_in(symbols);
                        assert_eq!((mode.symbols(bits), mode.symbols(bits + 1)), (symbols, symbols + 1), "{mode:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn channels_split_into_the_largest_equal_units() {
        let cases = [
            (Width::Mhz20, 1, Some(Tones::T242)),
            (Width::Mhz20, 3, Some(Tones::T52)),
            (Width::Mhz80, 2, Some(Tones::T484)),
            (Width::Mhz80, 4, Some(Tones::T242)),
            (Width::Mhz80, 5, Some(Tones::T106)),
            (Width::Mhz160, 9, Some(Tones::T106)),
            (Width::Mhz20, 10, None),
        ];
        for (width, stations, expected) in cases {
            assert_eq!(width.split(stations), expected, "{width:?} for {stations}");
        }
    }

    #[test]
    fn as_many_stations_as_leave_no_unit_empty() {
        let cases = [
            (Width::Mhz80, 1, 1),
            (Width::Mhz80, 3, 2),
            (Width::Mhz80, 7, 4),
            (Width::Mhz20, 3, 2),
            (Width::Mhz20, 10, 9),
        ];
        for (width, stations, expected) in cases {
            assert_eq!(width.filled_by(stations), expected, "{width:?} for {stations}");
        }
    }

    #[test]
    fn impossible_modes_are_refused_with_the_reason() {
        let error = |result: Result<Mode, ConfigError>| result.expect_err("must be refused").to_string();
        assert!(Mcs::try_from(12).expect_err("no such scheme").to_string().contains("0 to 11"));
        assert!(Width::try_from(60).expect_err("no such width").to_string().contains("20, 40, 80 or 160"));
        assert!(Guard::try_from(400).expect_err("no such guard interval").to_string().contains("800, 1600 or 3200"));
        assert!(error(Mode::new(Tones::T996, Mcs(5), 0, Guard::Nanos800)).contains("1 to 4"));
        assert!(error(Mode::new(Tones::T996, Mcs(5), 5, Guard::Nanos800)).contains("1 to 4"));
        assert!(error(Mode::new(Tones::T106, Mcs(10), 1, Guard::Nanos800)).contains("242"));
        assert_eq!(mode(Width::Mhz80, 11, 2, Guard::Nanos800).on(Tones::T106).mcs(), Mcs(9));
    }
}
