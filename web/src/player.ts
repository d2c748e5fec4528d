// One session: connects the core, which decides, with the decoder and the carrier, which only move data.

import type { Carrier, ReceivedPicture } from "./carrier.ts";
import { type CoreTime, type PageClock, type PageTime, micros } from "./clock.ts";
import { Core, strip_below } from "./core/core.js";
import { Decoder } from "./decoder.ts";
import type { Statistics as Counters, PictureCounts, SoundCounts } from "./generated/core.ts";
import { type CodecKind, type DevicesDescription, HANDS } from "./generated/wire.ts";
import type { DeviceInput } from "./input/devices.ts";
import { SoundDecoder } from "./listener.ts";
import type { Marker, ServerMessage, Statistics, StreamDescription } from "./messages.ts";
import type { Crop, DisplayTimes, FrameId, MarkerPixels, PictureKey, RtpTimestamp } from "./picture.ts";

export interface PlayerOptions {
  carrier: Carrier;
  clock: PageClock;
  token: string;
  /** Codecs to ask the server for, best first. */
  codecs: CodecKind[];
  /** Request the world's sound. */
  playsSound: boolean;
  immersive: boolean;
  displayHz: number;
  /** Share clipboard texts. */
  clipboard: boolean;
  /** The user's name in the room, or "" for one that the server makes up. */
  userName: string;
  /** The key of the page's seat in rooms. */
  seat: Uint8Array;
}

export interface PlayerOut {
  onMessage(message: ServerMessage): void;
  /** The recipient closes the picture, and calls `onShown` once it is shown. Without `views` only a screen can show it. */
  onPicture(frame: PictureKey, picture: VideoFrame, crop: Crop, times: DisplayTimes, views: Float32Array<ArrayBuffer> | null): void;
  /** A message from the application that may have been lost. */
  onUnreliable(data: Uint8Array<ArrayBuffer>): void;
  /** The server has proven that it knows the token. */
  onProven(): void;
  /** It welcomes us without knowing the token. */
  onImpostor(): void;
  /** The session cannot continue. */
  onBroken(why: string): void;
  /** Frames of this codec arrive, and the browser decodes none of them. */
  onUndecodable(codec: CodecKind): void;
}

/** A picture's size in pixels, without the marker below it. */
interface Size {
  width: number;
  height: number;
}

/** A frame between receiver and display. */
interface FrameInDecoder {
  show: boolean;
  size: Size;
  views: Float32Array<ArrayBuffer>;
}

export class Player {
  readonly #core: Core;
  readonly #carrier: Carrier;
  readonly #clock: PageClock;
  readonly #out: PlayerOut;
  readonly #inDecoder = new Map<FrameId, FrameInDecoder>();
  #decoder: Decoder | null = null;
  /** The newest picture of the browser's own receiver that waits for its note: a headset needs it, or nothing else says where the
   *  picture ends. */
  #unnoted: ReceivedPicture | null = null;
  #immersive: boolean;
  readonly #sound = new SoundDecoder((block, samples) => {
    if (!this.#closed) this.#core.on_sound_decoded(block, samples);
  });
  #stream: StreamDescription | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #timerAt = Number.POSITIVE_INFINITY;
  #closed = false;
  /** A pasted text is being sent. */
  #pasting = false;

  constructor(options: PlayerOptions, out: PlayerOut) {
    this.#carrier = options.carrier;
    this.#core = new Core(this.#carrier.name);
    this.#clock = options.clock;
    this.#out = out;
    const { token, codecs, immersive, displayHz, clipboard, userName, seat } = options;
    this.#core.set_seat(seat);
    if (userName) this.#core.set_user_name(userName);
    if (clipboard) this.#core.want_clipboard();
    this.#immersive = immersive;
    // Over WebRTC sound is not among the datagrams.
    if (options.playsSound && this.#carrier.name !== "webrtc") this.#core.want_sound();
    if (this.#pair(token)) void this.#carrier.sendControl(this.#core.hello(navigator.userAgent, immersive, codecs, displayHz));
  }

  onControl(bytes: Uint8Array): void {
    this.#core.on_control(bytes);
    try {
      const next = (): string | undefined => this.#core.poll_message(this.#now());
      for (let json = next(); json !== undefined; json = next()) {
        const message = JSON.parse(json) as ServerMessage;
        if (message.type === "welcome") {
          if (this.#core.awaits_proof()) return this.#out.onImpostor();
          if (this.#carrier.challenge) this.#out.onProven();
          this.#onStream(message.stream);
          this.#pump();
        }
        if (message.type === "stream") this.#onStream(message);
        if (this.#unnoted) this.#offer(this.#unnoted);
        this.#out.onMessage(message);
      }
    } catch (error) {
      this.#out.onBroken(`the server's control message cannot be read: ${String(error)}`);
    }
  }

  onDatagram(bytes: Uint8Array): void {
    this.#core.on_datagram(this.#now(), bytes);
    if (this.#unnoted) this.#offer(this.#unnoted);
    this.#pump();
  }

  /** The browser's own receiver decoded a picture. */
  onReceivedPicture(received: ReceivedPicture): void {
    const { rtpTimestamp, receivedAt } = received;
    this.#core.on_picture(this.#now(), rtpTimestamp, receivedAt === null ? Number.NaN : micros(receivedAt));
    this.#offer(received);
    this.#pump();
  }

  /** Counters of the browser's own receiver. */
  onCounts(counts: PictureCounts): void {
    this.#core.on_rtp_counts(this.#now(), JSON.stringify(counts));
    this.#pump();
  }

  /** The receiver's counters of the sound. */
  onSoundCounts(counts: SoundCounts): void {
    this.#core.on_rtp_sound(this.#now(), JSON.stringify(counts));
  }

  /** Where the user is, as `presenceNumbers` lays it out. */
  onPresence(at: PageTime, values: Float32Array): void {
    this.#core.on_presence(micros(at), values);
    this.#pump();
  }

  onDevice(at: PageTime, input: DeviceInput): void {
    const when = micros(at);
    switch (input.device) {
      case "key":
        if (input.character) this.#core.on_key_character(when, input.code, input.character);
        this.#core.on_key(when, input.code, input.pressed);
        // In the same sample, so that the application sees what the key types.
        if (input.text) this.#core.on_text(when, input.text);
        break;
      case "key-repeat":
        this.#core.on_key_repeat(when, input.code, input.text ?? "");
        break;
      case "text":
        this.#core.on_text(when, input.text);
        break;
      case "pointer":
        this.#core.on_pointer(when, new Float64Array(input.values));
        break;
      case "touches":
        this.#core.on_touches(when, new Float64Array(input.values));
        break;
      case "gamepads":
        this.#core.on_gamepads(when, new Float32Array(input.values));
        break;
      case "joints":
        this.#core.on_joints(when, HANDS.indexOf(input.hand), new Float32Array(input.values));
        break;
      case "release":
        this.#core.on_release_all(when);
        break;
    }
    this.#pump();
  }

  onDevices(devices: DevicesDescription): void {
    this.#say(this.#core.devices(JSON.stringify({ type: "devices", ...devices })));
  }

  /** The user has pasted a text, which the page has found to be within the limit. */
  onClipboard(text: string): void {
    if (!this.#closed && !this.#core.awaits_proof() && this.#core.paste(text)) void this.#sendPasted();
  }

  /** Sends pasted text in chunks, as fast as the transport takes them. */
  async #sendPasted(): Promise<void> {
    if (this.#pasting) return;
    this.#pasting = true;
    while (!this.#closed) {
      const chunk = this.#core.poll_clipboard();
      if (!chunk) break;
      await this.#carrier.sendControl(chunk);
    }
    this.#pasting = false;
  }

  /** A message for the application. */
  send(data: Uint8Array, reliable: boolean): void {
    if (reliable) this.#say(this.#core.application(data));
    else if (this.#core.send_unreliable(data)) this.#pump();
  }

  /** Sends a control message once the server has proved that it knows the token; ignored where it is too long. */
  #say(message: Uint8Array | undefined): void {
    if (message && !this.#closed && !this.#core.awaits_proof()) void this.#carrier.sendControl(message);
  }

  /** The loudspeaker requests samples that will be heard at `heardAt`. It has `left` more moments queued; negative if it lacked some. */
  onSpeaker(heardAt: PageTime, moments: number, left: number): { samples: Float32Array<ArrayBuffer>; depth: number } {
    const depth = this.#core.speaker_depth(this.#now(), left);
    const samples = this.#core.poll_samples(this.#now(), micros(heardAt), moments) as Float32Array<ArrayBuffer>;
    this.#pump();
    return { samples, depth };
  }

  onDisplay(immersive: boolean, displayHz: number): void {
    this.#immersive = immersive;
    void this.#carrier.sendControl(this.#core.display(immersive, displayHz));
  }

  /** The frame's pixels exist since `at`; `marker` are those that hold its marker. */
  onShown(at: PageTime, frame: PictureKey, marker: MarkerPixels | null): void {
    this.#core.on_displayed(micros(at), frame, marker?.rgba ?? new Uint8Array(), marker?.width ?? 0);
    this.#pump();
  }

  /** Rows of `TIMELINE_COLUMNS` for the frames displayed since the last call. */
  takeTimelines(): Float64Array<ArrayBuffer> {
    return this.#core.take_timelines() as Float64Array<ArrayBuffer>;
  }

  statistics(): Statistics {
    const at = this.#clock.now();
    return { ...(JSON.parse(this.#core.statistics(micros(at))) as Counters), at };
  }

  marker(): Marker | null {
    const marker = this.#core.last_marker();
    return marker ? { frame: (marker[0] ?? 0) as FrameId, input: marker[1] ?? 0 } : null;
  }

  summary(): string {
    return this.#core.summary(this.#now());
  }

  /** Reports a codec of which nothing comes out of the decoder. Call it several times a second. */
  checkDecoding(now: number): void {
    if (this.#decoder?.isDead(now)) this.onUndecodable();
  }

  /** The browser decodes none of the frames that arrive. */
  onUndecodable(): void {
    if (this.#stream) this.#out.onUndecodable(this.#stream.codec);
  }

  /** The newest events, a line of JSON each. */
  events(): string {
    return new TextDecoder().decode(this.#core.events());
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    void this.#carrier.sendControl(this.#core.goodbye());
    clearTimeout(this.#timer);
    this.#decoder?.close();
    this.#unnoted?.picture.close();
    this.#sound.close();
    this.#inDecoder.clear();
    this.#core.free();
  }

  #now(): CoreTime {
    return micros(this.#clock.now());
  }

  /** Where there is a challenge the hello proves the token. */
  #pair(token: string): boolean {
    const { challenge } = this.#carrier;
    if (!challenge) return true;
    try {
      this.#core.pair(token, challenge.bytes, crypto.getRandomValues(new Uint8Array(32)), challenge.certificate ?? undefined);
      return true;
    } catch (error) {
      this.#out.onBroken(String(error));
      return false;
    }
  }

  #onStream(stream: StreamDescription): void {
    const changed = stream.codec_string !== this.#stream?.codec_string;
    this.#stream = stream;
    if (!changed || this.#carrier.name === "webrtc") return;
    this.#decoder?.close();
    this.#decoder = new Decoder(stream.codec_string, {
      onPicture: (frame, picture) => this.#onPicture(frame, picture),
      onFailure: (frame) => {
        this.#inDecoder.delete(frame);
        this.#core.on_decode_failed(this.#now(), frame);
        this.#pump();
      },
    });
  }

  #onPicture(frame: FrameId, picture: VideoFrame): void {
    this.#core.on_decoded(this.#now(), frame);
    const known = this.#inDecoder.get(frame);
    this.#inDecoder.delete(frame);
    // A screen may have a chance for a picture that another has caught up with; a headset draws the newest for where it looks now.
    if (known && (known.show || !this.#immersive)) {
      this.#out.onPicture(frame, picture, cropTo(known.size, picture) ?? whole(picture), this.#timesOf(frame), known.views);
    } else picture.close();
    this.#pump();
  }

  /** Passes the picture on. A headset needs its views, which only the note has; a screen needs to know where the picture ends. */
  #offer(received: ReceivedPicture): void {
    const { picture, rtpTimestamp } = received;
    if (this.#unnoted !== received) this.#unnoted?.picture.close();
    this.#unnoted = null;
    const views = this.#core.picture_views(rtpTimestamp) as Float32Array<ArrayBuffer> | undefined;
    const crop = this.#cropOf(picture, rtpTimestamp);
    if (crop && (views || !this.#immersive)) this.#out.onPicture(rtpTimestamp, picture, crop, this.#timesOf(rtpTimestamp), views ?? null);
    else this.#unnoted = received;
  }

  #timesOf(frame: PictureKey): DisplayTimes {
    const [capturedAt = 0, deadline = Number.POSITIVE_INFINITY] = this.#core.display_times(this.#now(), frame);
    return { capturedAt, deadline };
  }

  /** Returns the crop from the picture's note, or until that arrives from the stream's description. Null when the description is of
   *  another size: a picture may overtake the message that describes it. */
  #cropOf(picture: VideoFrame, rtpTimestamp: RtpTimestamp): Crop | null {
    const noted = this.#core.picture_size(rtpTimestamp);
    if (noted) return cropTo(sizeOf(noted), picture) ?? whole(picture);
    return this.#stream && cropTo(this.#stream, picture);
  }

  /** Hands out all work that the core has: frames to the decoder, datagrams to the link, its next deadline to the timer. */
  #pump(): void {
    // A server that has not proved that it knows the token is neither shown nor answered.
    if (this.#closed || this.#core.awaits_proof()) return;
    const now = this.#now();
    for (let frame = this.#core.poll_frame(now); frame; frame = this.#core.poll_frame(now)) {
      const { key, show } = frame;
      const id = frame.id as FrameId;
      const views = frame.views() as Float32Array<ArrayBuffer>;
      const [bits, size] = [frame.bits(), sizeOf(frame.size())];
      frame.free();
      this.#inDecoder.set(id, { show, size, views });
      if (this.#decoder) this.#decoder.decode(id, key, bits);
      else this.#core.on_decode_failed(this.#now(), id);
    }
    for (let chunk = this.#core.poll_sound(now); chunk; chunk = this.#core.poll_sound(now)) {
      const { block } = chunk;
      const bits = chunk.bits();
      chunk.free();
      this.#sound.decode(block, bits);
    }
    for (let data = this.#core.poll_application(); data; data = this.#core.poll_application()) {
      this.#out.onUnreliable(data as Uint8Array<ArrayBuffer>);
    }
    // Complete frames are taken before a timer that may give them up.
    this.#core.on_timeout(now);
    for (let out = this.#core.poll_transmit(now); out; out = this.#core.poll_transmit(now)) {
      this.#carrier.sendDatagram(out);
    }
    this.#arm(now);
  }

  #arm(now: CoreTime): void {
    const due = this.#core.next_timeout();
    if (due === this.#timerAt) return;
    clearTimeout(this.#timer);
    this.#timerAt = due;
    if (!Number.isFinite(due)) return;
    this.#timer = setTimeout(
      () => {
        this.#timerAt = Number.POSITIVE_INFINITY;
        this.#pump();
      },
      Math.max(0, (due - now) / 1000),
    );
  }
}

function sizeOf([width = 0, height = 0]: Uint16Array): Size {
  return { width, height };
}

/** Returns how a decoded picture splits into a picture of this size and the marker below it. Null when its size fits neither. */
function cropTo({ width, height }: Size, { displayWidth, displayHeight }: VideoFrame): Crop | null {
  if (displayWidth === width && displayHeight === height) return { height, marker: null };
  const strip = strip_below(width, height, displayWidth, displayHeight);
  return strip ? { height, marker: sizeOf(strip) } : null;
}

/** Shows the whole decoded picture, when it is not as described. */
function whole({ displayHeight }: VideoFrame): Crop {
  return { height: displayHeight, marker: null };
}
