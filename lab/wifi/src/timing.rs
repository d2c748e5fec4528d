//! Durations of everything on the air.

use nearlight_units::{Bytes, Span};

use crate::phy::{Guard, Mcs, Mode, Width};

/// Durations and frame sizes that the presets differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    pub slot: Span,
    /// Gap between the frames of an exchange (SIFS).
    pub sifs: Span,
    /// Preamble of control frames, which are sent in the legacy format.
    pub legacy_preamble: Span,
    /// Bits of one 4 µs symbol of RTS, CTS and trigger frames: 24 at 6 Mb/s.
    pub control_symbol: u64,
    /// Bits of one 4 µs symbol of acknowledgements.
    pub acknowledgement_symbol: u64,
    /// Bits that end every coded block.
    pub tail: u64,
    /// Size of the acknowledgement of a single packet. None for a block acknowledgement.
    pub single_acknowledgement: Option<Bytes>,
    pub block_acknowledgement: Bytes,
    pub preamble: Preamble,
    /// MAC header, checksum and, in `standard-11ax`, the LLC header of every packet.
    pub packet_overhead: Bytes,
    /// Packets of an A-MPDU start on multiples of four bytes.
    pub aligned: bool,
    /// The longest data transmission: 5.484 ms, the maximum of the legacy header's length field.
    pub longest: Span,
}

/// The preamble of data transmissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preamble {
    Fixed(Span),
    /// A part that does not depend on streams, and training fields: one for one stream, two for two, four for three or four.
    PerStream {
        base: Span,
        training: Span,
    },
}

/// Service field at the head of every coded block (IEEE 802.11-2020, section 17.3.5.2).
const SERVICE_BITS: u64 = 16;
const RTS: Bytes = Bytes::new(20);
const CTS: Bytes = Bytes::new(14);
const ACKNOWLEDGEMENT: Bytes = Bytes::new(14);
/// Bits of the delimiter before each packet of an A-MPDU (IEEE 802.11-2020, section 9.7.1).
const DELIMITER_BITS: u64 = 32;
const LEGACY_SYMBOL: Span = Span::from_micros(4);
/// Common and user fields of a trigger frame (IEEE 802.11ax-2021, section 9.3.1.22): 28 bytes, 5 for each station, and one more where
/// data is requested.
const TRIGGER: Bytes = Bytes::new(28);
const TRIGGER_STATION: u64 = 5;
const TRIGGER_DATA: u64 = 1;
/// Size of a compressed block acknowledgement request (IEEE 802.11-2020, section 9.3.1.7).
const BLOCK_ACKNOWLEDGEMENT_REQUEST: Bytes = Bytes::new(24);
/// Sizes of a multi-station block acknowledgement (section 9.3.1.8.6): without stations, for a station whose packets all arrived, and for a station
/// with a bitmap of 256.
const MULTI_ACKNOWLEDGEMENT: Bytes = Bytes::new(22);
const MULTI_ACKNOWLEDGEMENT_WHOLE: u64 = 2;
const MULTI_ACKNOWLEDGEMENT_BITMAP: u64 = 36;
/// The longer short training field of triggered transmissions (section 27.3.11.9).
const TRIGGERED_TRAINING: Span = Span::from_micros(4);
/// HE-SIG-B (section 27.3.11.8): allocation of 20 MHz, check and tail, a pair of stations, one station.
const SIGNAL_ALLOCATION: u64 = 8;
const SIGNAL_CHECK: u64 = 10;
const SIGNAL_PAIR: u64 = 52;
const SIGNAL_SINGLE: u64 = 31;
/// Bits of a symbol of HE-SIG-B at MCS 0 to 5, the highest that it uses.
const SIGNAL_SYMBOL: [u64; 6] = [26, 52, 78, 104, 156, 208];

/// The shortest guard interval that a trigger may request (table 9-31c).
const TRIGGERED_GUARD: Guard = Guard::Nanos1600;

impl Timing {
    /// Komondor's timing, with its tail of 18 bits and everything at 6 Mb/s. It reproduces the published single exchange of 374 µs.
    pub const KOMONDOR: Self = Self {
        slot: Span::from_micros(9),
        sifs: Span::from_micros(16),
        legacy_preamble: Span::from_micros(20),
        control_symbol: 24,
        acknowledgement_symbol: 24,
        tail: 18,
        single_acknowledgement: None,
        block_acknowledgement: Bytes::new(32),
        preamble: Preamble::Fixed(Span::from_micros(100)),
        packet_overhead: Bytes::new(40),
        aligned: false,
        longest: Span::from_micros(5_484),
    };

    /// Timing of 802.11ax in ns-3 3.44: control frames at 6 Mb/s, acknowledgements at 24 Mb/s, bitmaps of 256.
    pub const STANDARD: Self = Self {
        acknowledgement_symbol: 96,
        tail: 6,
        single_acknowledgement: Some(Bytes::new(14)),
        block_acknowledgement: Bytes::new(56),
        preamble: Preamble::PerStream { base: Span::from_micros(36), training: Span::from_micros(8) },
        packet_overhead: Bytes::new(38),
        aligned: true,
        ..Self::KOMONDOR
    };

    pub fn rts(&self) -> Span {
        self.legacy(RTS, self.control_symbol)
    }

    pub fn cts(&self) -> Span {
        self.legacy(CTS, self.control_symbol)
    }

    /// Returns the duration of the acknowledgement of `packets` packets.
    pub fn acknowledgement(&self, packets: usize) -> Span {
        let size = self.single_acknowledgement.filter(|_| packets == 1).unwrap_or(self.block_acknowledgement);
        self.legacy(size, self.acknowledgement_symbol)
    }

    /// Returns the duration of a trigger that requests CTS or buffer status from `stations` stations.
    pub fn trigger(&self, stations: usize) -> Span {
        self.legacy(TRIGGER + Bytes::new(TRIGGER_STATION * stations as u64), self.control_symbol)
    }

    /// Returns the duration of a trigger that requests data from `stations` stations.
    pub fn data_trigger(&self, stations: usize) -> Span {
        self.legacy(TRIGGER + Bytes::new((TRIGGER_STATION + TRIGGER_DATA) * stations as u64), self.control_symbol)
    }

    /// Returns the duration of a multi-station acknowledgement: of all packets of `whole` stations, and some of `bitmaps` others.
    pub fn multi_acknowledgement(&self, whole: usize, bitmaps: usize) -> Span {
        let parts = whole as u64 * MULTI_ACKNOWLEDGEMENT_WHOLE + bitmaps as u64 * MULTI_ACKNOWLEDGEMENT_BITMAP;
        self.legacy(MULTI_ACKNOWLEDGEMENT + Bytes::new(parts), self.acknowledgement_symbol)
    }

    /// Returns the duration of a block acknowledgement request.
    pub fn block_acknowledgement_request(&self) -> Span {
        self.legacy(BLOCK_ACKNOWLEDGEMENT_REQUEST, self.acknowledgement_symbol)
    }

    /// Returns the bits of a packet inside a transmission.
    #[inline]
    pub fn packet_bits(&self, size: Bytes) -> u64 {
        let bits = (size + self.packet_overhead).bits();
        DELIMITER_BITS + if self.aligned { bits.next_multiple_of(32) } else { bits }
    }

    /// Returns the duration of a data transmission with `bits` of packets.
    pub fn data(&self, mode: Mode, bits: u64) -> Span {
        let symbols = mode.symbols(SERVICE_BITS + self.tail + bits);
        self.preamble_of(mode) + mode.symbol() * symbols as i64
    }

    /// Returns the most packet bits that a data transmission of at most `limit` carries; zero if not even a preamble fits.
    pub fn data_bits(&self, mode: Mode, limit: Span) -> u64 {
        let symbols = (limit.min(self.longest) - self.preamble_of(mode)).as_nanos() / mode.symbol().as_nanos();
        mode.bits_in(symbols.max(0) as u64).saturating_sub(SERVICE_BITS + self.tail)
    }

    /// Returns how long a sender waits for an answer to begin (IEEE 802.11-2020, section 10.3.2.9).
    pub fn answer_timeout(&self) -> Span {
        self.sifs + self.slot + self.legacy_preamble
    }

    /// Returns the time from the end of a transmission to that of an acknowledgement at the lowest rate: EIFS without the inter-frame space that
    /// follows (IEEE 802.11-2020, section 10.3.2.3.7).
    pub fn longest_answer(&self) -> Span {
        self.sifs + self.legacy(ACKNOWLEDGEMENT, self.control_symbol)
    }

    /// Returns how long a sender waits for the end of an answer that is a triggered transmission.
    pub fn triggered_timeout(&self, mode: Mode) -> Span {
        self.sifs + self.slot + self.preamble_of(mode) + TRIGGERED_TRAINING
    }

    /// Returns the duration of RTS, CTS and the gaps after them.
    pub fn protection(&self) -> Span {
        self.rts() + self.sifs + self.cts() + self.sifs
    }

    /// Returns the additional preamble of a transmission to `stations` stations compared with one to a single station. `mcs` is the slowest
    /// station's.
    pub fn multi_user_preamble(&self, width: Width, stations: usize, mcs: Mcs) -> Span {
        let channels = if width == Width::Mhz20 { 1 } else { 2 };
        let subchannels = u64::from(width.mhz() / 20).div_ceil(channels);
        let stations = (stations as u64).div_ceil(channels);
        // From 80 MHz on, one bit indicates whether the middle unit is used.
        let middle = u64::from(width >= Width::Mhz80);
        let users = stations / 2 * SIGNAL_PAIR + stations % 2 * SIGNAL_SINGLE;
        let bits = SIGNAL_ALLOCATION * subchannels + middle + SIGNAL_CHECK + users;
        let symbol = SIGNAL_SYMBOL[usize::from(mcs.index()).min(SIGNAL_SYMBOL.len() - 1)];
        LEGACY_SYMBOL * bits.div_ceil(symbol) as i64
    }

    /// Returns the duration of a triggered transmission of `bits`.
    pub fn triggered(&self, mode: Mode, bits: u64) -> Span {
        self.data(mode.with_guard(mode.guard().max(TRIGGERED_GUARD)), bits) + TRIGGERED_TRAINING
    }

    /// Returns the most packet bits of a triggered transmission of at most `limit`.
    pub fn triggered_bits(&self, mode: Mode, limit: Span) -> u64 {
        self.data_bits(mode.with_guard(mode.guard().max(TRIGGERED_GUARD)), limit - TRIGGERED_TRAINING)
    }

    /// Returns the bits of a control frame inside a transmission.
    pub fn control_bits(size: Bytes) -> u64 {
        DELIMITER_BITS + size.bits()
    }

    fn preamble_of(&self, mode: Mode) -> Span {
        match self.preamble {
            Preamble::Fixed(length) => length,
            Preamble::PerStream { base, training } => {
                let fields = if mode.streams() == 3 { 4 } else { mode.streams() };
                base + training * i64::from(fields)
            }
        }
    }

    fn legacy(&self, size: Bytes, symbol: u64) -> Span {
        let symbols = (SERVICE_BITS + size.bits() + self.tail).div_ceil(symbol);
        self.legacy_preamble + LEGACY_SYMBOL * symbols as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phy::{Guard, Mcs, Width};

    fn mode(guard: Guard) -> Mode {
        Mode::new(Width::Mhz80.whole(), Mcs::HIGHEST, 2, guard).expect("a mode")
    }

    #[test]
    fn komondor_durations_equal_the_table() {
        let timing = Timing::KOMONDOR;
        let mode = mode(Guard::Nanos3200);
        assert_eq!((timing.rts(), timing.cts()), (Span::from_micros(56), Span::from_micros(48)));
        assert_eq!(timing.acknowledgement(1), Span::from_micros(72));
        let table = [
            (1, 116, 374),
            (4, 148, 406),
            (16, 276, 534),
            (28, 388, 646),
            (42, 532, 790),
            (56, 676, 934),
            (84, 948, 1_206),
            (168, 1_796, 2_054),
        ];
        for (packets, data, exchange) in table {
            let bits = timing.packet_bits(Bytes::new(1_243)) * packets;
            let duration = timing.data(mode, bits);
            assert_eq!(duration, Span::from_micros(data), "{packets} packets");
            let aifs = timing.sifs + timing.slot * 2;
            let total = aifs + timing.protection() + duration + timing.sifs + timing.acknowledgement(packets as usize);
            assert_eq!(total, Span::from_micros(exchange), "{packets} packets");
        }
        // The time limit would allow 533 packets: it is the limit of 256 that binds.
        let most = timing.data_bits(mode, Span::MAX) / timing.packet_bits(Bytes::new(1_243));
        assert_eq!(most, 533);
    }

    /// Durations that ns-3 3.44 printed.
    #[test]
    fn standard_durations_equal_ns3() {
        let timing = Timing::STANDARD;
        assert_eq!((timing.rts(), timing.cts()), (Span::from_micros(52), Span::from_micros(44)));
        assert_eq!(timing.acknowledgement(1), Span::from_micros(28));
        assert_eq!(timing.acknowledgement(2), Span::from_micros(40));
        let data = timing.data(mode(Guard::Nanos800), timing.packet_bits(Bytes::new(1_243)));
        assert_eq!(data, Span::from_nanos(65_600));
        let exchange = timing.protection() + data + timing.sifs + timing.acknowledgement(1);
        assert_eq!(exchange, Span::from_nanos(237_600));
    }

    /// Durations that ns-3 3.44 printed for two and four stations on 80 MHz.
    #[test]
    fn multi_user_durations_equal_ns3() {
        let timing = Timing::STANDARD;
        let micros = |nanos| Span::from_nanos(nanos);
        assert_eq!([1, 2, 4].map(|stations| timing.trigger(stations)), [68, 76, 88].map(Span::from_micros));
        assert_eq!(timing.data_trigger(1), Span::from_micros(72));
        assert_eq!(timing.multi_acknowledgement(1, 0), Span::from_micros(32));
        let whole = mode(Guard::Nanos800);
        // Packets of 1,243 bytes, the request for an acknowledgement of 41 bytes, and how long they took on their units.
        for (stations, packets, duration) in
            [(1, 1, 69_600), (1, 28, 300_800), (2, 2, 96_800), (2, 42, 817_600), (4, 42, 1_579_200)]
        {
            let mode = whole.on(Width::Mhz80.split(stations).expect("a unit"));
            let bits = timing.packet_bits(Bytes::new(1_243)) * packets + 8 * 41;
            let preamble = timing.multi_user_preamble(Width::Mhz80, stations, Mcs::HIGHEST);
            assert_eq!(timing.data(mode, bits) + preamble, micros(duration), "{stations} stations, {packets} packets");
            // Each answers with a block acknowledgement on its unit.
            let answer = Timing::control_bits(timing.block_acknowledgement);
            assert_eq!(timing.triggered(mode, answer), micros(70_400), "{stations} stations");
        }
    }

    #[test]
    fn what_fits_is_what_the_duration_says() {
        for timing in [Timing::KOMONDOR, Timing::STANDARD] {
            for guard in [Guard::Nanos800, Guard::Nanos1600, Guard::Nanos3200] {
                for mcs in Mcs::HIGHEST.up_to() {
                    let mode = mode(guard).with_mcs(mcs);
                    for limit in [Span::from_micros(130), Span::from_micros(1_504), Span::MAX] {
                        let bits = timing.data_bits(mode, limit);
                        let limit = limit.min(timing.longest);
                        assert!(timing.data(mode, bits) <= limit && timing.data(mode, bits + 1) > limit, "{mode:?}");
                    }
                }
            }
        }
        assert_eq!(Timing::STANDARD.data_bits(mode(Guard::Nanos800), Span::from_micros(10)), 0);
    }
}
