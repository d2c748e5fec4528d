// The page: joins the shell, the worker that plays the stream, the screen's user and the headset.

import { pageTime } from "./clock.ts";
import { Headset, headsetOffer } from "./headset.ts";
import { Hud } from "./hud.ts";
import { Loudspeaker } from "./loudspeaker.ts";
import { type Pose, yawPitchOf } from "./math.ts";
import type { Action, FromWorker, Hand, Marker, Statistics, StreamDescription, ToWorker, TransportChoice, Welcome } from "./messages.ts";
import { element } from "./page.ts";
import { Peer } from "./peer.ts";
import { Shell } from "./shell.ts";
import { hasWebRtc, missingFeatures } from "./support.ts";
import { Walker } from "./walker.ts";

/** What tests and curious people find at `window.nearlight`. */
export interface Hooks {
  /** `connecting`, `waiting`, `live`, `stalled`, `reconnecting`, `refused`, `failed`, `unsupported` or `unpaired`. */
  readonly state: string;
  /** What the newest displayed pixels said, if they were readable. */
  readonly lastMarker: Marker | null;
  readonly stream: StreamDescription | null;
  readonly statistics: Statistics | null;
  /** The session so far, as `nearlight view --json` prints it; none before there is one. */
  summary(): Promise<unknown>;
  /** The newest events of the session as lines of JSON (docs/json.md). */
  events(): Promise<string>;
  /** How loud the last moments were for the left and the right ear, before volume and mute; none before the sound was started. */
  loudness(): [number, number] | null;
  act(hand: Hand, action: Action): void;
  /** Puts the screen's user somewhere: metres, and radians to the left of -z and up. */
  setPose(pose: { position: [number, number, number]; yaw?: number; pitch?: number }): void;
}

declare global {
  interface Window {
    nearlight: Hooks;
  }
}

/** Where the headset's user begins if the server has not said so yet. */
const START: Pose = { position: [0, 1.6, 6], orientation: [0, 0, 0, 1] };

class App {
  readonly #token: string;
  readonly #certificate: string | null;
  readonly #shell: Shell;
  readonly #hud = new Hud();
  readonly #worker = new Worker(new URL("worker.js", document.baseURI), { type: "module" });
  readonly #walker: Walker;
  readonly #loudspeaker = new Loudspeaker({
    onPort: (port) => this.#worker.postMessage({ type: "speaker", port } satisfies ToWorker, [port]),
    onClock: (clock) => this.#post({ type: "speaker-clock", clock }),
  });
  readonly #questions = new Map<number, (text: string) => void>();
  #asked = 0;
  /** The session's end in the window, where it runs over WebRTC. */
  #peer: Peer | null = null;
  #headset: Headset | null = null;
  #entering = false;
  #marker: Marker | null = null;
  #stream: StreamDescription | null = null;
  #statistics: Statistics | null = null;
  /** Where the server lets users begin, once it has said so. */
  #start: Pose | null = null;

  constructor({ token, certificate }: Pairing) {
    this.#shell = new Shell({
      onEnter: () => this.#enter(),
      onEnterVr: () => void this.#enterVr(),
      onToggleHud: () => this.#toggleHud(),
      onFullscreen: () => void toggleFullscreen(),
      onRetry: () => this.#post({ type: "retry" }),
      onMute: () => this.#toggleMute(),
      onVolume: (volume) => this.#setVolume(volume),
      onTransport: (transport) => this.#useTransport(transport),
    });
    this.#shell.onSound(this.#loudspeaker.volume, this.#loudspeaker.muted);
    element("save-events").addEventListener("click", () => void this.#saveEvents());
    this.#walker = new Walker(element("stage"), {
      onPresence: (at, values) => this.#post({ type: "presence", at: pageTime(at), values }),
      onAction: (at, action) => this.#post({ type: "act", at: pageTime(at), hand: "gaze", action }),
      onToggleHud: () => this.#toggleHud(),
      onToggleMute: () => this.#toggleMute(),
    });
    this.#worker.onmessage = ({ data }: MessageEvent<FromWorker>) => this.#onWorker(data);
    this.#worker.onerror = (event) =>
      this.#shell.onState({ state: "failed", message: `Its worker does not start: ${event.message || "a file is missing"}. Reload the page.` });
    this.#token = token;
    this.#certificate = certificate;
    this.#startWorker();
    void this.#offerVr();
    navigator.xr?.addEventListener("devicechange", () => void this.#offerVr());
    window.addEventListener("pagehide", () => {
      this.#post({ type: "close" });
      // The worker may not get to say so any more.
      this.#peer?.close();
    });
    // A page that comes back from the browser's cache has closed its session.
    window.addEventListener("pageshow", (event) => {
      if (event.persisted) location.reload();
    });
    window.nearlight = this.#hooks();
  }

  #startWorker(): void {
    const canvas = element("picture", HTMLCanvasElement).transferControlToOffscreen();
    // In front of the fragment: ?marker, ?painter=webgl2, ?painter=2d, ?transport= and the name of one.
    const options = new URLSearchParams(location.search);
    const painter = options.get("painter");
    const transport = transportOf(options.get("transport"));
    this.#shell.onTransport(transport);
    const start: ToWorker = {
      type: "start",
      canvas,
      origin: location.href,
      transport,
      webrtc: hasWebRtc(),
      token: this.#token,
      certificate: this.#certificate,
      epoch: performance.timeOrigin,
      displayHz: 60,
      // For those who measure with a camera.
      showMarker: options.has("marker"),
      painter: painter === "webgl2" || painter === "2d" ? painter : "auto",
    };
    this.#worker.postMessage(start, [canvas]);
    this.#walker.sendNow();
  }

  #post(message: ToWorker): void {
    this.#worker.postMessage(message);
  }

  #onWorker(message: FromWorker): void {
    switch (message.type) {
      case "state":
        this.#shell.onState(message.state);
        break;
      case "painter":
        this.#hud.onPainter(message.name, message.why);
        break;
      case "carrier":
        this.#hud.onCarrier(message.name, message.why);
        break;
      case "peer":
        this.#peer?.close();
        this.#peer = new Peer({
          port: message.port,
          origin: location.href,
          token: this.#token,
          onSound: (track) => {
            this.#loudspeaker.track = track;
          },
          audible: () => this.#loudspeaker.plays,
          onCarriage: (tcp) => this.#hud.onCarriage(tcp),
        });
        break;
      case "welcome":
        this.#hud.onWelcome(message.welcome);
        this.#onWelcome(message.welcome);
        break;
      case "stream":
        this.#hud.onStream(message.stream);
        this.#onStream(message.stream);
        break;
      case "rate":
        this.#hud.onRate(message.rate);
        break;
      case "timelines":
        this.#hud.onTimelines(message.rows);
        break;
      case "statistics":
        this.#marker = message.marker;
        this.#statistics = message.statistics;
        this.#hud.onStatistics(message.statistics);
        break;
      case "frame":
        if (this.#headset) this.#headset.onPicture(message.frame, message.picture, message.views);
        else message.picture.close();
        break;
      case "answer":
        this.#questions.get(message.id)?.(message.text);
        this.#questions.delete(message.id);
        break;
    }
  }

  /** Only the first session says where to stand: after a lost connection users go on from where they are. */
  #onWelcome({ stream, start }: Welcome): void {
    if (!this.#start) {
      this.#start = start;
      const { yaw, pitch } = yawPitchOf(start.orientation);
      this.#walker.place(start.position, yaw, pitch);
    }
    this.#onStream(stream);
  }

  #onStream(stream: StreamDescription): void {
    this.#stream = stream;
    if (stream.views === 1) this.#walker.aspect = stream.width / stream.height;
  }

  #enter(): void {
    this.#startSound();
    this.#shell.view = "world";
    element("stage").focus({ preventScroll: true });
    if (matchMedia("(pointer: fine)").matches) this.#walker.lockPointer();
  }

  async #enterVr(): Promise<void> {
    if (this.#headset) {
      this.#headset.close();
      return;
    }
    if (this.#entering) return;
    this.#entering = true;
    this.#startSound();
    try {
      this.#headset = await Headset.enter(this.#start ?? START, {
        onBegin: (displayHz) => this.#onImmersive(true, displayHz),
        onPresence: (at, values) => this.#post({ type: "presence", at: pageTime(at), values }),
        onAction: (at, hand, action) => this.#post({ type: "act", at: pageTime(at), hand, action }),
        onShown: (at, frame, pixels) =>
          this.#worker.postMessage({ type: "shown", at: pageTime(at), frame, pixels } satisfies ToWorker, [pixels.buffer]),
        onEnd: () => {
          this.#headset = null;
          this.#onImmersive(false, 60);
          void this.#offerVr();
        },
      });
    } catch (error) {
      // A headset that is taken or a user who declines is no reason to stop: the screen goes on.
      console.warn("the headset's session did not begin:", error);
    } finally {
      this.#entering = false;
    }
  }

  #onImmersive(immersive: boolean, displayHz: number): void {
    document.body.toggleAttribute("data-immersive", immersive);
    element("enter-vr").textContent = immersive ? "Leave VR" : "Enter VR";
    this.#walker.paused = immersive;
    this.#shell.view = "world";
    this.#post({ type: "display", immersive, displayHz });
    if (!immersive) this.#walker.sendNow();
  }

  async #offerVr(): Promise<void> {
    const offer = await headsetOffer();
    // In a session the button leaves it.
    if (!this.#headset) this.#shell.vrOffer = offer;
  }

  /** Browsers stay silent until the user does something. */
  #startSound(): void {
    this.#loudspeaker.start().catch((error: unknown) => console.warn("there is no sound:", error));
  }

  #toggleMute(): void {
    this.#loudspeaker.muted = !this.#loudspeaker.muted;
    this.#shell.onSound(this.#loudspeaker.volume, this.#loudspeaker.muted);
    this.#startSound();
  }

  #setVolume(volume: number): void {
    this.#loudspeaker.volume = volume;
    this.#shell.onSound(this.#loudspeaker.volume, this.#loudspeaker.muted);
    this.#startSound();
  }

  /** At once, and again when the page is loaded again or its address is passed on. */
  #useTransport(transport: TransportChoice): void {
    const address = new URL(location.href);
    if (transport === "auto") address.searchParams.delete("transport");
    else address.searchParams.set("transport", transport);
    history.replaceState(null, "", address);
    this.#post({ type: "transport", transport });
  }

  #toggleHud(): void {
    this.#hud.visible = !this.#hud.visible;
    this.#shell.hudPressed = this.#hud.visible;
  }

  #ask(type: "summary" | "events"): Promise<string> {
    const id = (this.#asked += 1);
    return new Promise((resolve) => {
      this.#questions.set(id, resolve);
      this.#post({ type, id });
    });
  }

  async #saveEvents(): Promise<void> {
    const address = URL.createObjectURL(new Blob([await this.#ask("events")], { type: "application/x-ndjson" }));
    const link = document.createElement("a");
    link.href = address;
    link.download = "nearlight-events.jsonl";
    link.click();
    // The browser has the file's contents by the next task.
    setTimeout(() => URL.revokeObjectURL(address));
  }

  #hooks(): Hooks {
    const app = this;
    return {
      get state() {
        return app.#shell.state;
      },
      get lastMarker() {
        return app.#marker;
      },
      get stream() {
        return app.#stream;
      },
      get statistics() {
        return app.#statistics;
      },
      summary: async () => JSON.parse(await this.#ask("summary")) as unknown,
      events: () => this.#ask("events"),
      loudness: () => this.#loudspeaker.loudness(),
      act: (hand, action) => this.#post({ type: "act", at: pageTime(performance.now()), hand, action }),
      setPose: ({ position, yaw = 0, pitch = 0 }) => this.#walker.place(position, yaw, pitch),
    };
  }
}

async function toggleFullscreen(): Promise<void> {
  if (document.fullscreenElement) await document.exitFullscreen();
  else await document.documentElement.requestFullscreen().catch(() => undefined);
}

function transportOf(name: string | null): TransportChoice {
  return name === "webtransport" || name === "webrtc" || name === "websocket" ? name : "auto";
}

/** What the link says in its fragment, which no browser sends to a server. */
interface Pairing {
  token: string;
  certificate: string | null;
}

/** None where the link has lost its token or half of the certificate's hash on its way here. */
function pairingOf(address: Location): Pairing | null {
  const fragment = new URLSearchParams(address.hash.slice(1));
  const token = fragment.get("token");
  const certificate = fragment.get("certificate")?.replaceAll(":", "").toLowerCase() ?? null;
  if (!token || (certificate !== null && !/^[0-9a-f]{64}$/.test(certificate))) return null;
  return { token, certificate };
}

/** Runs the page, or says why it cannot. */
function begin(): void {
  const nothing = (): void => undefined;
  const silent = { onEnter: nothing, onEnterVr: nothing, onToggleHud: nothing, onMute: nothing, onVolume: nothing, onTransport: nothing };
  const shell = (): Shell => new Shell({ ...silent, onFullscreen: () => undefined, onRetry: () => location.reload() });
  const still = (state: string): void => {
    window.nearlight = {
      state,
      lastMarker: null,
      stream: null,
      statistics: null,
      summary: () => Promise.resolve(null),
      events: () => Promise.resolve(""),
      loudness: () => null,
      act: () => undefined,
      setPose: () => undefined,
    };
  };
  // Another link in the same tab changes only the fragment.
  window.addEventListener("hashchange", () => location.reload());
  const missing = missingFeatures();
  const pairing = pairingOf(location);
  if (missing.length > 0) {
    shell().onUnsupported(missing);
    still("unsupported");
  } else if (!pairing) {
    shell().onUnpaired();
    still("unpaired");
  } else {
    new App(pairing);
  }
}

begin();
