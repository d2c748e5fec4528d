// The media side of the page: everything between the network and the canvas, off the window's thread.

import { type Carrier, explain } from "./carrier.ts";
import { PageClock, type PageTime } from "./clock.ts";
import { CodecChoice, type DecoderKind, claimedCodecs } from "./codecs.ts";
import { Connection } from "./connection.ts";
import initCore from "./core/core.js";
import type { CodecKind, DevicesDescription } from "./generated/wire.ts";
import { SpeakerPort, decodesSound } from "./listener.ts";
import type { FromWorker, RefusalReason, ServerMessage, StartMessage, ToWorker } from "./messages.ts";
import { painterFor } from "./painter.ts";
import type { MarkerPixels, PictureKey } from "./picture.ts";
import { Player } from "./player.ts";
import { Screen } from "./screen.ts";

/** How often timelines and counters are reported to the window, and decoding is checked. Guess: faster cannot be read. */
const REPORT_INTERVAL_MS = 200;
/** How long a server may keep the slot of a session that this page has left: 5 s for one that had not connected. */
const LEAVING_MS = 6_000;
/** How long the worker stays after `close`, so that its goodbye leaves. Guess. */
const LINGER_MS = 1_000;

const scope = self as unknown as {
  onmessage: ((event: MessageEvent<ToWorker>) => void) | null;
  postMessage(message: FromWorker, transfer?: Transferable[]): void;
  close(): void;
};

class MediaWorker {
  #start: StartMessage;
  readonly #clock: PageClock;
  readonly #codecs: CodecChoice;
  /** The browser can decode the world's sound. */
  readonly #playsSound: boolean;
  #speaker: SpeakerPort | null = null;
  readonly #screen: Screen;
  #connection: Connection;
  /** When a session was last left for another one. */
  #leftAt = -LEAVING_MS;
  #player: Player | null = null;
  #immersive = false;
  /** Refresh rate of the page's display. */
  #screenHz: number;
  /** Refresh rate of the display that shows the pictures, which may be a headset's. */
  #displayHz: number;
  /** The newest presence. A new session needs it before the user moves again. */
  #presence: Float32Array<ArrayBuffer> | null = null;
  /** The user's gamepads and controllers. A new session needs them too. */
  #devices: DevicesDescription | null = null;
  readonly #reporter: ReturnType<typeof setInterval>;
  #closed = false;

  constructor(start: StartMessage, claimed: CodecKind[], playsSound: boolean) {
    this.#start = start;
    this.#clock = new PageClock(start.epoch);
    this.#codecs = new CodecChoice(claimed);
    this.#playsSound = playsSound;
    this.#screenHz = start.displayHz;
    this.#displayHz = start.displayHz;
    const { painter, why } = painterFor(start.surface, start.why);
    this.#screen = new Screen(painter, this.#clock, start.displayOrder, {
      onShown: (frame, marker) => this.#onShown(this.#clock.now(), frame, marker),
      onRefreshRate: (hertz) => this.#onRefreshRate(hertz),
    });
    scope.postMessage({ type: "painter", name: painter.name, why });
    this.#connection = this.#connect();
    this.#reporter = setInterval(() => this.#report(), REPORT_INTERVAL_MS);
  }

  onMessage(message: Exclude<ToWorker, StartMessage>): void {
    if (this.#closed) return;
    switch (message.type) {
      case "presence":
        this.#presence = message.values;
        this.#player?.onPresence(message.at, message.values);
        break;
      case "device":
        this.#player?.onDevice(message.at, message.input);
        break;
      case "devices":
        this.#devices = { gamepads: message.gamepads, controllers: message.controllers };
        this.#player?.onDevices(this.#devices);
        break;
      case "clipboard":
        this.#player?.onClipboard(message.text);
        break;
      case "send":
        this.#player?.send(message.data, message.reliable);
        break;
      case "display":
        this.#immersive = message.immersive;
        this.#displayHz = message.immersive ? message.displayHz : this.#screenHz;
        this.#player?.onDisplay(message.immersive, this.#displayHz);
        break;
      case "shown":
        this.#onShown(message.at, message.frame, message.marker);
        break;
      case "speaker":
        this.#speaker?.close();
        this.#speaker = new SpeakerPort(message.port, (heardAt, moments, left) => {
          if (this.#player) return this.#player.onSpeaker(heardAt, moments, left);
          return { samples: new Float32Array(moments * 2), depth: moments };
        });
        break;
      case "speaker-clock":
        this.#speaker?.onClock(message.clock);
        break;
      case "retry":
        this.#codecs.retry();
        this.#connectAnew();
        break;
      case "pause":
        this.#connection.close();
        this.#lose();
        break;
      case "transport":
        this.#start = { ...this.#start, transport: message.transport };
        this.#leftAt = performance.now();
        this.#connectAnew();
        break;
      case "name":
        this.#start = { ...this.#start, userName: message.userName };
        if (message.anew) {
          this.#leftAt = performance.now();
          this.#connectAnew();
        }
        break;
      case "summary":
        scope.postMessage({ type: "answer", id: message.id, text: this.#player?.summary() ?? "null" });
        break;
      case "events":
        scope.postMessage({ type: "answer", id: message.id, text: this.#player?.events() ?? "" });
        break;
      case "close":
        this.#close();
        break;
    }
  }

  #connectAnew(): void {
    this.#connection.close();
    this.#lose();
    this.#connection = this.#connect();
  }

  #connect(): Connection {
    const { origin, token, certificate, transport, webrtc, remembered } = this.#start;
    return new Connection({ origin, token, certificate, transport, webrtc, remembered }, {
      askForPeer: (port) => scope.postMessage({ type: "peer", port, codecs: this.#codecs.offered("webrtc") }, [port]),
      onOpen: (carrier, why, remembered) => {
        if (remembered !== undefined) this.#start = { ...this.#start, remembered };
        scope.postMessage({ type: "carrier", name: carrier.name, why, remembered });
        this.#open(carrier);
      },
      onControl: (bytes) => this.#player?.onControl(bytes),
      onDatagram: (bytes) => this.#player?.onDatagram(bytes),
      onPicture: (received) => {
        if (this.#player) this.#player.onReceivedPicture(received);
        else received.picture.close();
      },
      onCounts: (counts) => this.#player?.onCounts(counts),
      onSoundCounts: (counts) => this.#player?.onSoundCounts(counts),
      onUndecodable: () => this.#player?.onUndecodable(),
      onRefused: (reason, message) => this.#onRefused(reason, message),
      onLost: () => this.#lose(),
      onState: (state) => scope.postMessage({ type: "state", state }),
    });
  }

  #open(carrier: Carrier): void {
    this.#lose();
    const decoder = carrier.name === "webrtc" ? "webrtc" : "webcodecs";
    scope.postMessage({ type: "codec", why: this.#codecs.failures(decoder) });
    const player = new Player(
      {
        carrier,
        clock: this.#clock,
        token: this.#start.token,
        codecs: this.#codecs.offered(decoder),
        playsSound: this.#playsSound,
        immersive: this.#immersive,
        displayHz: this.#displayHz,
        clipboard: this.#start.clipboard,
        userName: this.#start.userName,
        seat: this.#start.seat,
      },
      {
        onMessage: (message) => this.#onServer(message),
        onPicture: (frame, picture, crop, times, views) => {
          if (!this.#immersive) this.#screen.show(frame, picture, crop, times);
          else if (views) scope.postMessage({ type: "frame", frame, picture, crop, views }, [picture, views.buffer]);
          else picture.close();
        },
        onUnreliable: (data) => scope.postMessage({ type: "received", data, reliable: false }, [data.buffer]),
        onProven: () => {
          this.#start = { ...this.#start, certificate: null };
          this.#connection.onProven();
        },
        onImpostor: () => this.#onRefused("impostor", ""),
        onBroken: (why) => this.#connection.restart(why),
        onUndecodable: (codec) => this.#onUndecodable(decoder, codec),
      },
    );
    this.#player = player;
    if (this.#presence) player.onPresence(this.#clock.now(), this.#presence);
  }

  #onServer(message: ServerMessage): void {
    const { type } = message;
    if (type === "welcome") {
      scope.postMessage({ type, welcome: message });
      if (this.#devices) this.#player?.onDevices(this.#devices);
    }
    if (type === "stream") scope.postMessage({ type, stream: message });
    else if (type === "rate") scope.postMessage({ type, at: this.#clock.now(), rate: message });
    else if (type === "haptics") scope.postMessage({ type, haptics: message });
    else if (type === "pointer") scope.postMessage({ type, cursor: message.cursor, captured: message.captured });
    else if (type === "clipboard") scope.postMessage({ type, text: message.text });
    else if (type === "application") {
      const data = Uint8Array.from(atob(message.data), (letter) => letter.charCodeAt(0));
      scope.postMessage({ type: "received", data, reliable: true }, [data.buffer]);
    } else if (type === "goodbye") {
      scope.postMessage({ type });
      this.#connection.restart(message.message);
    } else if (type === "refused") this.#onRefused(message.reason, message.message);
  }

  /** The browser claims the codec and decodes nothing of it: the next session asks for another one. */
  #onUndecodable(decoder: DecoderKind, codec: CodecKind): void {
    const hasOther = this.#codecs.onFailed(decoder, codec);
    const why = this.#codecs.failures(decoder);
    scope.postMessage({ type: "codec", why });
    if (!hasOther) return this.#onRefused("undecodable", why);
    this.#lose();
    this.#leftAt = performance.now();
    this.#connection.restart(why);
  }

  #onRefused(reason: RefusalReason, message: string): void {
    const waits = reason === "full" || reason === "too_many_attempts";
    if (waits && performance.now() - this.#leftAt < LEAVING_MS) {
      this.#connection.restart(message);
      return;
    }
    this.#connection.close();
    this.#lose();
    scope.postMessage({ type: "state", state: { state: "refused", reason, message } });
  }

  #onShown(at: PageTime, frame: PictureKey, marker: MarkerPixels | null): void {
    this.#player?.onShown(at, frame, marker);
    this.#connection.onShown();
  }

  /** The page's refresh rate; a headset reports its own when its session begins. */
  #onRefreshRate(hertz: number): void {
    this.#screenHz = hertz;
    if (this.#immersive) return;
    this.#displayHz = hertz;
    this.#player?.onDisplay(false, hertz);
  }

  #report(): void {
    this.#player?.checkDecoding(performance.now());
    if (!this.#player) return;
    const rows = this.#player.takeTimelines();
    if (rows.length > 0) scope.postMessage({ type: "timelines", rows }, [rows.buffer]);
    scope.postMessage({ type: "statistics", statistics: this.#player.statistics(), marker: this.#player.marker() });
  }

  #lose(): void {
    this.#player?.close();
    this.#player = null;
  }

  #close(): void {
    this.#closed = true;
    clearInterval(this.#reporter);
    this.#lose();
    this.#connection.close();
    this.#screen.close();
    this.#speaker?.close();
  }
}

let media: Promise<MediaWorker> | null = null;

async function start(message: StartMessage): Promise<MediaWorker> {
  const core = initCore({ module_or_path: new URL("core.wasm", self.location.href) }).catch((error: unknown) => {
    throw new Error(`core.wasm cannot be used: ${explain(error)}`);
  });
  const [claimed, playsSound] = await Promise.all([claimedCodecs(), decodesSound(), core]);
  return new MediaWorker(message, claimed, playsSound);
}

scope.onmessage = ({ data }) => {
  if (data.type !== "start") {
    void media?.then((running) => running.onMessage(data), () => undefined);
    if (data.type === "close") setTimeout(() => scope.close(), LINGER_MS);
    return;
  }
  media = start(data);
  media.catch((error: unknown) => scope.postMessage({ type: "state", state: { state: "failed", message: explain(error) } }));
};
