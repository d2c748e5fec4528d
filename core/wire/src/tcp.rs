//! The kernel's statistics of a TCP connection (`TCP_INFO`), as carriers pass them to sessions and rate controllers.

use nearlight_units::{Bitrate, Bytes, Span};

/// Maximum ratio of the target to the rate at which TCP delivered when it had more to send: as far as BBR probes beyond it
/// (draft-ietf-ccwg-bbr, `BBRPacingGain` in `ProbeBW_UP`), so that the rate can grow when the path has become wider.
const DELIVERY_GAIN: f64 = 1.25;

/// The state of TCP's loss recovery (`enum tcp_ca_state` of Linux).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpRecovery {
    /// No data is missing.
    Open,
    /// Data has arrived out of order: a loss, or a path that reorders.
    Disorder,
    /// The window was reduced for a mark, or for a queue on this machine.
    Reduced,
    /// Lost segments are retransmitted.
    Recovery,
    /// Lost segments are retransmitted after a time-out.
    Loss,
}

/// A snapshot of a connection's state from the kernel (`TCP_INFO`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpInfo {
    pub recovery: TcpRecovery,
    /// Smoothed round trip (RFC 6298), zero before the first sample. Selective acknowledgements keep measuring it while a segment is
    /// missing.
    pub round_trip: Span,
    pub round_trip_variation: Span,
    /// The recent minimum round trip. The kernel decides over which time.
    pub minimum_round_trip: Option<Span>,
    /// The congestion window, in whole segments.
    pub congestion_window: Bytes,
    /// The slow-start threshold. None before the first loss.
    pub slow_start_threshold: Option<Bytes>,
    /// Number of unacknowledged segments.
    pub unacknowledged: u32,
    /// Segments that count as lost and have not been acknowledged since.
    pub lost: u32,
    /// Delivery rate of the newest sample that was not limited by the application, or of a later one that was higher. Zero before the
    /// first.
    pub delivery_rate: Bitrate,
    /// Whether that sample was taken while TCP had nothing more to send.
    pub app_limited: bool,
    /// The pacing rate. None without pacing.
    pub pacing_rate: Option<Bitrate>,
    /// Bytes handed to the kernel and not sent yet.
    pub unsent: Bytes,
    /// Bytes handed to the kernel since the beginning.
    pub written: Bytes,
    /// Bytes of those that the receiver has, up to the first gap.
    pub acknowledged: Bytes,
    /// Segments with data sent since the beginning, including retransmissions.
    pub segments_sent: u64,
    /// Segments retransmitted since the beginning.
    pub retransmissions: u64,
    /// Bytes sent since the beginning, including retransmissions.
    pub bytes_sent: Bytes,
}

impl TcpInfo {
    /// The state of a connection that has sent nothing.
    pub const UNKNOWN: Self = Self {
        recovery: TcpRecovery::Open,
        round_trip: Span::ZERO,
        round_trip_variation: Span::ZERO,
        minimum_round_trip: None,
        congestion_window: Bytes::ZERO,
        slow_start_threshold: None,
        unacknowledged: 0,
        lost: 0,
        delivery_rate: Bitrate::ZERO,
        app_limited: false,
        pacing_rate: None,
        unsent: Bytes::ZERO,
        written: Bytes::ZERO,
        acknowledged: Bytes::ZERO,
        segments_sent: 0,
        retransmissions: 0,
        bytes_sent: Bytes::ZERO,
    };

    /// Whether something is missing at the receiver, which holds back everything that arrived after it.
    #[must_use]
    pub const fn is_incomplete(&self) -> bool {
        matches!(self.recovery, TcpRecovery::Disorder | TcpRecovery::Recovery | TcpRecovery::Loss)
    }

    /// TCP's present sending rate: its window in a round trip, and little more than it delivered when it had more to send. None before the
    /// first round trip is known.
    #[must_use]
    pub fn rate_limit(&self) -> Option<Bitrate> {
        if self.round_trip <= Span::ZERO || self.congestion_window == Bytes::ZERO {
            return None;
        }
        let window = self.congestion_window.over(self.round_trip);
        let is_full = self.unsent > Bytes::ZERO && !self.app_limited;
        let delivered = Some(self.delivery_rate).filter(|rate| is_full && *rate > Bitrate::ZERO);
        Some(delivered.map_or(window, |rate| rate.mul_f64(DELIVERY_GAIN).min(window)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_the_window_in_a_round_trip_or_what_was_delivered_when_there_was_more_to_send() {
        let info = TcpInfo {
            round_trip: Span::from_millis(20),
            congestion_window: Bytes::new(25_000),
            delivery_rate: Bitrate::from_mbps(4),
            app_limited: true,
            unsent: Bytes::new(1),
            ..TcpInfo::UNKNOWN
        };
        assert_eq!(info.rate_limit(), Some(Bitrate::from_mbps(10)));
        assert_eq!(TcpInfo { app_limited: false, ..info }.rate_limit(), Some(Bitrate::from_mbps(5)));
        let idle = TcpInfo { app_limited: false, unsent: Bytes::ZERO, ..info };
        assert_eq!(idle.rate_limit(), info.rate_limit(), "an old sample says nothing of the present");
        let fast = TcpInfo { app_limited: false, delivery_rate: Bitrate::from_mbps(90), ..info };
        assert_eq!(fast.rate_limit(), Some(Bitrate::from_mbps(10)));
        assert_eq!(TcpInfo::UNKNOWN.rate_limit(), None);
        assert_eq!(
            TcpInfo { delivery_rate: Bitrate::ZERO, app_limited: false, ..info }.rate_limit(),
            info.rate_limit()
        );
    }
}
