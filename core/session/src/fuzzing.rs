//! Arbitrary operations on both machines, for the fuzz targets and the property tests. The invariants: nothing panics, memory is bounded,
//! no frame is delivered twice or against a known digest, `poll_*` terminates, and while the picture is frozen or damaged a
//! request is outstanding or due.

use crate::pace::Mode;
use arbitrary::Arbitrary;
use nearlight_fec::policy::{POLICIES, new_policy};
use nearlight_fec::{Code, Encoder, digest};
use nearlight_rate::{Bounds, PRESETS, new_controller};
use nearlight_units::{Bitrate, BlockId, Bytes, FrameId, InputSeq, PacketSeq, RemoteTime, Span, Time};
use nearlight_wire::{
    Acknowledgement, CoveredFrame, Feedback, Fov, FrameHeader, FrameNote, Key, KeyFrameRequest, MAX_COVERED_FRAMES,
    MissingRun, Nack, Ping, Pong, Pose, RepairHeader, Sound, SymbolFlags, SymbolHeader, ToClient, ToServer, View,
    marker::Marker, symbol_range,
};

use crate::{
    Algorithms, DeviceInput, Distortion, EncodedFrame, LossRecovery, PictureFacts, Presence, Receiver, ReceiverConfig,
    RtpCounts, Sender, SenderConfig, SoundPacket,
};

mod truth;

pub use truth::TrueOperation;
use truth::Witness;

/// Samples in ten milliseconds of stereo.
const SAMPLES: usize = 960;

/// A number that is usually small and sometimes extreme.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Number {
    low: u16,
    far: u8,
}

impl Number {
    const fn get(self) -> u32 {
        if self.far > 245 { u32::MAX - self.low as u32 } else { self.low as u32 % 3_000 }
    }
}

/// An operation on a receiver.
#[derive(Arbitrary, Clone, Debug)]
pub enum ReceiverOperation {
    Wait {
        hundreds_of_micros: u16,
    },
    Symbol {
        frame: Number,
        index: u8,
        symbols: u8,
        bytes: u16,
        huge: bool,
        back: u8,
        again: bool,
        seq: Number,
    },
    Repair {
        newest: Number,
        cover: u8,
        number: u16,
        symbols: u8,
        bytes: u16,
        key: bool,
        forged: bool,
        seq: Number,
    },
    True(TrueOperation),
    Note {
        frame: Number,
        rtp_timestamp: Number,
        last: bool,
        sent: u32,
    },
    Picture {
        rtp_timestamp: Number,
        received: Option<u32>,
    },
    PictureDisplayed {
        rtp_timestamp: Number,
        marked: bool,
    },
    RtpCounts([u64; 7]),
    Pong {
        sent: Number,
        received: u64,
        held: Number,
    },
    Garbage(Vec<u8>),
    Input,
    /// A key goes down or up.
    Key(bool),
    Decoded(Number),
    DecodeFailed(Number),
    Displayed(Number),
    Sound {
        block: Number,
        made: u64,
        due: u32,
        before: bool,
    },
    Samples {
        ahead: u16,
        frames: u16,
    },
    Poll,
}

/// An operation on a sender.
#[derive(Arbitrary, Clone, Debug)]
pub enum SenderOperation {
    Wait { hundreds_of_micros: u16 },
    Frame { bytes: u16 },
    Feedback { first: Number, arrivals: Vec<Option<u32>>, sent: u32, marked: bool },
    Nack(Vec<(Number, u16, u16)>),
    KeyFrameRequest(Number),
    Acknowledgement { decoded: Number, newer: u8, lost: bool },
    Ping(u64),
    Sound { block: Number, bytes: u16 },
    Garbage(Vec<u8>),
    MaxDatagram(u16),
    Poll,
}

fn view() -> View {
    View { pose: Pose::default(), fov: Fov::symmetric(1.0, 1.0) }
}

fn symbol(operation: &ReceiverOperation, now: Time) -> Option<Vec<u8>> {
    let ReceiverOperation::Symbol { frame, index, symbols, bytes, huge, back, again, seq } = *operation else {
        return None;
    };
    let bytes = if huge { 4 << 20 } else { u32::from(bytes).max(1) };
    // Keeps payloads within a datagram, as a transport would.
    let symbols = u16::from(symbols).max((bytes / 1_100 + 1) as u16);
    let index = u16::from(index) % symbols;
    let header = SymbolHeader {
        flags: SymbolFlags { key: back == 0, retransmission: again, probe: false },
        reference_distance: back,
        seq: PacketSeq(seq.get()),
        sent_at: now.for_peer(),
        frame: FrameId(frame.get()),
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

/// A repair of frames that are filled with 7 like those of [`symbol`]. A forged one contains other bytes.
fn repair(operation: &ReceiverOperation, now: Time) -> Option<Vec<u8>> {
    let ReceiverOperation::Repair { newest, cover, number, symbols, bytes, key, forged, seq } = *operation else {
        return None;
    };
    let newest = newest.get();
    let count = u32::from(cover % MAX_COVERED_FRAMES as u8).min(newest) + 1;
    let content = vec![7; usize::from(bytes).max(1)];
    let frame_bytes = content.len() as u32;
    let symbols = u16::from(symbols).max((frame_bytes / 1_100 + 1) as u16);
    let code = |age| Code::new(FrameId(newest - age), frame_bytes, symbols).ok();
    let codes: Vec<Code> = (0..count).rev().filter_map(code).collect();
    let mut payload = vec![9; codes.first()?.symbol_bytes()];
    let number = number.min(u16::MAX - 1);
    if !forged {
        let frames: Vec<(Code, &[u8])> = codes.iter().map(|code| (*code, content.as_slice())).collect();
        let mut encoder = Encoder::default();
        match frames.as_slice() {
            [(code, frame)] => encoder.repairs(code, frame, number..number + 1, &mut payload).ok()?,
            frames => encoder.window_repairs(frames, number..number + 1, &mut payload).ok()?,
        }
    }
    let covered = CoveredFrame { reference_distance: u8::from(!key), symbols, frame_bytes, digest: digest(&content) };
    let header = RepairHeader {
        on_demand: forged,
        seq: PacketSeq(seq.get()),
        sent_at: now.for_peer(),
        frame: FrameId(newest),
        number,
        deadline_after_send_us: 0,
        covered: vec![covered; codes.len()],
    };
    let mut datagram = Vec::new();
    header.write(&mut datagram);
    datagram.extend_from_slice(&payload);
    Some(datagram)
}

/// Runs the operations on a fresh receiver and panics when an invariant is violated.
pub fn receiver(operations: &[ReceiverOperation]) {
    let mut receiver = Receiver::new(ReceiverConfig { events: true });
    receiver.frames().set_loss_recovery(LossRecovery::References);
    receiver.sound().set_enabled();
    run(receiver, operations);
}

/// Runs the operations with symbols and repairs of true frames, some of them forged, on receivers that recover from losses in different
/// ways and play at once or from a buffer.
pub fn forgeries(kind: u8, operations: &[(TrueOperation, u8)]) {
    let mut receiver = Receiver::new(ReceiverConfig { events: true });
    receiver.frames().set_loss_recovery(match kind % 6 {
        0 => LossRecovery::References,
        1 => LossRecovery::KeyFrames,
        2 => LossRecovery::Nothing { patience: Span::from_millis(20) },
        3 => LossRecovery::Symbols,
        4 => LossRecovery::OpenUvr,
        _ => LossRecovery::Transport,
    });
    if kind >= 128 {
        receiver.frames().set_playback_buffer(kind - 128, Span::from_millis(1));
    }
    let with_time = |(operation, wait): &(TrueOperation, u8)| {
        let wait = ReceiverOperation::Wait { hundreds_of_micros: u16::from(wait % 64) };
        [ReceiverOperation::True(operation.clone()), wait, ReceiverOperation::Poll]
    };
    run(receiver, &operations.iter().flat_map(with_time).collect::<Vec<_>>());
}

fn run(mut receiver: Receiver, operations: &[ReceiverOperation]) {
    let mut now = Time::from_secs(1);
    let mut newest_handed_out = None;
    let mut witness = Witness::default();
    for operation in operations {
        match operation {
            ReceiverOperation::True(operation) => witness.apply(&mut receiver, now, operation),
            _ => apply_to_receiver(&mut receiver, &mut now, operation),
        }
        witness.misled |= matches!(
            operation,
            ReceiverOperation::Symbol { .. } | ReceiverOperation::Repair { .. } | ReceiverOperation::Garbage(_)
        );
        witness.note(&receiver);
        while let Some(frame) = receiver.frames().poll(now) {
            witness.check(&frame);
            receiver.frames().on_decoded(now, frame.id);
            assert!(newest_handed_out < Some(frame.id), "frame {} came twice or too late", frame.id);
            newest_handed_out = Some(frame.id);
        }
        while let Some(packet) = receiver.sound().poll_packet(now) {
            receiver.sound().on_decoded(packet.block, &[0.5; SAMPLES]);
        }
        while receiver.poll_event().is_some() {}
        let (waiting, decoded, playout) = receiver.inspect().held_sound();
        assert!(
            waiting <= 64 && decoded <= 64 && playout <= 5_000,
            "{waiting}, {decoded}, {playout} of sound are held"
        );
        let (frames, bytes) = receiver.inspect().held();
        assert!(frames <= 96 && bytes <= 16 << 20, "{frames} frames of {bytes} bytes are held");
        let (frames, bytes) = receiver.inspect().held_playback();
        assert!(frames <= 255 && bytes <= 16 << 20, "{frames} frames of {bytes} bytes wait to be played");
        let _ = (receiver.poll_timeout(), receiver.statistics(now), receiver.clock(now));
    }
}

fn apply_to_receiver(receiver: &mut Receiver, now: &mut Time, operation: &ReceiverOperation) {
    match operation {
        ReceiverOperation::Wait { hundreds_of_micros } => {
            *now += Span::from_micros(100 * i64::from(*hundreds_of_micros));
        }
        ReceiverOperation::Symbol { .. } => {
            receiver.on_datagram(*now, &symbol(operation, *now).expect("a symbol"));
        }
        ReceiverOperation::Repair { .. } => {
            if let Some(datagram) = repair(operation, *now) {
                receiver.on_datagram(*now, &datagram);
            }
        }
        ReceiverOperation::Pong { sent, received, held } => {
            let server_received_at = RemoteTime::from_micros(*received);
            let pong = Pong {
                client_sent_at: RemoteTime::from_micros(u64::from(sent.get())),
                server_received_at,
                server_sent_at: server_received_at + Span::from_micros(i64::from(held.get())),
            };
            receiver.on_datagram(*now, &pong.to_bytes());
        }
        ReceiverOperation::True(_)
        | ReceiverOperation::Note { .. }
        | ReceiverOperation::Picture { .. }
        | ReceiverOperation::PictureDisplayed { .. }
        | ReceiverOperation::RtpCounts(_) => apply_picture(receiver, *now, operation),
        ReceiverOperation::Garbage(bytes) => receiver.on_datagram(*now, bytes),
        ReceiverOperation::Input => {
            let presence = Presence::of_views(Pose::default(), vec![view()]);
            receiver.uplink().on_presence(*now, presence);
        }
        ReceiverOperation::Key(pressed) => {
            receiver.uplink().on_device(*now, DeviceInput::Key { key: Key(0x7_0004), pressed: *pressed });
        }
        ReceiverOperation::Decoded(frame) => receiver.frames().on_decoded(*now, FrameId(frame.get())),
        ReceiverOperation::DecodeFailed(frame) => receiver.frames().on_decode_failed(*now, FrameId(frame.get())),
        ReceiverOperation::Displayed(frame) => {
            let marker = Marker { frame: FrameId(frame.get()), input: InputSeq(1) };
            receiver.frames().on_displayed(*now, marker.frame, Some(marker));
        }
        ReceiverOperation::Sound { block, made, due, before } => {
            let before: &[u8] = if *before && block.get() > 0 { &[2] } else { &[] };
            let made_at = RemoteTime::from_micros(made & ((1 << 53) - 1));
            let sound = Sound { block: BlockId(block.get()), made_at, due_after_us: *due, packet: &[1], before };
            receiver.on_datagram(*now, &sound.to_bytes());
        }
        ReceiverOperation::Samples { ahead, frames } => {
            let mut samples = [0.0; SAMPLES];
            let asked = usize::from(*frames) % (SAMPLES / 2 + 1) * 2;
            receiver.sound().poll_samples(*now, *now + Span::from_micros(i64::from(*ahead)), &mut samples[..asked]);
            assert!(samples.iter().all(|sample| sample.abs() <= 1.0), "louder than what was decoded");
        }
        ReceiverOperation::Poll => {
            let mut sent = 0;
            receiver.on_timeout(*now);
            while let Some(datagram) = receiver.poll_transmit(*now) {
                assert!(datagram.len() <= 1_200 && ToServer::parse(&datagram).is_ok());
                sent += 1;
                assert!(sent < 500, "poll_transmit never ends");
            }
            assert!(!receiver.is_stuck(), "the picture stands, and nothing is asked for");
            assert!(!receiver.inspect().owes_request(*now), "what is due was not asked for");
        }
    }
}

/// Operations on a receiver whose pictures arrive decoded.
fn apply_picture(receiver: &mut Receiver, now: Time, operation: &ReceiverOperation) {
    match *operation {
        ReceiverOperation::Note { frame, rtp_timestamp, last, sent } => {
            let note = FrameNote {
                key: false,
                last,
                frame: FrameId(frame.get()),
                rtp_timestamp: rtp_timestamp.get(),
                sent_at: Time::from_micros(u64::from(sent)),
                header: header(now),
            };
            receiver.on_datagram(now, &note.to_bytes());
        }
        ReceiverOperation::Picture { rtp_timestamp, received } => {
            let received_at = received.map(|micros| Time::from_micros(u64::from(micros)));
            receiver.rtp().on_picture(now, PictureFacts { rtp_timestamp: rtp_timestamp.get(), received_at });
        }
        ReceiverOperation::PictureDisplayed { rtp_timestamp, marked } => {
            let marker = Marker { frame: FrameId(rtp_timestamp.get()), input: InputSeq(1) };
            let _ = receiver.picture_header(rtp_timestamp.get());
            receiver.rtp().on_displayed(now, rtp_timestamp.get(), marked.then_some(marker));
        }
        ReceiverOperation::RtpCounts(
            [lost, packets, bytes, repeated_packets, redundant_bytes, repairs, key_frames],
        ) => {
            // A browser's numbers are exact up to 2^53.
            let number = |value: u64| value >> 11;
            let counts = RtpCounts {
                packets_lost: number(lost),
                packets: number(packets),
                bytes: Bytes::new(number(bytes)),
                repeated_packets: number(repeated_packets),
                redundant_bytes: Bytes::new(number(redundant_bytes)),
                repairs: number(repairs),
                key_frames: number(key_frames),
            };
            receiver.rtp().on_counts(now, counts);
        }
        _ => {}
    }
}

fn message(operation: &SenderOperation) -> Option<ToServer> {
    Some(match operation {
        SenderOperation::Feedback { first, arrivals, sent, marked } if !arrivals.is_empty() => {
            let micros = |micros: &u32| RemoteTime::from_micros(u64::from(*micros));
            let arrivals = arrivals.iter().take(nearlight_wire::MAX_FEEDBACK_PACKETS);
            let arrivals: Vec<_> = arrivals.map(|at| at.as_ref().map(micros)).collect();
            let arrived = (0..).zip(&arrivals).filter(|(_, at)| *marked && at.is_some()).map(|(place, _)| place);
            let marked = arrived.collect();
            ToServer::Feedback(Feedback { sent_at: micros(sent), first: PacketSeq(first.get()), arrivals, marked })
        }
        SenderOperation::Nack(runs) if !runs.is_empty() => {
            let run = |(frame, first, count): &(Number, u16, u16)| MissingRun {
                frame: FrameId(frame.get()),
                first: *first,
                count: (*count).max(1),
            };
            ToServer::Nack(Nack { missing: runs.iter().take(nearlight_wire::MAX_NACK_ENTRIES).map(run).collect() })
        }
        SenderOperation::KeyFrameRequest(newest) => {
            ToServer::KeyFrameRequest(KeyFrameRequest { newest: FrameId(newest.get()) })
        }
        SenderOperation::Acknowledgement { decoded, newer, lost } => {
            let (decoded, newest) = (decoded.get(), decoded.get().saturating_add((*newer).into()));
            ToServer::Acknowledgement(Acknowledgement {
                decoded: FrameId(decoded),
                newest: FrameId(newest),
                lost: *lost,
            })
        }
        SenderOperation::Ping(micros) => ToServer::Ping(Ping { client_sent_at: RemoteTime::from_micros(*micros) }),
        _ => return None,
    })
}

/// Runs the operations on a fresh sender with one of the presets and panics when an invariant is violated.
pub fn sender(preset: u8, pacing: u8, operations: &[SenderOperation]) {
    let modes = [Mode::Burst, Mode::Compressed, Mode::Spread, Mode::Interval(Mode::DEFAULT_INTERVAL)];
    let config = SenderConfig {
        max_datagram: 1_200,
        pacing: modes[usize::from(pacing) % modes.len()],
        frame_interval: Span::from_millis(33),
        events: true,
        references: true,
        ..SenderConfig::default()
    };
    let bounds = Bounds::up_to(Bitrate::from_mbps(50));
    let preset = &PRESETS[usize::from(preset) % PRESETS.len()];
    let controller = new_controller(preset.name, bounds).expect("a preset");
    let mut now = Time::from_secs(1);
    let policy = POLICIES[usize::from(pacing >> 4) % POLICIES.len()].name.replace('P', "20");
    let redundancy = Some(new_policy(&policy).expect("a policy"));
    let mut sender = Sender::new(now, config, Algorithms { controller, redundancy });
    for operation in operations {
        apply_to_sender(&mut sender, &mut now, operation);
        while sender.poll_event().is_some() {}
        while sender.poll_outcome().is_some() {}
        let decision = sender.decision();
        assert!((bounds.minimum..=bounds.maximum).contains(&decision.target), "{decision:?}");
        let (frames, bytes, packets, repairs) = sender.held();
        assert!(frames <= 64 && bytes <= 16 << 20 && packets <= 125_000 && repairs <= 2_048);
        let _ = (sender.poll_timeout(), sender.poll_input(now), sender.statistics(now), sender.target());
    }
}

fn apply_to_sender(sender: &mut Sender, now: &mut Time, operation: &SenderOperation) {
    match operation {
        SenderOperation::Wait { hundreds_of_micros } => {
            *now += Span::from_micros(100 * i64::from(*hundreds_of_micros));
        }
        SenderOperation::Frame { bytes } => {
            let target = sender.target().encoder;
            let id = target.next;
            let before = id.0.checked_sub(1).map(FrameId);
            let near = |reference: &FrameId| id.0 - reference.0 <= 255;
            let reference =
                if target.recover { target.acknowledged.filter(near) } else { before }.filter(|_| !target.key);
            let bits = vec![1; usize::from(*bytes)];
            sender.on_frame(
                *now,
                EncodedFrame {
                    id,
                    reference,
                    header: header(*now),
                    bits: bits.into(),
                    distortion: Distortion::UNKNOWN,
                    group_index: None,
                },
            );
        }
        SenderOperation::Sound { block, bytes } => {
            let bytes = vec![1; usize::from(*bytes) % 1_000 + 1];
            sender.on_sound(*now, SoundPacket { block: BlockId(block.get()), made_at: *now, bytes });
        }
        SenderOperation::Garbage(bytes) => sender.on_datagram(*now, bytes),
        SenderOperation::MaxDatagram(bytes) => sender.set_max_datagram(usize::from(*bytes).min(1_200)),
        SenderOperation::Poll => {
            let (mut sent, mut media) = (0, 0);
            sender.on_timeout(*now);
            while let Some(datagram) = sender.poll_transmit(*now) {
                assert!(datagram.len() <= 1_200);
                sent += 1;
                assert!(sent < 20_000, "poll_transmit never ends");
                let is_media = matches!(ToClient::parse(&datagram), Ok(ToClient::Symbol(..) | ToClient::Repair(..)));
                media += u32::from(is_media);
                assert!(sender.ceiling().is_none() || media <= 1, "{media} packets at once, above the ceiling");
            }
            assert!(!sender.waits_forever(), "packets wait, and nothing says until when");
        }
        _ => {
            if let Some(message) = message(operation) {
                sender.on_datagram(*now, &message.to_bytes());
            }
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
        views: vec![view()],
    }
}

#[cfg(test)]
mod tests {
    use arbitrary::Unstructured;
    use proptest::collection::vec;
    use proptest::prelude::{any, proptest};

    use super::*;

    /// Maximum bytes of a case: in unoptimised builds it takes ten times as long.
    const MAX_BYTES: usize = if cfg!(debug_assertions) { 500 } else { 4_000 };

    /// As many operations as the bytes suffice for. By itself, `Unstructured` stops at random.
    fn operations<'a, O: Arbitrary<'a>>(bytes: &'a [u8]) -> Vec<O> {
        let mut source = Unstructured::new(bytes);
        let next = || (!source.is_empty()).then(|| source.arbitrary().ok()).flatten();
        std::iter::from_fn(next).collect()
    }

    proptest! {
        #[test]
        fn receiver_withstands_any_operations(bytes in vec(any::<u8>(), 0..MAX_BYTES)) {
            receiver(&operations(&bytes));
        }

        #[test]
        fn no_frame_is_handed_out_against_its_digest(kind: u8, bytes in vec(any::<u8>(), 0..MAX_BYTES)) {
            forgeries(kind, &operations(&bytes));
        }

        #[test]
        fn sender_withstands_any_operations(preset: u8, pacing: u8, bytes in vec(any::<u8>(), 0..MAX_BYTES)) {
            sender(preset, pacing, &operations(&bytes));
        }
    }
}
