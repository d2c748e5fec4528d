//! Video frames over TCP.

use std::collections::VecDeque;

use nearlight_flows::{Arrival, Direction, Message, Stream, StreamConfig, Traffic as _, Transmit};
use nearlight_units::{Bitrate, Bytes, Span, Time};

const FRAME: Span = Span::from_micros(33_333);
const ONE_WAY: Span = Span::from_millis(10);

/// A bottleneck with 100 ms of queue; it drops packets of these numbers, counted from the first.
struct Link {
    rate: Bitrate,
    drops: Vec<u64>,
    offered: u64,
    free_at: Time,
    forward: VecDeque<(Time, Transmit)>,
    back: VecDeque<(Time, Transmit)>,
}

impl Link {
    fn of(rate: Bitrate) -> Self {
        let (forward, back) = (VecDeque::new(), VecDeque::new());
        Self { rate, drops: Vec::new(), offered: 0, free_at: Time::ZERO, forward, back }
    }

    fn offer(&mut self, now: Time, packet: Transmit) {
        if packet.direction == Direction::Back {
            self.back.push_back((now + ONE_WAY, packet));
            return;
        }
        let number = self.offered;
        self.offered += 1;
        if self.drops.contains(&number) || self.free_at.saturating_since(now) > Span::from_millis(100) {
            return;
        }
        self.free_at = self.free_at.max(now) + self.rate.time_to_send(packet.size);
        self.forward.push_back((self.free_at + ONE_WAY, packet));
    }

    fn poll(&mut self, now: Time) -> Option<Transmit> {
        let pipe = [&mut self.forward, &mut self.back]
            .into_iter()
            .filter(|pipe| pipe.front().is_some_and(|(at, _)| *at <= now))
            .min_by_key(|pipe| pipe.front().map(|(at, _)| *at))?;
        pipe.pop_front().map(|(_, packet)| packet)
    }

    fn next(&self) -> Time {
        let head = |pipe: &VecDeque<(Time, Transmit)>| pipe.front().map_or(Time::FAR_FUTURE, |(at, _)| *at);
        head(&self.forward).min(head(&self.back))
    }
}

/// Writes a frame of `size` each 33 ms; answers what arrived and how many frames the send buffer refused.
fn run(law: &'static str, mut link: Link, size: Bytes, frames: i64) -> (Vec<Message>, u32) {
    let mut stream = Stream::new(StreamConfig { law: law.parse().expect(law), ..StreamConfig::default() });
    let (mut now, mut written, mut refused) = (Time::ZERO, 0, 0);
    let (mut messages, mut still) = (Vec::new(), 0);
    let end = Time::ZERO + FRAME * frames + Span::from_secs(1);
    while now < end {
        if written < frames && now >= Time::ZERO + FRAME * written {
            refused += u32::from(stream.write(now, size).is_none());
            written += 1;
        }
        while let Some(packet) = link.poll(now) {
            let Transmit { id, direction, size, .. } = packet;
            stream.on_delivered(now, Arrival { id, direction, size, marked: false });
        }
        if stream.poll_timeout().is_some_and(|(at, _)| at <= now) {
            stream.on_timeout(now);
        }
        while let Some(packet) = stream.poll_transmit(now) {
            link.offer(now, packet);
        }
        messages.extend(std::iter::from_fn(|| stream.poll_message()));
        let wake = stream.poll_timeout().map_or(Time::FAR_FUTURE, |(at, _)| at);
        let frame = if written < frames { Time::ZERO + FRAME * written } else { end };
        let next = now.max(wake.min(link.next()).min(frame));
        still = if next > now { 0 } else { still + 1 };
        assert!(still < 10_000, "time stands still at {now:?}: {:?}", stream.poll_timeout());
        now = next;
    }
    assert_eq!(stream.statistics().completed, messages.len() as u64);
    assert_eq!(stream.queued().get(), size.get() * (u64::from(written as u32 - refused) - messages.len() as u64));
    (messages, refused)
}

fn delays(messages: &[Message]) -> Vec<Span> {
    messages.iter().map(|message| message.arrived_at - message.written_at).collect()
}

#[test]
fn messages_arrive_whole_in_order_and_as_late_as_their_length() {
    for law in nearlight_flows::law::LAWS {
        let (rate, size) = (Bitrate::from_mbps(10), Bytes::new(25_000));
        let (messages, refused) = run(law, Link::of(rate), size, 300);
        assert_eq!((messages.len(), refused), (300, 0), "{law}");
        assert!(messages.iter().zip(0..).all(|(message, number)| (message.number, message.size) == (number, size)));
        // 18 segments with their headers, and the way. The first frames wait for the window to open.
        let least = rate.time_to_send(Bytes::new(25_000 + 18 * 52)) + ONE_WAY;
        let late = delays(&messages[30..]);
        assert!(late.iter().all(|delay| *delay >= least), "{law}");
        let on_time = late.iter().filter(|delay| **delay < least + Span::from_millis(2)).count();
        // BBR paces at the rate that it saw and drains at three quarters of it, others where they like.
        let share = match law {
            "bbr" => 0.5,
            "bbr3" | "copa" | "copa-default" | "ledbat++" | "pcc-allegro" | "pcc-vivace" => 0.0,
            _ => 0.99,
        };
        assert!(on_time as f64 >= share * late.len() as f64, "{law}: {on_time} of {}", late.len());
    }
}

#[test]
fn a_lost_segment_holds_up_its_message_by_a_round_trip_and_those_behind_it() {
    let (rate, size) = (Bitrate::from_mbps(10), Bytes::new(25_000));
    let undisturbed = delays(&run("cubic", Link::of(rate), size, 300).0);
    // 100 frames of 18 segments: one in the middle of the 101st.
    let link = Link { drops: vec![1_808], ..Link::of(rate) };
    let disturbed = delays(&run("cubic", link, size, 300).0);
    let more: Vec<i64> =
        disturbed.iter().zip(&undisturbed).map(|(late, usual)| (*late - *usual).as_micros() / 1_000).collect();
    assert!(more[..100].iter().all(|late| *late == 0));
    assert!((5..40).contains(&more[100]), "{} ms", more[100]);
    assert!(more[130..].iter().all(|late| late.abs() < 30), "{:?}", &more[130..]);
}

#[test]
fn more_than_the_link_carries_fills_the_send_buffer() {
    // 7.5 Mb/s into 5: the buffer of 4 MiB is full after 14 s, and a frame then waits for 6.8 s and more.
    let (messages, refused) = run("cubic", Link::of(Bitrate::from_mbps(5)), Bytes::new(31_250), 1_200);
    assert!(refused > 100, "{refused}");
    let last = delays(&messages)[messages.len() - 1];
    assert!(last > Span::from_millis(6_500) && last < Span::from_secs(9), "{last}");
}

#[test]
fn empty_messages_are_refused() {
    let mut stream = Stream::new(StreamConfig::default());
    assert_eq!((stream.write(Time::ZERO, Bytes::ZERO), stream.write(Time::ZERO, Bytes::new(1))), (None, Some(0)));
    assert_eq!(stream.write(Time::ZERO, Bytes::new(u64::MAX)), None);
}
