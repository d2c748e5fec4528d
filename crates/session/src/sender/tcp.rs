//! What the kernel knows of the TCP connection that carries the session: how much it can send, and what it holds back.

use std::collections::VecDeque;

use nearlight_events::Event;
use nearlight_rate::TcpInfo;
use nearlight_units::{Bitrate, Span, Time};

use super::Sender;
use super::head_of_line::HeadOfLine;

/// The highest rate that TCP allowed in this time bounds the encoder. Linux's BBR lowers its window to what is under way for the first round
/// trip of a recovery, and restores it afterwards: a lower rate would come too late. Guess: two frames at 30 frames a second, and a short
/// round trip.
const LIMIT_HOLDS: Span = Span::from_millis(100);
/// The state of TCP is logged so often, and so is a limit that changes with it.
pub(super) const LOG_TCP: Span = Span::from_millis(100);

/// State derived from the kernel's TCP information.
#[derive(Debug, Default)]
pub(super) struct Tcp {
    pub(super) head_of_line: HeadOfLine,
    /// Of late, each with its time: the first is the highest.
    limits: VecDeque<(Time, Bitrate)>,
    logged_at: Option<Time>,
}

impl Tcp {
    /// A lower limit counts once no higher one was read for [`LIMIT_HOLDS`].
    fn on_limit(&mut self, now: Time, limit: Option<Bitrate>) {
        let Some(limit) = limit else { return };
        while self.limits.pop_back_if(|(_, earlier)| *earlier <= limit).is_some() {}
        self.limits.push_back((now, limit));
        while self.limits.pop_front_if(|(at, _)| now - *at > LIMIT_HOLDS).is_some() {}
    }

    pub(super) fn limit(&self) -> Option<Bitrate> {
        self.limits.front().map(|(_, rate)| *rate)
    }
}

impl Sender {
    /// The kernel's information on the TCP connection that carries everything: best before each feedback message, and every 10 to 50 ms
    /// while media flow.
    pub fn on_tcp_info(&mut self, now: Time, info: &TcpInfo) {
        let tcp = self.tcp.get_or_insert_default();
        tcp.head_of_line.on_tcp_info(now, info);
        tcp.on_limit(now, info.rate_limit());
        let due = tcp.logged_at.is_none_or(|at| now - at >= LOG_TCP);
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
