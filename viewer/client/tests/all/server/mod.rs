//! A minimal server to watch: a moving picture with the marker below it, real codec, real sender, real transport.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use glam::Vec3;
use nearlight_codec::{
    CodecKind, Encoder, EncoderConfig, Picture, Size, describe_encoder, new_encoder, sample::moving_picture,
};
use nearlight_net::{
    Clock, Connection, ControlReceiver, ControlSender, Identity, Link, ListenOptions, Listener, NetError,
    ReceivedDatagram,
};
use nearlight_rate::{Bounds, new_controller};
use nearlight_session::pace::Mode;
use nearlight_session::{
    AnsweredTargets, Distortion, EncodeRequest, EncodedFrame, ReceivedInput, Sender, SenderConfig, SoundPacket,
};
use nearlight_sound::{Cues, Ears, Hum, Room, SoundEncoder, Timbre};
use nearlight_units::{Bitrate, BlockId, Span, Time};
use nearlight_wire::marker::{Marker, Strip};
use nearlight_wire::{
    Bytes32, ClientMessage, Fov, FrameHeader, Pose, RateStatus, RecoveryPolicy, RefusalReason, Role, SOUND_RATE,
    ServerMessage, SoundDescription, StreamDescription, TokenProof, UserRole, View, Welcome,
};

pub const SIZE: Size = Size { width: 320, height: 192 };
/// The alternate size of [`Behaviour::resizes_every`].
pub const OTHER_SIZE: Size = Size { width: 256, height: 144 };
pub const FPS: u16 = 30;
const TOKEN: &str = "a-token-for-tests-only";

/// How the server behaves.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fault or a gift of its own")]
pub struct Behaviour {
    pub codec: CodecKind,
    /// Sends frames at all.
    pub frames: bool,
    /// Says goodbye after this many frames, in each session.
    pub goodbye_after: Option<u32>,
    /// Sends invalid bytes between the frames.
    pub garbage: bool,
    /// Changes the picture's size at this interval in frames, as a controller with a ladder does.
    pub resizes_every: Option<u32>,
    /// Offers a tone as sound.
    pub sound: bool,
    /// Does not know the token, but pretends to.
    pub impostor: bool,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            codec: CodecKind::H264,
            frames: true,
            goodbye_after: None,
            garbage: false,
            resizes_every: None,
            sound: false,
            impostor: false,
        }
    }
}

pub struct Server {
    pub link: Link,
    sessions: Arc<AtomicU32>,
    /// The first messages of clients.
    heard: Arc<Mutex<String>>,
}

impl Server {
    /// Listens on a free port until the runtime ends.
    pub fn start(behaviour: Behaviour) -> Self {
        let clock = Clock::start();
        let identity = Identity::self_signed(&[]).expect("a certificate");
        let listener = Listener::bind(&ListenOptions::default(), &identity, clock).expect("a free port");
        let link = Link {
            secure: false,
            host: "127.0.0.1".into(),
            port: listener.port(),
            path: "/".into(),
            token: Some(TOKEN.into()),
            certificate: Some(identity.certificate_sha256()),
        };
        let sessions = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&sessions);
        let heard = Arc::<Mutex<String>>::default();
        let hearing = Arc::clone(&heard);
        tokio::spawn(async move {
            while let Some(connection) = listener.accept().await {
                let number = count.fetch_add(1, Ordering::Relaxed);
                let hearing = Arc::clone(&hearing);
                tokio::spawn(async move {
                    // The client has left, which is not a failure.
                    let _ = visit(connection, number, behaviour, clock, &hearing).await;
                });
            }
        });
        Self { link, sessions, heard }
    }

    pub fn sessions(&self) -> u32 {
        self.sessions.load(Ordering::Relaxed)
    }

    pub fn heard(&self) -> String {
        self.heard.lock().expect("no panic").clone()
    }
}

async fn visit(
    connection: Connection,
    number: u32,
    behaviour: Behaviour,
    clock: Clock,
    heard: &Mutex<String>,
) -> Result<(), NetError> {
    let (mut to_client, mut from_client): (ControlSender<ServerMessage>, ControlReceiver<ClientMessage>) =
        connection.accept_control().await?;
    let first = from_client.recv().await?;
    let said = format!("{first:?}");
    heard.lock().expect("no panic").push_str(&said);
    let ClientMessage::Hello(hello) = first else { return Ok(()) };
    let binding = connection.exporter();
    let proven = |mac: &Bytes32| binding.verify(TOKEN, Role::Client, mac);
    let Some(TokenProof::Exporter { mac }) = hello.proof else { return Ok(()) };
    if !behaviour.impostor && !proven(&mac) {
        let message = "the token is wrong".to_owned();
        to_client.send(&ServerMessage::Refused { reason: RefusalReason::Token, message }).await?;
        connection.closed().await;
        return Ok(());
    }
    let mut studio = Studio::new(&connection, behaviour, clock);
    // What a stranger can forge: nothing, then the client's own proof sent back to it.
    let made_up = (number > 0).then_some(mac);
    let proof = if behaviour.impostor { made_up } else { Some(binding.prove(TOKEN, Role::Server)) };
    to_client.send(&ServerMessage::Welcome(Welcome { proof, ..studio.welcome(number, hello.sound) })).await?;
    to_client.send(&ServerMessage::Rate(rate_status())).await?;
    let mut frames = tokio::time::interval(Duration::from_secs(1) / u32::from(FPS));
    let mut count = 0;
    let mut tone = Tone::new();
    let mut blocks = tokio::time::interval(Duration::from_millis(10));
    loop {
        studio.pump(&connection);
        let wake = studio.sender.poll_timeout().map_or(Time::FAR_FUTURE, |(at, _)| at);
        tokio::select! {
            received = connection.recv_datagram() => match received {
                Ok(ReceivedDatagram { at, datagram }) => studio.sender.on_datagram(at, &datagram),
                Err(_) => return Ok(()),
            },
            message = from_client.recv() => match message {
                Ok(ClientMessage::Application { data }) => {
                    to_client.send(&ServerMessage::Application { data }).await?;
                }
                Ok(message) => {
                    let said = format!("{message:?}");
                    heard.lock().expect("no panic").push_str(&said);
                }
                Err(_) => return Ok(()),
            },
            _ = blocks.tick(), if behaviour.sound && hello.sound => {
                let now = studio.clock.now();
                studio.sender.on_sound(now, tone.next(now));
            }
            _ = frames.tick(), if behaviour.frames => {
                if let Some(stream) = studio.make_frame() {
                    to_client.send(&ServerMessage::Stream(stream)).await?;
                }
                count += 1;
                if behaviour.garbage {
                    for garbage in [&b""[..], b"\x00", b"\x11garbage", &[0x11; 1_000], &[0xff; 40]] {
                        let _ = connection.send_datagram(bytes::Bytes::copy_from_slice(garbage));
                    }
                }
                if behaviour.goodbye_after == Some(count) {
                    to_client.send(&ServerMessage::Goodbye { message: "restarting".into() }).await?;
                    // The message must arrive before the close.
                    let _ = tokio::time::timeout(Duration::from_secs(2), connection.closed()).await;
                    return Ok(());
                }
            },
            () = clock.sleep_until(wake) => {}
        }
    }
}

/// Draws, encodes and sends.
struct Studio {
    behaviour: Behaviour,
    clock: Clock,
    encoder: Box<dyn Encoder>,
    sender: Sender,
    input: Option<ReceivedInput>,
    size: Size,
}

/// A tone in front of the listener.
struct Tone {
    room: Room,
    ears: Ears,
    encoder: SoundEncoder,
    block: Option<BlockId>,
}

impl Tone {
    fn new() -> Self {
        let mut room = Room::default();
        let hum = Hum { id: 1, place: Vec3::NEG_Z, timbre: Timbre::Tone { hertz: 440.0 }, level: 0.5 };
        room.on_cues(&Cues { hums: vec![hum], strikes: Vec::new() });
        let encoder = SoundEncoder::new(Bitrate::from_kbps(64)).expect("libopus");
        Self { room, ears: Ears::default(), encoder, block: None }
    }

    fn next(&mut self, now: Time) -> SoundPacket {
        let block = self.block.map_or(BlockId((now.as_nanos() / 10_000_000) as u32), BlockId::next);
        self.block = Some(block);
        self.room.advance();
        let heard = self.ears.hear(&self.room, &Pose::default());
        let bytes = self.encoder.encode(&heard).expect("coded").expect("the hum never pauses");
        SoundPacket { block, made_at: Time::from_millis(10 * u64::from(block.0)), bytes }
    }
}

impl Studio {
    fn new(connection: &Connection, behaviour: Behaviour, clock: Clock) -> Self {
        let rate = Bitrate::from_mbps(4);
        let coded = SIZE.with_strip(Some(strip(SIZE)));
        let config = EncoderConfig { size: coded, fps: FPS, rate, threads: 1 };
        let bounds = Bounds { minimum: rate, start: rate, maximum: rate };
        let session = SenderConfig {
            max_datagram: connection.max_datagram_size(),
            pacing: Mode::Burst,
            frame_interval: Span::from_secs(1) / i64::from(FPS),
            events: false,
            references: true,
            ..SenderConfig::default()
        };
        let controller = new_controller("fixed", bounds).expect("a preset");
        Self {
            behaviour,
            clock,
            encoder: new_encoder(behaviour.codec, config).expect("an encoder"),
            sender: Sender::new(clock.now(), session, controller),
            input: None,
            size: SIZE,
        }
    }

    fn stream(&self) -> StreamDescription {
        let config = EncoderConfig { size: self.size, fps: FPS, rate: Bitrate::from_mbps(4), threads: 1 };
        let encoder = describe_encoder(self.behaviour.codec, config).expect("an encoder");
        StreamDescription {
            codec: self.behaviour.codec,
            codec_string: encoder.codec_string,
            width: self.size.width,
            height: self.size.height,
            fps: FPS,
            encoder: encoder.name,
            adapter: "a moving picture".into(),
            views: 1,
        }
    }

    fn welcome(&self, session: u32, hears: bool) -> Welcome {
        Welcome {
            clipboard: false,
            session,
            stream: self.stream(),
            server: "a server for tests".into(),
            controller: self.sender.names().controller.into(),
            fec: "none".into(),
            recovery: RecoveryPolicy::Reference,
            playback_buffer: 0,
            sound: (self.behaviour.sound && hears).then(|| SoundDescription {
                codec: "opus".into(),
                sample_rate: SOUND_RATE,
                channels: 2,
            }),
            pacing: Mode::Burst.to_string(),
            max_rate_bps: 4_000_000,
            start: Pose::default(),
            demonstration: false,
            role: UserRole::Host,
            proof: None,
        }
    }

    /// Changes the size when it is due, and then returns the stream's new description.
    fn resize(&mut self, frame: u32) -> Option<StreamDescription> {
        let every = self.behaviour.resizes_every?;
        let size = if frame / every % 2 == 1 { OTHER_SIZE } else { SIZE };
        if size == self.size {
            return None;
        }
        self.size = size;
        self.encoder.set_size(size.with_strip(Some(strip(size)))).expect("a size that both codecs have");
        Some(self.stream())
    }

    fn make_frame(&mut self) -> Option<StreamDescription> {
        let started = self.clock.now();
        if let Some(reason) = self.sender.target().refusal {
            self.sender.on_skipped(started, reason);
            return None;
        }
        if let Some(input) = self.sender.poll_input(started) {
            for message in &input.messages {
                self.sender.on_application_message(message.clone());
            }
            self.input = Some(input);
        }
        let id = self.sender.target().encoder.next;
        let input = self.input.as_ref().map(|input| input.sample.seq).unwrap_or_default();
        let stream = self.resize(id.0);
        let mut picture = moving_picture(self.size, id.0);
        let (strip, marker) = (strip(self.size), Marker { frame: id, input });
        picture.add_marker(strip, marker);
        repeat_marker(&mut picture, strip, marker);
        let rendered_at = self.clock.now();
        // The encoder never runs ahead of the session here, so every request is open.
        let EncodeRequest { rate, reference, acknowledged } =
            AnsweredTargets::default().request(self.sender.target().encoder);
        self.encoder.set_rate(rate).expect("any rate");
        if let Some(frame) = acknowledged {
            self.encoder.on_decoded(frame);
        }
        let coded = self.encoder.encode(&picture, reference).expect("a picture of the configured size");
        let encoded_at = self.clock.now();
        let view = View { pose: Pose::default(), fov: Fov::symmetric(1.0, 1.0) };
        let header = FrameHeader {
            width: self.size.width,
            height: self.size.height,
            input,
            input_received_at: self.input.as_ref().map_or(started, |input| input.received_at),
            render_started_at: started,
            rendered_at,
            converted_at: rendered_at,
            encoded_at,
            display_at: started + Span::from_millis(50),
            deadline: started + Span::from_millis(500),
            views: vec![view],
        };
        self.sender.on_frame(
            self.clock.now(),
            EncodedFrame {
                id,
                reference: coded.reference,
                header,
                bits: coded.bits.into(),
                distortion: Distortion::UNKNOWN,
                group_index: None,
            },
        );
        stream
    }

    fn pump(&mut self, connection: &Connection) {
        self.sender.on_timeout(self.clock.now());
        while let Some(datagram) = self.sender.poll_transmit(self.clock.now()) {
            let _ = connection.send_datagram(datagram.into());
        }
        while self.sender.poll_outcome().is_some() {}
    }
}

fn rate_status() -> RateStatus {
    RateStatus {
        target_bps: 4_000_000,
        pacing_bps: 10_000_000,
        sent_bps: 3_000_000,
        binding: "fixed".into(),
        limits: vec![("fixed".into(), 4_000_000)],
        rtt_us: None,
        packets_lost: 0,
        key_frames: 1,
    }
}

fn strip(size: Size) -> Strip {
    Strip::of_width(size.width).expect("wide enough for a marker")
}

/// Draws the marker once more, into the picture's top left corner, for tests that read the screen.
fn repeat_marker(picture: &mut Picture, strip: Strip, marker: Marker) {
    let cells = marker.cells();
    let rows = picture.luma.chunks_exact_mut(usize::from(picture.size.width)).take(usize::from(strip.height()));
    for (y, row) in rows.enumerate() {
        for (x, luma) in row.iter_mut().enumerate() {
            if let Some(cell) = strip.cell_at(x, y) {
                *luma = if cells[cell] { 235 } else { 16 };
            }
        }
    }
}
