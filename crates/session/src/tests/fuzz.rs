//! Arbitrary operations on both machines: they must not panic, not grow without bound and not hand out anything twice.

use nearlight_pace::Mode;
use nearlight_rate::{Bounds, PRESETS, new_controller};
use nearlight_units::{Bitrate, FrameId, InputSeq, PacketSeq, Span, Time};
use nearlight_wire::{
    Action, Feedback, FrameHeader, Hand, KeyFrameRequest, Missing, Nack, Ping, SymbolFlags, SymbolHeader, ToServer,
    marker::Marker, symbol_range,
};
use proptest::collection::vec;
use proptest::prelude::*;

use super::path::presence;
use crate::{EncodedFrame, Receiver, ReceiverConfig, Sender, SenderConfig};

#[derive(Clone, Debug)]
enum ToReceiver {
    Wait(u32),
    Symbol { frame: u32, index: u16, symbols: u16, bytes: u32, key: bool, again: bool, seq: u32 },
    Garbage(Vec<u8>),
    Input,
    Action,
    Decoded(u32),
    DecodeFailed(u32),
    Displayed(u32),
    Poll,
}

fn to_receiver() -> impl Strategy<Value = ToReceiver> {
    let frame = prop_oneof![9 => 0..400u32, 1 => any::<u32>()];
    let seq = prop_oneof![9 => 0..3_000u32, 1 => any::<u32>()];
    let symbol = (frame, 0..6u16, 1..6u16, prop_oneof![1..5_000u32, Just(4 << 20)], any::<[bool; 2]>(), seq);
    prop_oneof![
        2 => (0..200_000u32).prop_map(ToReceiver::Wait),
        8 => symbol.prop_map(|(frame, index, symbols, bytes, [key, again], seq)| {
            ToReceiver::Symbol { frame, index, symbols, bytes, key, again, seq }
        }),
        1 => vec(any::<u8>(), 0..64).prop_map(ToReceiver::Garbage),
        1 => Just(ToReceiver::Input),
        1 => Just(ToReceiver::Action),
        1 => (0..400u32).prop_map(ToReceiver::Decoded),
        1 => (0..400u32).prop_map(ToReceiver::DecodeFailed),
        1 => (0..400u32).prop_map(ToReceiver::Displayed),
        4 => Just(ToReceiver::Poll),
    ]
}

fn symbol(operation: &ToReceiver, now: Time) -> Option<Vec<u8>> {
    let ToReceiver::Symbol { frame, index, symbols, bytes, key, again, seq } = *operation else { return None };
    // Keeps payloads within a datagram, as a transport would.
    let symbols = symbols.max((bytes / 1_100 + 1) as u16);
    let index = index % symbols;
    let header = SymbolHeader {
        flags: SymbolFlags { key, retransmission: again, probe: false },
        reference_distance: u8::from(!key),
        seq: PacketSeq(seq),
        sent_at: now,
        frame: FrameId(frame),
        index,
        symbols,
        frame_bytes: bytes,
        deadline_after_send_us: 0,
    };
    let mut datagram = Vec::new();
    header.write(&mut datagram);
    datagram.resize(datagram.len() + symbol_range(bytes, symbols, index).len(), 7);
    Some(datagram)
}

proptest! {
    #[test]
    fn receiver_withstands_any_operations(operations in vec(to_receiver(), 1..300)) {
        let mut receiver = Receiver::new(ReceiverConfig { events: true });
        let mut now = Time::from_secs(1);
        let mut newest_handed_out = None;
        for operation in &operations {
            match operation {
                ToReceiver::Wait(micros) => now += Span::from_micros(i64::from(*micros)),
                ToReceiver::Symbol { .. } => {
                    receiver.on_datagram(now, &symbol(operation, now).expect("a symbol"));
                }
                ToReceiver::Garbage(bytes) => receiver.on_datagram(now, bytes),
                ToReceiver::Input => drop(receiver.on_input(now, presence())),
                ToReceiver::Action => drop(receiver.on_action(now, Hand::Gaze, Action::Grab)),
                ToReceiver::Decoded(frame) => receiver.on_decoded(now, FrameId(*frame)),
                ToReceiver::DecodeFailed(frame) => receiver.on_decode_failed(now, FrameId(*frame)),
                ToReceiver::Displayed(frame) => {
                    let marker = Marker { frame: FrameId(*frame), input: InputSeq(1) };
                    receiver.on_displayed(now, FrameId(*frame), Some(marker));
                }
                ToReceiver::Poll => {
                    let mut sent = 0;
                    while let Some(datagram) = receiver.poll_transmit(now) {
                        prop_assert!(datagram.len() <= 1_200);
                        prop_assert!(ToServer::parse(&datagram).is_ok());
                        sent += 1;
                        prop_assert!(sent < 500, "poll_transmit never ends");
                    }
                }
            }
            while let Some(frame) = receiver.poll_frame(now) {
                prop_assert!(newest_handed_out < Some(frame.id), "frame {} came twice or too late", frame.id);
                newest_handed_out = Some(frame.id);
            }
            while receiver.poll_event().is_some() {}
            let (frames, bytes) = receiver.held();
            prop_assert!(frames <= 96 && bytes <= 16 << 20, "{frames} frames of {bytes} bytes");
            let _ = (receiver.poll_timeout(), receiver.statistics(now), receiver.clock(now));
        }
    }
}

#[derive(Clone, Debug)]
enum ToSender {
    Wait(u32),
    Frame(usize),
    Feedback { first: u32, arrivals: Vec<Option<u64>>, sent_at: u64 },
    Nack(Vec<(u32, u16, u16)>),
    KeyFrameRequest(u32),
    Ping(u64),
    Garbage(Vec<u8>),
    Poll,
}

fn to_sender() -> impl Strategy<Value = ToSender> {
    let arrivals = vec(proptest::option::of(0..20_000_000u64), 1..220);
    prop_oneof![
        2 => (0..200_000u32).prop_map(ToSender::Wait),
        4 => (1..60_000usize).prop_map(ToSender::Frame),
        3 => (prop_oneof![9 => 0..2_000u32, 1 => any::<u32>()], arrivals, 0..20_000_000u64)
            .prop_map(|(first, arrivals, sent_at)| ToSender::Feedback { first, arrivals, sent_at }),
        2 => vec((0..40u32, any::<u16>(), 1..=u16::MAX), 1..64).prop_map(ToSender::Nack),
        1 => any::<u32>().prop_map(ToSender::KeyFrameRequest),
        1 => any::<u64>().prop_map(ToSender::Ping),
        1 => vec(any::<u8>(), 0..64).prop_map(ToSender::Garbage),
        4 => Just(ToSender::Poll),
    ]
}

fn message(operation: &ToSender) -> Option<Vec<u8>> {
    let message = match operation {
        ToSender::Feedback { first, arrivals, sent_at } => ToServer::Feedback(Feedback {
            sent_at: Time::from_micros(*sent_at),
            first: PacketSeq(*first),
            arrivals: arrivals.iter().map(|at| at.map(Time::from_micros)).collect(),
        }),
        ToSender::Nack(runs) => ToServer::Nack(Nack {
            missing: runs
                .iter()
                .map(|(frame, first, count)| Missing { frame: FrameId(*frame), first: *first, count: *count })
                .collect(),
        }),
        ToSender::KeyFrameRequest(newest) => ToServer::KeyFrameRequest(KeyFrameRequest { newest: FrameId(*newest) }),
        ToSender::Ping(micros) => ToServer::Ping(Ping { client_sent_at: Time::from_micros(*micros) }),
        _ => return None,
    };
    Some(message.to_bytes())
}

proptest! {
    #[test]
    fn sender_withstands_any_operations(
        operations in vec(to_sender(), 1..150),
        mode in prop_oneof![
            Just(Mode::Burst), Just(Mode::Compressed), Just(Mode::Spread), Just(Mode::Interval(Span::from_millis(5)))
        ],
        preset in 0..PRESETS.len(),
    ) {
        let bounds = Bounds {
            minimum: Bitrate::from_mbps(1), start: Bitrate::from_mbps(8), maximum: Bitrate::from_mbps(50),
        };
        let controller = new_controller(PRESETS[preset].name, bounds).expect("a preset");
        let config =
            SenderConfig { max_datagram: 1_200, pacing: mode, frame_interval: Span::from_millis(33), events: true };
        let mut now = Time::from_secs(1);
        let mut sender = Sender::new(now, config, controller);
        for operation in &operations {
            match operation {
                ToSender::Wait(micros) => now += Span::from_micros(i64::from(*micros)),
                ToSender::Frame(bytes) => {
                    let key = sender.wish().key;
                    let id = sender.next_frame();
                    sender.on_frame(now, EncodedFrame { id, key, header: header(now), bits: vec![1; *bytes] });
                }
                ToSender::Garbage(bytes) => sender.on_datagram(now, bytes),
                ToSender::Poll => {
                    let mut sent = 0;
                    while let Some(datagram) = sender.poll_transmit(now) {
                        prop_assert!(datagram.len() <= 1_200);
                        sent += 1;
                        prop_assert!(sent < 20_000, "poll_transmit never ends");
                    }
                }
                _ => sender.on_datagram(now, &message(operation).expect("a message")),
            }
            while sender.poll_event().is_some() {}
            let decision = sender.decision();
            prop_assert!((bounds.minimum..=bounds.maximum).contains(&decision.target), "{decision:?}");
            let (frames, bytes, packets, repairs) = sender.held();
            prop_assert!(frames <= 64 && bytes <= 16 << 20 && packets <= 8_192 && repairs <= 2_048);
            let _ = (sender.poll_timeout(), sender.poll_input(), sender.statistics(now), sender.admit(now));
        }
    }
}

fn header(now: Time) -> FrameHeader {
    FrameHeader {
        width: 64,
        height: 64,
        input: InputSeq(0),
        input_received_at: now,
        render_started_at: now,
        rendered_at: now,
        converted_at: now,
        encoded_at: now,
        display_at: now,
        deadline: now,
        views: presence().views,
    }
}
