//! A cloud-gaming stream as the study describes it: video in batches, sound, feedback, input, connectivity checks.

use super::{Datagram, Dice};

/// When batches leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    /// A timer that knows nothing of frames.
    Timer,
    /// Each frame begins anew.
    FromFrame,
    /// All at once.
    Burst,
}

#[derive(Clone, Copy, Debug)]
pub struct Stream {
    pub seed: u64,
    pub seconds: f64,
    pub fps: f64,
    /// Bytes of each frame, on average.
    pub frame: f64,
    pub pacing: Pacing,
    pub interval_ms: f64,
    /// The most packets of a batch.
    pub batch: usize,
    /// Deviation of the moment at which a batch leaves.
    pub jitter_ms: f64,
    /// Deviation of the moment at which a frame is made.
    pub late_ms: f64,
    /// Encrypted, without visible headers.
    pub quic: bool,
}

pub const VIDEO_SSRC: u32 = 0x1234_5678;
pub const AUDIO_SSRC: u32 = 0x0bad_cafe;
pub const VIDEO_PAYLOAD: usize = 1_200;
/// From a connectivity check to its answer, at the server.
pub const ROUND_TRIP_MS: f64 = 2.0;

impl Default for Stream {
    fn default() -> Self {
        Self {
            seed: 1,
            seconds: 10.0,
            fps: 72.0,
            frame: 60e3,
            pacing: Pacing::FromFrame,
            interval_ms: 5.56,
            batch: 28,
            jitter_ms: 0.1,
            late_ms: 0.0,
            quic: false,
        }
    }
}

/// A stream with what is true about it.
pub struct Made {
    /// By time of leaving.
    pub datagrams: Vec<Datagram>,
    pub frames: usize,
    pub video_packets: usize,
    pub batches: usize,
}

impl Stream {
    pub fn make(&self) -> Made {
        let mut dice = Dice::new(self.seed);
        let mut made = Made { datagrams: Vec::new(), frames: 0, video_packets: 0, batches: 0 };
        self.video(&mut dice, &mut made);
        self.rest(&mut dice, &mut made);
        made.datagrams.sort_by_key(|datagram| datagram.nanos);
        made
    }

    fn video(&self, dice: &mut Dice, made: &mut Made) {
        let mut waiting: Vec<(f64, Vec<u8>)> = Vec::new();
        let mut sequence = 65_000_u16;
        let count = (self.seconds * self.fps) as usize;
        for frame in 0..count {
            let begins = frame as f64 / self.fps * 1e3 + self.late_ms * dice.normal().abs();
            let size = (self.frame * (1.0 + 0.15 * dice.normal())).max(100.0) as usize;
            let packets = size.div_ceil(VIDEO_PAYLOAD);
            for index in 0..packets {
                let ticks = (frame as f64 * 90_000.0 / self.fps).round() as u32;
                let marker = index + 1 == packets;
                let length = if marker { size - index * VIDEO_PAYLOAD } else { VIDEO_PAYLOAD };
                sequence = sequence.wrapping_add(1);
                let mut payload = if self.quic {
                    vec![0x40 | (dice.number() as u8 & 0x3f)]
                } else {
                    rtp(96, marker, sequence, 4_000_000_000_u32.wrapping_add(ticks), VIDEO_SSRC)
                };
                fill(dice, &mut payload, length.max(40));
                waiting.push((begins, payload));
            }
            made.frames += 1;
        }
        made.video_packets = waiting.len();
        self.pace(dice, waiting, made);
    }

    fn pace(&self, dice: &mut Dice, waiting: Vec<(f64, Vec<u8>)>, made: &mut Made) {
        let mut waiting = waiting.into_iter().peekable();
        let mut tick = 0.0;
        while let Some(begins) = waiting.peek().map(|packet| packet.0) {
            match self.pacing {
                Pacing::Timer => {
                    while tick < begins {
                        tick += self.interval_ms;
                    }
                }
                Pacing::FromFrame | Pacing::Burst => tick = begins,
            }
            loop {
                let mut at = tick + self.jitter_ms * dice.normal().abs();
                let mut sent = 0;
                let most = if self.pacing == Pacing::Burst { usize::MAX } else { self.batch };
                // A timer sends all packets queued by then, of one frame or two.
                let ready = |packet: &(f64, Vec<u8>)| match self.pacing {
                    Pacing::Timer => packet.0 <= tick,
                    _ => packet.0 <= begins,
                };
                while sent < most
                    && let Some((_, payload)) = waiting.next_if(ready)
                {
                    made.datagrams.push(Datagram { nanos: nanos(at), down: true, payload });
                    at += 0.003 + 0.004 * dice.share();
                    sent += 1;
                }
                if sent == 0 {
                    break;
                }
                made.batches += 1;
                tick += self.interval_ms;
            }
        }
    }

    fn rest(&self, dice: &mut Dice, made: &mut Made) {
        let mut every =
            |made: &mut Made, milliseconds: f64, down: bool, make: &mut dyn FnMut(usize, &mut Dice) -> Vec<u8>| {
                for index in 0..(self.seconds * 1e3 / milliseconds) as usize {
                    let at = index as f64 * milliseconds + 0.05 * dice.share();
                    let payload = make(index, dice);
                    made.datagrams.push(Datagram { nanos: nanos(at), down, payload });
                }
            };
        if self.quic {
            every(made, 25.0, false, &mut |_, dice| {
                let mut payload = vec![0x40 | (dice.number() as u8 & 0x3f)];
                fill(dice, &mut payload, 60);
                payload
            });
            let mut initial = vec![0xc0, 0, 0, 0, 1];
            fill(dice, &mut initial, 1_200);
            made.datagrams.push(Datagram { nanos: 0, down: false, payload: initial });
            return;
        }
        every(made, 20.0, true, &mut |index, dice| {
            let mut payload = rtp(111, false, index as u16, index as u32 * 960, AUDIO_SSRC);
            fill(dice, &mut payload, 41);
            payload
        });
        every(made, 62.5, false, &mut |_, dice| {
            let mut payload = vec![0x80, 205, 0, 20];
            fill(dice, &mut payload, 392);
            payload
        });
        every(made, 4.16, false, &mut |_, dice| {
            let mut payload = vec![23, 254, 253];
            fill(dice, &mut payload, 133);
            payload
        });
        every(made, 100.0, true, &mut |_, dice| {
            let mut payload = vec![0xf8];
            fill(dice, &mut payload, 70);
            payload
        });
        for check in 0..(self.seconds / 2.5) as u32 {
            let asked = f64::from(check) * 2_500.0 + 7.0;
            made.datagrams.push(Datagram { nanos: nanos(asked), down: true, payload: stun(false, check) });
            made.datagrams.push(Datagram {
                nanos: nanos(asked + ROUND_TRIP_MS),
                down: false,
                payload: stun(true, check),
            });
        }
    }
}

fn nanos(milliseconds: f64) -> i64 {
    (milliseconds * 1e6) as i64
}

fn rtp(payload_type: u8, marker: bool, sequence: u16, timestamp: u32, ssrc: u32) -> Vec<u8> {
    let mut payload = vec![0x80, payload_type | u8::from(marker) << 7];
    payload.extend(sequence.to_be_bytes());
    payload.extend(timestamp.to_be_bytes());
    payload.extend(ssrc.to_be_bytes());
    payload
}

fn stun(answer: bool, check: u32) -> Vec<u8> {
    let mut payload = vec![u8::from(answer), 1, 0, 0, 0x21, 0x12, 0xa4, 0x42];
    payload.extend(check.to_be_bytes());
    payload.resize(if answer { 64 } else { 80 }, 9);
    payload
}

/// Bytes that look encrypted, as many of them as captures keep.
fn fill(dice: &mut Dice, payload: &mut Vec<u8>, length: usize) {
    for _ in 0..8 {
        payload.extend(dice.number().to_le_bytes());
    }
    payload.resize(length, 0);
}
