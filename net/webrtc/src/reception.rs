//! Extracts from receiver reports the packets since the previous one (RFC 3550 section 6.4.1).

use nearlight_rate::ReceiverReport;
use rtc::rtcp::reception_report::ReceptionReport;

/// Maximum number of packets between two reports: at 100 Mb/s it is half a minute. More cannot be ours.
const MAX_EXPECTED: u32 = 1 << 18;

/// The last report of a stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reception {
    last: Option<Counts>,
}

#[derive(Clone, Copy, Debug)]
struct Counts {
    /// Highest number received, with its wraps.
    highest: u32,
    /// Number of lost packets, 24 bits. Duplicate packets are subtracted.
    lost: u32,
}

impl Reception {
    /// Handles a report. Returns None for the first one, and for one without news.
    pub(crate) fn on_report(&mut self, report: &ReceptionReport) -> Option<ReceiverReport> {
        let now = Counts { highest: report.last_sequence_number, lost: report.total_lost & 0x00FF_FFFF };
        let before = self.last.replace(now)?;
        let expected = now.highest.wrapping_sub(before.highest);
        if expected == 0 || expected > MAX_EXPECTED {
            return None;
        }
        // A smaller total than before means that more arrived than was sent. It reads as a large number of 24 bits.
        let lost = now.lost.wrapping_sub(before.lost) & 0x00FF_FFFF;
        let lost = if lost > expected { 0 } else { lost };
        Some(ReceiverReport::Packets { arrived: expected - lost, lost })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_tell_what_happened_since_the_one_before() {
        let mut reception = Reception::default();
        let mut hear = |highest, lost| {
            reception.on_report(&ReceptionReport {
                last_sequence_number: highest,
                total_lost: lost,
                ..ReceptionReport::default()
            })
        };
        let news = |arrived, lost| Some(ReceiverReport::Packets { arrived, lost });
        assert_eq!(hear(0xFFFF_FF00, 3), None);
        assert_eq!(hear(0xFFFF_FF64, 13), news(90, 10));
        assert_eq!(hear(0xFFFF_FF64, 13), None, "nothing new");
        assert_eq!(hear(0, 13), news(156, 0), "numbers wrap");
        assert_eq!(hear(100, 11), news(100, 0), "two came twice");
        assert_eq!(hear(50, 11), None, "of an older time, or a lie");
        assert_eq!(hear(60, 0x00FF_FFFF), news(10, 0), "a lie");
    }
}
