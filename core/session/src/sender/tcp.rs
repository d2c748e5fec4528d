//! The kernel's state of the TCP connection that carries the session: how much it can send, and what it holds back.

use std::collections::VecDeque;

use nearlight_events::Event;
use nearlight_units::{Bitrate, Span, Time};
use nearlight_wire::TcpInfo;

use super::Sender;
use super::head_of_line::HeadOfLine;

/// The encoder is bounded by the highest rate that TCP allowed in this time. Linux's BBR lowers its window to the bytes in flight for the
/// first round trip of a recovery, and restores it afterwards: a lower rate would come too late. Guess: two frames at 30 frames a second,
/// and a short round trip.
const LIMIT_WINDOW: Span = Span::from_millis(100);
/// Interval at which the state of TCP is logged, and a limit that changes with it.
pub(super) const TCP_LOG_INTERVAL: Span = Span::from_millis(100);

/// State derived from the kernel's TCP information.
#[derive(Debug, Default)]
pub(super) struct Tcp {
    pub(super) head_of_line: HeadOfLine,
    /// Recent limits, each with its time. The first is the highest.
    limits: VecDeque<(Time, Bitrate)>,
    logged_at: Option<Time>,
}

impl Tcp {
    /// Records a limit. A lower one counts once no higher one was read for [`LIMIT_WINDOW`].
    fn on_limit(&mut self, now: Time, limit: Option<Bitrate>) {
        let Some(limit) = limit else { return };
        while self.limits.pop_back_if(|(_, earlier)| *earlier <= limit).is_some() {}
        self.limits.push_back((now, limit));
        while self.limits.pop_front_if(|(at, _)| now - *at > LIMIT_WINDOW).is_some() {}
    }

    pub(super) fn limit(&self) -> Option<Bitrate> {
        self.limits.front().map(|(_, rate)| *rate)
    }
}

impl Sender {
    /// Handles the kernel's information on the TCP connection that carries everything. Best called before each feedback message, and every
    /// 10 to 50 ms while media flow.
    pub fn on_tcp_info(&mut self, now: Time, info: &TcpInfo) {
        let tcp = self.tcp.get_or_insert_default();
        tcp.head_of_line.on_tcp_info(now, info);
        tcp.on_limit(now, info.rate_limit());
        let due = tcp.logged_at.is_none_or(|at| now - at >= TCP_LOG_INTERVAL);
        if due {
            tcp.logged_at = Some(now);
            let TcpInfo { round_trip, congestion_window, delivery_rate, app_limited, unsent, retransmissions, .. } =
                *info;
            self.emit(now, || Event::TcpState {
                round_trip,
                congestion_window,
                delivery_rate,
                app_limited,
                unsent,
                retransmissions,
            });
        }
        let limit = self.tcp.as_ref().and_then(|tcp| tcp.limit());
        self.controller.on_tcp_info(now, info, limit);
        self.take_decision(now);
    }
}
