//! Over a transport that delivers everything in order, such as TCP.

use crate::pace::Mode;
use nearlight_events::Event;
use nearlight_rate::{Bounds, Limit, new_controller};
use nearlight_units::{Bitrate, Bytes, FrameId, Span, Time};
use nearlight_wire::TcpInfo;
use nearlight_wire::ToServer;

use super::path::frame_header;
use crate::{Distortion, EncodedFrame, LossRecovery, Receiver, ReceiverConfig, Sender, SenderConfig};

/// The receiver's requests until it has nothing more to send.
fn requests(receiver: &mut Receiver, now: Time) -> Vec<ToServer> {
    receiver.on_timeout(now);
    let said = std::iter::from_fn(|| receiver.poll_transmit(now));
    let read = said.map(|datagram| ToServer::parse(&datagram).expect("a datagram of ours"));
    read.filter(|said| matches!(said, ToServer::Nack(_) | ToServer::KeyFrameRequest(_) | ToServer::Acknowledgement(_)))
        .collect()
}

#[test]
fn what_is_late_is_waited_for_and_only_a_decoder_s_refusal_asks_for_a_key_frame() {
    let start = Time::from_secs(1);
    let config = SenderConfig {
        max_datagram: 1_200,
        pacing: Mode::Burst,
        frame_interval: Span::from_millis(33),
        events: false,
        ..SenderConfig::default()
    };
    let controller = new_controller("fixed", Bounds::up_to(Bitrate::from_mbps(8))).expect("a preset");
    let mut sender = Sender::new(start, config, controller);
    let mut receiver = Receiver::new(ReceiverConfig { events: false });
    receiver.frames().set_loss_recovery(LossRecovery::Transport);
    let bits = [7; 12_000];
    let mut send = |now: Time, id: u32| {
        let reference = id.checked_sub(1).map(FrameId);
        let (header, distortion) = (frame_header(now), Distortion::UNKNOWN);
        sender.on_frame(
            now,
            EncodedFrame {
                id: FrameId(id),
                reference,
                header,
                bits: (&bits[..]).into(),
                distortion,
                group_index: None,
            },
        );
        std::iter::from_fn(|| sender.poll_transmit(now)).collect::<Vec<_>>()
    };

    // The path stalls for five seconds in the middle of a frame, while the next ones wait behind it.
    let mut queue: Vec<_> = (0..10).flat_map(|id| send(start, id)).collect();
    for datagram in queue.drain(..15) {
        receiver.on_datagram(start, &datagram);
    }
    assert_eq!(receiver.frames().poll(start).map(|frame| frame.id), Some(FrameId(0)));
    for step in 1..=500 {
        assert_eq!(requests(&mut receiver, start + Span::from_millis(10 * step)), []);
    }
    let resumed = start + Span::from_secs(5);
    for datagram in queue {
        receiver.on_datagram(resumed, &datagram);
    }
    let frames: Vec<_> = std::iter::from_fn(|| receiver.frames().poll(resumed)).map(|frame| frame.id.0).collect();
    assert_eq!(frames, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(receiver.statistics(resumed).frames.lost, 0);

    receiver.frames().on_decode_failed(resumed, FrameId(9));
    let asked = requests(&mut receiver, resumed);
    assert!(matches!(asked[..], [ToServer::KeyFrameRequest(_)]), "{asked:?}");
}

/// TCP that delivers 2 Mb/s.
const NARROW: TcpInfo = TcpInfo {
    round_trip: Span::from_millis(40),
    congestion_window: Bytes::new(10_000),
    app_limited: true,
    ..TcpInfo::UNKNOWN
};

#[test]
fn what_tcp_lets_go_bounds_the_encoder_whatever_the_controller() {
    let now = Time::from_secs(1);
    for preset in nearlight_rate::PRESETS {
        let controller = new_controller(preset.name, Bounds::up_to(Bitrate::from_mbps(8))).expect("a preset");
        let mut sender = Sender::new(now, SenderConfig { events: false, ..SenderConfig::default() }, controller);
        let before = sender.decision().clone();
        sender.on_tcp_info(now, &NARROW);
        let bounded = sender.decision();
        assert!(bounded.limits.contains(&(Limit::Transport, Bitrate::from_mbps(2))), "{}: {bounded:?}", preset.name);
        if before.binding == Limit::Fixed {
            assert_eq!(bounded.target, before.target, "a constant is what the user wants");
        } else if before.target > Bitrate::from_mbps(2) {
            assert_eq!((bounded.target, bounded.binding), (Bitrate::from_mbps(2), Limit::Transport), "{}", preset.name);
            assert!(bounded.pacing < before.pacing && bounded.pacing >= bounded.target, "{}", preset.name);
        }
        sender.on_tcp_info(now, &TcpInfo { congestion_window: Bytes::new(1_000_000), ..NARROW });
        assert_eq!(sender.decision().target, before.target, "{}: nothing remains of it", preset.name);
        let now = now + Span::from_millis(101);
        sender.on_tcp_info(now, &TcpInfo { congestion_window: Bytes::new(100), ..NARROW });
        let lowest = before.target.min(Bounds::MINIMUM);
        assert!(sender.decision().target >= lowest, "{}: {:?}", preset.name, sender.decision());
    }
}

/// Its limit is another rate at each reading; the log has it ten times a second.
#[test]
fn a_limit_that_changes_with_each_reading_is_not_logged_each_time() {
    let start = Time::from_secs(1);
    let controller = new_controller("gcc-libwebrtc", Bounds::up_to(Bitrate::from_mbps(8))).expect("a preset");
    let mut sender = Sender::new(start, SenderConfig { events: true, ..SenderConfig::default() }, controller);
    for reading in 0..100_i64 {
        let now = start + Span::from_millis(10) * reading;
        let congestion_window = Bytes::new(10_000 - 10 * reading.unsigned_abs());
        sender.on_tcp_info(now, &TcpInfo { congestion_window, ..NARROW });
    }
    let events: Vec<_> = std::iter::from_fn(|| sender.poll_event()).map(|(_, event)| event).collect();
    let targets = events.iter().filter_map(|event| match event {
        Event::RateDecision { target, .. } => Some(*target),
        _ => None,
    });
    let targets: Vec<_> = targets.collect();
    assert!((9..=13).contains(&targets.len()), "{targets:?}");
    let newest = sender.decision().target;
    assert!(targets.last().is_some_and(|target| target.as_bps() - newest.as_bps() < 30_000), "{targets:?}, {newest:?}");
}
