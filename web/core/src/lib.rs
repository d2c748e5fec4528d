//! The receiver in a browser: the same state machines as in the native client behind calls that JavaScript can make.
//!
//! Nothing is decided here. Times are microseconds on the page's clock; frames and devices are numbers; only what happens
//! a few times a second (control messages, statistics, the summary) is JSON.
//!
//! Layouts of numbers and the types of JSON reach the page as `web/src/generated/core.ts`.
//!
//! Over WebTransport frames arrive as datagrams and go to the decoder through `poll_frame`, identified by their ids. Over WebRTC the
//! browser receives and decodes: pictures arrive through `on_picture` and are identified by their RTP timestamps.

#![forbid(unsafe_code)]

mod device;
mod devices;
mod display;
mod journal;
mod layout;
mod pairing;
mod presence;
mod room;
mod rtp;
mod sound;
mod speaker;
mod tally;
#[cfg(test)]
mod typescript;

use nearlight_session::{DeviceInput, LossRecovery, PictureFacts, ReadyFrame, Receiver, ReceiverConfig};
use nearlight_units::{FrameId, RemoteTime, Span, Time};
use nearlight_wire::marker::{Marker, Strip};
use nearlight_wire::{
    Base64, ClientMessage, ClipboardChunks, ClipboardText, ControlReader, DisplayKind, Hello, Key,
    MAX_RELIABLE_MESSAGE_BYTES, PROTOCOL_VERSION, ServerMessage, WireError, write_control,
};
use wasm_bindgen::prelude::*;

use crate::journal::Journal;
use crate::tally::{Tally, TransportName};
use pairing::Pairing;
use speaker::SpeakerDepth;

/// Bytes of a pixel as WebGL reads it back.
const RGBA_BYTES: usize = 4;

/// Ticks of a video's RTP timestamps in a microsecond (RFC 6184, section 5.1).
const RTP_TICKS_PER_MICROSECOND: f64 = 0.09;

/// The client's end of one session.
#[wasm_bindgen]
pub struct Core {
    receiver: Receiver,
    control: ControlReader,
    tally: Tally,
    journal: Journal,
    last_marker: Option<Marker>,
    webrtc: bool,
    wants_sound: bool,
    wants_clipboard: bool,
    /// The pasted text that is being sent, and the newest one, which follows.
    pasted: Option<ClipboardChunks>,
    next_pasted: Option<ClipboardChunks>,
    /// The application's text for the clipboard, as far as it has arrived.
    copied: ClipboardText,
    user_name: Option<String>,
    /// The key of the page's seat in rooms.
    seat: Option<Vec<u8>>,
    /// None over WebRTC, where the offer has proved that the client knows the token.
    pairing: Option<Pairing>,
    speaker: SpeakerDepth,
}

#[wasm_bindgen]
impl Core {
    /// The session's transport: `webtransport`, `websocket`, or `webrtc`, where the browser receives and decodes. Throws for another name.
    #[wasm_bindgen(constructor)]
    pub fn new(transport: &str) -> Result<Self, JsError> {
        let transport = TransportName::named(transport).ok_or_else(|| JsError::new("no transport has this name"))?;
        Ok(Self::over(transport))
    }
}

impl Core {
    fn over(transport: TransportName) -> Self {
        let mut receiver = Receiver::new(ReceiverConfig { events: true });
        let tally = Tally::new(transport);
        if tally.is_reliable() {
            receiver.frames().set_loss_recovery(LossRecovery::Transport);
        }
        Self {
            receiver,
            control: ControlReader::default(),
            tally,
            journal: Journal::default(),
            last_marker: None,
            webrtc: matches!(transport, TransportName::WebRtc),
            wants_sound: false,
            wants_clipboard: false,
            pasted: None,
            next_pasted: None,
            copied: ClipboardText::default(),
            user_name: None,
            seat: None,
            pairing: None,
            speaker: SpeakerDepth::default(),
        }
    }
}

impl Core {
    /// The next message of the server. Chunks of a text for the clipboard are joined.
    fn poll_whole_message(&mut self) -> Result<Option<ServerMessage>, WireError> {
        loop {
            match self.control.poll::<ServerMessage>()? {
                Some(ServerMessage::Clipboard { text, more }) => {
                    if let Some(text) = self.copied.on_chunk(text, more)? {
                        return Ok(Some(ServerMessage::Clipboard { text, more: false }));
                    }
                }
                message => return Ok(message),
            }
        }
    }
}

#[wasm_bindgen]
impl Core {
    /// The page can play sound: the hello requests it.
    pub fn want_sound(&mut self) {
        self.wants_sound = true;
    }

    /// The user permits sharing of clipboard texts: the hello says so.
    pub fn want_clipboard(&mut self) {
        self.wants_clipboard = true;
    }

    /// What others in the room are to call the user. Call it before [`Core::hello`].
    pub fn set_user_name(&mut self, name: String) {
        self.user_name = Some(name);
    }

    /// The key of the page's seat in rooms, as for [`RoomMember::join`](room::RoomMember::join). Call it before [`Core::hello`].
    pub fn set_seat(&mut self, key: Vec<u8>) {
        self.seat = Some(key);
    }

    /// Over WebTransport and a WebSocket the hello proves the token and the welcome must prove it too. `challenge` are the bytes of the
    /// server's own stream, `nonce` 32 random ones, `certificate` the hash that the browser pins, in hexadecimal digits; none where it
    /// relies on its authorities. Throws where these are invalid.
    #[expect(clippy::needless_pass_by_value, reason = "JavaScript hands no borrowed string over that may be absent")]
    pub fn pair(
        &mut self,
        token: String,
        challenge: &[u8],
        nonce: &[u8],
        certificate: Option<String>,
    ) -> Result<(), JsError> {
        self.pairing = Some(Pairing::new(token, challenge, nonce, certificate.as_deref())?);
        Ok(())
    }

    /// The server has yet to prove that it knows the token: nothing may be sent to it and none of its pictures shown.
    pub fn awaits_proof(&self) -> bool {
        self.pairing.as_ref().is_some_and(|pairing| !pairing.is_proven())
    }

    /// The first bytes on the control stream. `codecs` are names of the wire protocol, best first.
    pub fn hello(&self, client: String, immersive: bool, codecs: Vec<String>, display_hz: u16) -> Vec<u8> {
        let display = display_kind(immersive);
        let (sound, clipboard) = (self.wants_sound, self.wants_clipboard);
        let codecs = codecs.into_iter().filter_map(|name| name.parse().ok()).collect();
        let proof = self.pairing.as_ref().map(Pairing::proof);
        let protocol = PROTOCOL_VERSION;
        let (marker, name, seat) = (true, self.user_name.clone(), self.seat.clone().map(Base64));
        let hello =
            Hello { protocol, proof, client, display, codecs, display_hz, sound, clipboard, marker, name, seat };
        write_control(&ClientMessage::Hello(hello))
    }

    /// The control message that describes the display currently in use.
    pub fn display(&self, immersive: bool, display_hz: u16) -> Vec<u8> {
        write_control(&ClientMessage::Display { display: display_kind(immersive), display_hz })
    }

    /// The user has pasted a text: `poll_clipboard` returns the messages with it. False where it is too long. Of several texts that wait,
    /// the newest counts.
    pub fn paste(&mut self, text: String) -> bool {
        let chunks = ClipboardChunks::new(text);
        let fits = chunks.is_some();
        if fits {
            self.next_pasted = chunks;
        }
        fits
    }

    /// The next control message with a chunk of a pasted text.
    pub fn poll_clipboard(&mut self) -> Option<Vec<u8>> {
        if self.pasted.is_none() {
            self.pasted = self.next_pasted.take();
        }
        let (text, more) = self.pasted.as_mut()?.next()?;
        if !more {
            self.pasted = None;
        }
        Some(write_control(&ClientMessage::Clipboard { text, more }))
    }

    /// The control message that describes the user's gamepads and controllers: a `ClientMessage` as JSON, whose type is `devices`. None for
    /// anything else.
    pub fn devices(&self, json: &str) -> Option<Vec<u8>> {
        let message = serde_json::from_str::<ClientMessage>(json).ok()?;
        matches!(message, ClientMessage::Devices(_)).then(|| write_control(&message))
    }

    /// The control message with an application message; none where it is too long.
    pub fn application(&self, data: &[u8]) -> Option<Vec<u8>> {
        let fits = data.len() <= MAX_RELIABLE_MESSAGE_BYTES;
        fits.then(|| write_control(&ClientMessage::Application { data: Base64(data.to_vec()) }))
    }

    /// An application message that may be lost leaves with `poll_transmit`. False where it is too long, or too many are queued.
    pub fn send_unreliable(&mut self, data: &[u8]) -> bool {
        self.receiver.uplink().on_application_message(data.to_vec())
    }

    /// The next message from the server's application; such messages may be lost.
    pub fn poll_application(&mut self) -> Option<Vec<u8>> {
        self.receiver.poll_application_message()
    }

    /// The control message before leaving.
    pub fn goodbye(&self) -> Vec<u8> {
        write_control(&ClientMessage::Goodbye)
    }

    /// The control stream delivered bytes. Call `poll_message` until it has no more.
    pub fn on_control(&mut self, bytes: &[u8]) {
        self.control.on_bytes(bytes);
    }

    /// The next message of the server as JSON; throws where the stream cannot be read any further.
    pub fn poll_message(&mut self, now: f64) -> Result<Option<String>, JsError> {
        let Some(message) = self.poll_whole_message()? else { return Ok(None) };
        if let (ServerMessage::Welcome(welcome), Some(pairing)) = (&message, &mut self.pairing) {
            pairing.on_welcome(welcome.proof.as_ref());
        }
        self.tally.on_message(time(now), &message);
        if let ServerMessage::Welcome(welcome) = &message {
            self.journal.session = welcome.session;
            // Over a reliable transport nothing is lost.
            if !self.tally.is_reliable() {
                self.receiver.frames().set_loss_recovery(welcome.recovery.into());
            }
            let frame_interval = Span::from_secs(1) / i64::from(welcome.stream.fps.max(1));
            self.receiver.frames().set_playback_buffer(welcome.playback_buffer, frame_interval);
            if welcome.sound.is_some() {
                self.receiver.sound().set_enabled();
            }
            if !welcome.demonstration {
                self.receiver.uplink().set_sparse_input();
            }
        }
        Ok(Some(serde_json::to_string(&message)?))
    }

    /// A datagram came in.
    pub fn on_datagram(&mut self, now: f64, bytes: &[u8]) {
        self.receiver.on_datagram(time(now), bytes);
    }

    /// The user's presence at `at`: `PRESENCE_LAYOUT`, then `CONTROLLER_LAYOUT` for each. Returns the input's sequence number, or 0 where
    /// the list is malformed.
    pub fn on_presence(&mut self, at: f64, values: &[f32]) -> u32 {
        presence::presence(values).map_or(0, |presence| self.receiver.uplink().on_presence(time(at), presence).0)
    }

    /// A key went down or up, identified by its `KeyboardEvent.code`. False where it has no code in the protocol or no presence came
    /// before, as for the other devices.
    pub fn on_key(&mut self, at: f64, code: &str, pressed: bool) -> bool {
        self.on_device(at, Key::from_code(code).map(|key| DeviceInput::Key { key, pressed }))
    }

    /// The user's system repeats a key, which types `text`. Without a code in the protocol only the text is sent.
    pub fn on_key_repeat(&mut self, at: f64, code: &str, text: String) -> bool {
        let input = match Key::from_code(code) {
            Some(key) => DeviceInput::KeyRepeat { key, text },
            None => DeviceInput::Text(text),
        };
        self.on_device(at, Some(input))
    }

    /// The next press of a key is a command that means this character in the user's layout.
    pub fn on_key_character(&mut self, at: f64, code: &str, character: char) -> bool {
        self.on_device(at, Key::from_code(code).map(|key| DeviceInput::KeyCharacter { key, character }))
    }

    /// Text typed by keys or an input method.
    pub fn on_text(&mut self, at: f64, text: String) -> bool {
        self.on_device(at, Some(DeviceInput::Text(text)))
    }

    /// The pointer's state (`POINTER_COLUMNS`), or no numbers.
    pub fn on_pointer(&mut self, at: f64, values: &[f64]) -> bool {
        self.on_device(at, devices::pointer(values))
    }

    /// All fingers (`TOUCH_COLUMNS` each).
    pub fn on_touches(&mut self, at: f64, values: &[f64]) -> bool {
        self.on_device(at, devices::touches(values))
    }

    /// All gamepads (`GAMEPAD_LAYOUT` each).
    pub fn on_gamepads(&mut self, at: f64, values: &[f32]) -> bool {
        self.on_device(at, devices::gamepads(values))
    }

    /// The joints of a hand (`HAND_LAYOUT`), or no numbers where it is no longer tracked.
    pub fn on_joints(&mut self, at: f64, hand: u8, values: &[f32]) -> bool {
        self.on_device(at, devices::joints(hand, values))
    }

    /// Everything held counts as released.
    pub fn on_release_all(&mut self, at: f64) -> bool {
        self.on_device(at, Some(DeviceInput::ReleaseAll))
    }

    fn on_device(&mut self, at: f64, input: Option<DeviceInput>) -> bool {
        input.is_some_and(|input| self.receiver.uplink().on_device(time(at), input).is_some())
    }

    /// The next frame for the decoder.
    pub fn poll_frame(&mut self, now: f64) -> Option<Frame> {
        self.receiver.frames().poll(time(now)).map(Frame)
    }

    /// The decoder output the frame's picture.
    pub fn on_decoded(&mut self, now: f64, frame: u32) {
        self.receiver.frames().on_decoded(time(now), FrameId(frame));
    }

    /// The decoder will never output the frame's picture.
    pub fn on_decode_failed(&mut self, now: f64, frame: u32) {
        self.receiver.frames().on_decode_failed(time(now), FrameId(frame));
    }

    /// The browser output a picture that it received and decoded itself; `received_at` is when its last packet arrived, or not-a-number.
    pub fn on_picture(&mut self, now: f64, rtp_timestamp: u32, received_at: f64) {
        let received_at = (!received_at.is_nan()).then(|| time(received_at));
        self.receiver.rtp().on_picture(time(now), PictureFacts { rtp_timestamp, received_at });
    }

    /// What each eye of such a picture shows, as `Frame::views`; none before a note on it has arrived.
    pub fn picture_views(&self, rtp_timestamp: u32) -> Option<Vec<f32>> {
        self.receiver.picture_header(rtp_timestamp).map(|header| presence::view_numbers(&header.views))
    }

    /// Width and height of such a picture, in pixels and without the marker below; none before a note on it has arrived.
    pub fn picture_size(&self, rtp_timestamp: u32) -> Option<Vec<u16>> {
        self.receiver.picture_header(rtp_timestamp).map(|header| vec![header.width, header.height])
    }

    /// For the queue before the display, in microseconds: when the capture of such a picture, or of a frame that was decoded, began on the
    /// server's clock, and when it is late on the page's, or infinity where that is not known.
    pub fn display_times(&self, now: f64, frame: u32) -> Vec<f64> {
        let header =
            if self.webrtc { self.receiver.picture_header(frame) } else { self.receiver.header(FrameId(frame)) };
        let deadline = header.zip(self.receiver.clock(time(now)));
        let deadline = deadline.map_or(f64::INFINITY, |(header, clock)| micros(clock.to_client(header.deadline)));
        let captured_at = match header {
            Some(header) if !self.webrtc => micros(header.render_started_at.echoed()),
            // Without regard to notes, which some pictures lack.
            _ => f64::from(frame) / RTP_TICKS_PER_MICROSECOND,
        };
        vec![captured_at, deadline]
    }

    /// The browser's counters: a `PictureCounts` as JSON. Anything else is ignored.
    pub fn on_rtp_counts(&mut self, now: f64, counts: &str) {
        let Ok(counts) = serde_json::from_str::<rtp::PictureCounts>(counts) else { return };
        self.receiver.rtp().on_counts(time(now), counts.into());
    }

    /// The frame is on the display; over WebRTC it is identified by its RTP timestamp. `pixels` are those of the strip below the picture
    /// that hold the marker (`strip_below`): RGBA, rows from the top, `width` pixels each; none where there is no strip.
    pub fn on_displayed(&mut self, now: f64, frame: u32, pixels: &[u8], width: u16) {
        let marker = read_marker(pixels, width);
        self.last_marker = marker;
        let displayed = if self.webrtc {
            self.receiver.rtp().on_displayed(time(now), frame, marker)
        } else {
            self.receiver.frames().on_displayed(time(now), FrameId(frame), marker)
        };
        self.tally.on_displayed(time(now), displayed.as_ref());
    }

    /// Frame and input sequence that the newest displayed pixels carried, if they were readable.
    pub fn last_marker(&self) -> Option<Vec<u32>> {
        self.last_marker.map(|marker| vec![marker.frame.0, marker.input.0])
    }

    /// The next datagram to send.
    pub fn poll_transmit(&mut self, now: f64) -> Option<Vec<u8>> {
        let datagram = self.receiver.poll_transmit(time(now));
        self.journal.take_from(&mut self.receiver);
        datagram
    }

    /// The newest events of this session as lines of JSON.
    pub fn events(&self) -> Vec<u8> {
        self.journal.lines()
    }

    /// Time has passed: handles what `next_timeout` announced. To be called once frames are fetched and before `poll_transmit`; costs
    /// little where nothing is due.
    pub fn on_timeout(&mut self, now: f64) {
        let now = time(now);
        if let Some((_, wake)) = self.receiver.poll_timeout().filter(|(at, _)| *at <= now) {
            self.tally.on_wake(wake);
            self.receiver.on_timeout(now);
        }
    }

    /// When `on_timeout` must be called even if nothing happens, or infinity.
    pub fn next_timeout(&self) -> f64 {
        self.receiver.poll_timeout().map_or(f64::INFINITY, |(at, _)| micros(at))
    }

    /// Rows of `TIMELINE_COLUMNS` for frames displayed since the last call.
    pub fn take_timelines(&mut self) -> Vec<f64> {
        self.tally.take_timelines()
    }

    /// Counters as JSON.
    pub fn statistics(&self, now: f64) -> String {
        self.tally.statistics(time(now), &self.receiver)
    }

    /// The session so far as the JSON object of docs/json.md.
    pub fn summary(&self, now: f64) -> String {
        let summary = self.tally.summary(time(now), &self.receiver);
        serde_json::to_string(&summary).expect("a summary is plain data")
    }
}

/// An encoded picture on its way to the decoder.
#[wasm_bindgen]
pub struct Frame(ReadyFrame);

#[wasm_bindgen]
impl Frame {
    #[wasm_bindgen(getter)]
    pub fn id(&self) -> u32 {
        self.0.id.0
    }

    #[wasm_bindgen(getter)]
    pub fn key(&self) -> bool {
        self.0.key
    }

    /// Whether the picture is still of use on a display; otherwise it is decoded only because later ones refer to it.
    #[wasm_bindgen(getter)]
    pub fn show(&self) -> bool {
        self.0.show
    }

    /// Width and height of the picture, in pixels and without the marker below.
    pub fn size(&self) -> Vec<u16> {
        vec![self.0.header.width, self.0.header.height]
    }

    /// What each eye of the picture shows: `VIEW_COLUMNS` for each.
    pub fn views(&self) -> Vec<f32> {
        presence::view_numbers(&self.0.header.views)
    }

    /// The encoded picture, copied into JavaScript's memory.
    pub fn bits(&self) -> Vec<u8> {
        self.0.bits().to_vec()
    }
}

const fn display_kind(immersive: bool) -> DisplayKind {
    if immersive { DisplayKind::Headset } else { DisplayKind::Screen }
}

fn time(micros: f64) -> Time {
    Time::from_nanos((micros * 1e3) as u64)
}

fn server_time(micros: f64) -> RemoteTime {
    RemoteTime::from_nanos((micros * 1e3) as u64)
}

fn micros(time: Time) -> f64 {
    time.as_nanos() as f64 / 1e3
}

/// Width and height in pixels of the area with the marker below a picture of this size, decoded at that size: directly below it, from the
/// left. None where the decoded picture has no such marker.
#[wasm_bindgen]
pub fn strip_below(width: u16, height: u16, decoded_width: u16, decoded_height: u16) -> Option<Vec<u16>> {
    let strip = Strip::below((width, height), (decoded_width, decoded_height))?;
    Some(vec![strip.width(), strip.height()])
}

/// Reads the marker from exactly its pixels; none where there are more or fewer.
fn read_marker(pixels: &[u8], width: u16) -> Option<Marker> {
    let strip = Strip::of_width(width).filter(|strip| strip.width() == width)?;
    let width = usize::from(width);
    if pixels.len() != width * usize::from(strip.height()) * RGBA_BYTES {
        return None;
    }
    // The marker is black and white: green alone is as good as luma and needs no weights.
    Marker::read(strip, |x, y| pixels[(y * width + x) * RGBA_BYTES + 1])
}

#[cfg(test)]
mod tests;
