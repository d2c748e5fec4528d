//! Round trips from unencrypted RTCP reports (RFC 3550, section 6.4.1).

/// The reports of one compound packet. Encrypted bytes yield such values too: an echo counts only if it names a report that was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RtcpReports {
    /// The middle 32 bits of the NTP time in a sender's report.
    pub sent: Option<u32>,
    pub heard: Option<ReportEcho>,
}

/// The first block that answers a sender's report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReportEcho {
    /// The report that is answered: LSR.
    pub report: u32,
    /// Time since its arrival: DLSR, in 1/65536 s.
    pub held: u32,
}

const SENDER_REPORT: u8 = 200;
const RECEIVER_REPORT: u8 = 201;
const REPORT_BLOCK_BYTES: usize = 24;

/// Reads as much of a compound packet as was captured.
pub(super) fn reports(mut compound: &[u8]) -> RtcpReports {
    let mut found = RtcpReports::default();
    while let [head @ (128..=191), kind, high, low, ..] = *compound {
        let length = 4 * (usize::from(u16::from_be_bytes([high, low])) + 1);
        let packet = &compound[..length.min(compound.len())];
        let blocks_at = match kind {
            SENDER_REPORT => {
                found.sent = found.sent.or(word(packet, 10));
                28
            }
            RECEIVER_REPORT => 8,
            _ => packet.len(),
        };
        let answers = |block: usize| {
            let at = blocks_at + REPORT_BLOCK_BYTES * block;
            let report = word(packet, at + 16).filter(|report| *report != 0)?;
            Some(ReportEcho { report, held: word(packet, at + 20)? })
        };
        found.heard = found.heard.or_else(|| (0..usize::from(head & 0x1f)).find_map(answers));
        compound = &compound[packet.len()..];
    }
    found
}

fn word(packet: &[u8], at: usize) -> Option<u32> {
    let bytes = packet.get(at..at + 4)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read_as_far_as_they_were_captured() {
        let mut sender = vec![0x81, 200, 0, 12, 0, 0, 0, 1, 0xe0, 0, 0x12, 0x34, 0x56, 0x78, 0, 0];
        sender.extend([0; 12]);
        sender.extend([0; 16]);
        sender.extend([0xaa, 0xbb, 0xcc, 0xdd, 0, 1, 0, 0]);
        // A receiver's report whose first block answers nothing, behind a packet of another kind.
        let mut receiver = vec![0x80, 206, 0, 1, 0, 0, 0, 1, 0x82, 201, 0, 13, 0, 0, 0, 2];
        receiver.extend([0; 24]);
        receiver.extend([0; 16]);
        receiver.extend([1, 2, 3, 4, 0, 0, 0, 5]);
        let sent = Some(0x1234_5678);
        let heard = |report, held| Some(ReportEcho { report, held });
        let cases: [(&[u8], RtcpReports); 6] = [
            (&sender, RtcpReports { sent, heard: heard(0xaabb_ccdd, 65_536) }),
            (&sender[..40], RtcpReports { sent, heard: None }),
            (&sender[..12], RtcpReports::default()),
            (&receiver, RtcpReports { sent: None, heard: heard(0x0102_0304, 5) }),
            (&[0x80, 200, 0xff, 0xff], RtcpReports::default()),
            (&[], RtcpReports::default()),
        ];
        for (compound, expected) in cases {
            assert_eq!(reports(compound), expected, "{compound:02x?}");
        }
    }
}
