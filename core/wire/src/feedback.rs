//! The receiver's report of which media datagrams arrived, and when.
//!
//! RFC 8888 quantises arrivals to 1/1024 s, ten packets of a 100 Mb/s stream; here the step is one microsecond.

use nearlight_units::{PacketSeq, RemoteTime};

use crate::cursor::{Reader, write_signed_varint};
use crate::{Kind, WireError};

/// Maximum number of consecutive sequence numbers in one feedback datagram: with five bytes for each it still fits 1,200.
pub const MAX_FEEDBACK_PACKETS: usize = 220;

/// Maximum number of microseconds between two arrivals in the report: 18 minutes, longer than any session can be silent.
const MAX_STEP: i32 = 1 << 30;

/// A datagram's fate as the receiver knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub seq: PacketSeq,
    /// When it arrived, on the client's clock. None for a datagram that has not arrived.
    pub at: Option<RemoteTime>,
    /// Whether it carried the mark "congestion experienced" (RFC 3168).
    pub ce: bool,
}

/// Arrivals of consecutive sequence numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feedback {
    /// When the report was sent, on the client's clock. Minus the newest arrival it is the time for which the client held it.
    pub sent_at: RemoteTime,
    pub first: PacketSeq,
    /// Arrivals of `first`, `first + 1`, ...: between 1 and [`MAX_FEEDBACK_PACKETS`] entries.
    pub arrivals: Vec<Option<RemoteTime>>,
    /// Indices in `arrivals`, ascending, of datagrams that carried the mark "congestion experienced" (RFC 3168).
    pub marked: Vec<u8>,
}

impl Feedback {
    /// Every covered datagram in sequence order.
    pub fn iter(&self) -> impl Iterator<Item = Arrival> + '_ {
        (0..).zip(&self.arrivals).map(|(offset, at)| Arrival {
            seq: PacketSeq(self.first.0.wrapping_add(offset)),
            at: *at,
            ce: self.marked.binary_search(&(offset as u8)).is_ok(),
        })
    }

    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        debug_assert!((1..=MAX_FEEDBACK_PACKETS).contains(&self.arrivals.len()));
        let kind = if self.marked.is_empty() { Kind::Feedback } else { Kind::MarkedFeedback };
        bytes.push(kind.first_byte());
        bytes.push(self.arrivals.len() as u8);
        bytes.extend_from_slice(&self.first.0.to_be_bytes());
        bytes.extend_from_slice(&self.sent_at.as_micros().to_be_bytes());
        for group in self.arrivals.chunks(8) {
            let mask = group.iter().enumerate().fold(0, |mask, (bit, at)| mask | (u8::from(at.is_some()) << bit));
            bytes.push(mask);
        }
        // Backwards from the report's own time each step is small. The first one is the age of the newest arrival.
        let mut previous = self.sent_at.as_micros() as i64;
        for at in self.arrivals.iter().rev().flatten() {
            let micros = at.as_micros() as i64;
            let step = (previous - micros).clamp(-i64::from(MAX_STEP), i64::from(MAX_STEP));
            write_signed_varint(bytes, step as i32);
            previous -= step;
        }
        if !self.marked.is_empty() {
            let mut mask = vec![0; self.arrivals.len().div_ceil(8)];
            for place in &self.marked {
                mask[usize::from(place / 8)] |= 1 << (place % 8);
            }
            bytes.extend_from_slice(&mask);
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>, has_marks: bool) -> Result<Self, WireError> {
        let count = usize::from(reader.u8()?);
        if count == 0 || count > MAX_FEEDBACK_PACKETS {
            return Err(WireError::Field("count"));
        }
        let first = PacketSeq(reader.u32()?);
        let sent_at = reader.time()?;
        let mask = reader.take(count.div_ceil(8))?;
        let mut arrivals = vec![None; count];
        let mut micros = sent_at.as_micros() as i64;
        for index in (0..count).rev() {
            if mask[index / 8] >> (index % 8) & 1 == 1 {
                let step = reader.signed_varint()?;
                if !(-MAX_STEP..=MAX_STEP).contains(&step) {
                    return Err(WireError::Field("arrival"));
                }
                micros -= i64::from(step);
                let at = u64::try_from(micros).map_err(|_| WireError::Field("arrival"))?;
                arrivals[index] = Some(Reader::time_of(at)?);
            }
        }
        let mut marked = Vec::new();
        if has_marks {
            let mask = reader.take(count.div_ceil(8))?;
            marked = (0..mask.len() * 8)
                .filter(|place| mask[place / 8] >> (place % 8) & 1 == 1)
                .map(|place| place as u8)
                .collect();
            let arrived = |place: &u8| arrivals.get(usize::from(*place)).is_some_and(Option::is_some);
            if marked.is_empty() || !marked.iter().all(arrived) {
                return Err(WireError::Field("marks"));
            }
        }
        Ok(Self { sent_at, first, arrivals, marked })
    }
}
