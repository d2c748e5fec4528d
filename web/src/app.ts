// The page: connects the shell, the worker that plays the stream, the screen's user and the headset.

import { AccessPanel } from "./access-panel.ts";
import { isClipboardShared, listenToPastes, writeClipboard } from "./clipboard.ts";
import { pageTime } from "./clock.ts";
import { showCursor } from "./cursor.ts";
import { Disposables } from "./disposables.ts";
import { Fleet } from "./fleet.ts";
import { TRANSPORTS } from "./generated/core.ts";
import { type ControllerDescription, MAX_RELIABLE_MESSAGE_BYTES, MAX_UNRELIABLE_MESSAGE_BYTES } from "./generated/wire.ts";
import { Headset, type HeadsetOut, headsetOffer } from "./headset.ts";
import type { Hooks } from "./hooks.ts";
import { Hud } from "./hud.ts";
import type { DeviceInput } from "./input/devices.ts";
import { connected, rumble } from "./input/gamepad.ts";
import type { MovedPage, Pairing } from "./link.ts";
import type { Arrival } from "./local-world.ts";
import { Loudspeaker } from "./loudspeaker.ts";
import { type Pose, yawPitchOf } from "./math.ts";
import type { ConnectionState, FromWorker, Haptics, Marker, Statistics, StreamDescription, ToWorker, TransportChoice, Welcome } from "./messages.ts";
import { messageOf } from "./microphone.ts";
import { element, toggleFullscreen } from "./page.ts";
import { PageWorker, type WorkerAnswer, type WorkerQuestion } from "./page-worker.ts";
import { Peer } from "./peer.ts";
import { presenceNumbers } from "./presence.ts";
import { Program } from "./program.ts";
import type { RenderingChoice } from "./rendering.ts";
import { RoomPanel } from "./room-panel.ts";
import { Shell } from "./shell.ts";
import { StreamedEyes } from "./streamed-eyes.ts";
import { hasWebRtc } from "./support.ts";
import { surfaceFor } from "./surface.ts";
import { rememberTransport, rememberedTransport } from "./transport-memory.ts";
import { Walker } from "./walker.ts";
import { MAIN_ROOM, WorldRendering, renderingChoiceOf, roomOf } from "./world-rendering.ts";

/** The headset user's initial pose if the server has not set one yet. */
export const START: Pose = { position: [0, 1.6, 6], orientation: [0, 0, 0, 1] };

/** Haptics of a hand that acts on an object of the world that the page renders: as strong as the server's. */
const HAND_HAPTICS = { milliseconds: 60, strong: 0.5, weak: 0.9 };

export class App {
  readonly #token: string;
  readonly #certificate: string | null;
  readonly #shell: Shell;
  readonly #hud = new Hud();
  readonly #access: AccessPanel;
  readonly #worker = new PageWorker({
    onMessage: (message) => this.#onWorker(message),
    onFailure: (message) => this.#shell.onState({ state: "failed", message }),
  });
  readonly #walker: Walker;
  readonly #loudspeaker = new Loudspeaker({
    onPort: (port) => this.#worker.post({ type: "speaker", port }, [port]),
    onClock: (clock) => this.#post({ type: "speaker-clock", clock }),
  });
  readonly #disposables = new Disposables();
  /** The session's end in the window, when it runs over WebRTC. */
  #peer: Peer | null = null;
  #headset: Headset | null = null;
  /** Draws the server's pictures in the headset. */
  #streamed: StreamedEyes | null = null;
  #entering = false;
  readonly #clipboard = isClipboardShared();
  #marker: Marker | null = null;
  #stream: StreamDescription | null = null;
  #statistics: Statistics | null = null;
  readonly #program = new Program({
    onProgram: (name) => this.#onProgram(name),
    onNotice: (words) => this.#shell.onNotice(words),
    onEnded: (words) => {
      this.#close();
      this.#shell.onEnded(words);
    },
    send: (message) => this.#send(message, true),
    sendPacket: (packet) => this.#send(packet, false),
    // ?microphone before the link's fragment.
  }, new URLSearchParams(location.search).has("microphone"));
  /** Dispatches messages from the application. */
  readonly #messages = new EventTarget();
  #controllers: ControllerDescription[] = [];
  readonly #room = new RoomPanel({
    onSaid: (packet) => this.#say(packet, false),
    onNotice: (words) => this.#shell.onNotice(words),
    onGesture: () => this.#startSound(),
    output: () => this.#loudspeaker.output,
  });
  /** ?room= before the link's fragment; null when no room can have that name. */
  readonly #roomAsked = roomOf(new URLSearchParams(location.search).get("room"));
  readonly #roomName = this.#roomAsked ?? MAIN_ROOM;
  readonly #rendering: WorldRendering;
  readonly #fleet: Fleet;
  /** The name that the server knows. */
  #sentName = "";
  /** The initial pose of users, once the server has set it. */
  #start: Pose | null = null;

  /** `movedPage`: the state that the page brings from its former server. */
  constructor({ token, certificate }: Pairing, movedPage: MovedPage | null) {
    this.#shell = new Shell({
      onEnter: () => this.#enter(),
      onEnterVr: () => void this.#enterVr(),
      onToggleHud: () => this.#toggleHud(),
      onFullscreen: () => void toggleFullscreen(),
      onRetry: () => this.#post({ type: "retry" }),
      onMute: () => this.#toggleMute(),
      onVolume: (volume) => this.#setVolume(volume),
      onTransport: (transport) => this.#useTransport(transport),
      onRendering: (rendering) => this.#useRendering(rendering),
      onCommandKey: (isControl) => {
        this.#walker.commandIsControl = isControl;
      },
    });
    this.#shell.onSound(this.#loudspeaker.volume, this.#loudspeaker.muted);
    element("save-events").addEventListener("click", () => void this.#saveEvents());
    this.#walker = new Walker(element("stage"), {
      onPresence: (at, values) => this.#onPresence(at, values),
      onDevice: (at, input) => this.#onDevice(at, input),
      onToggleHud: () => this.#toggleHud(),
      onToggleMute: () => this.#toggleMute(),
      onToggleTalk: () => this.#room.toggleTalking(),
    });
    this.#walker.commandIsControl = this.#shell.commandIsControl;
    this.#token = token;
    this.#access = new AccessPanel(token);
    this.#certificate = certificate;
    this.#fleet = new Fleet(movedPage, {
      shell: this.#shell,
      walker: this.#walker,
      loudspeaker: this.#loudspeaker,
      user: () => ({ head: this.#rendering.head, local: this.#rendering.local !== null }),
      onGesture: () => this.#startSound(),
    });
    this.#start = this.#fleet.start;
    this.#rendering = this.#openRendering();
    this.#fleet.restore();
    this.#startWorker();
    this.#rendering.apply();
    void this.#offerVr();
    this.#listen();
    window.nearlight = this.#hooks();
  }

  #listen(): void {
    const { signal } = this.#disposables;
    navigator.xr?.addEventListener("devicechange", () => void this.#offerVr(), { signal });
    window.addEventListener("pagehide", () => this.#close(), { signal });
    // A page that comes back from the browser's cache has closed its session.
    window.addEventListener("pageshow", (event) => {
      if (event.persisted) location.reload();
    });
    for (const name of ["gamepadconnected", "gamepaddisconnected"]) window.addEventListener(name, () => this.#sendDevices(), { signal });
    if (this.#clipboard) {
      listenToPastes({ onPasted: (text) => this.#post({ type: "clipboard", text }), onNotice: (words) => this.#shell.onNotice(words) }, signal);
    }
  }

  /** Ends everything that the page has started: its session is over, or the page is hidden for good. */
  #close(): void {
    if (this.#disposables.closed) return;
    // The worker says goodbye and ends. It may be terminated before that, so the window ends a WebRTC session by itself.
    this.#post({ type: "close" });
    this.#disposables.close();
    void this.#peer?.close();
    this.#fleet.close();
    this.#rendering.close();
    this.#room.close();
    this.#program.close();
    this.#headset?.close();
    this.#walker.close();
    this.#loudspeaker.close();
    this.#access.close();
    this.#shell.close();
  }

  #sendDevices(): void {
    const gamepads = connected().map(({ index, id, vibrationActuator }) => ({ index, name: id, haptics: Boolean(vibrationActuator) }));
    this.#post({ type: "devices", gamepads, controllers: this.#controllers });
  }

  #shake(haptics: Haptics): void {
    const { target } = haptics;
    if ("gamepad" in target) rumble(target.gamepad, haptics);
    else this.#headset?.shake(target.controller, haptics);
  }

  /** Sends a message to the application. Throws when it is longer than the protocol allows. */
  #send(data: string | ArrayBuffer | Uint8Array, reliable: boolean): void {
    const bytes = typeof data === "string" ? new TextEncoder().encode(data) : new Uint8Array(data);
    const maximum = reliable ? MAX_RELIABLE_MESSAGE_BYTES : MAX_UNRELIABLE_MESSAGE_BYTES;
    if (bytes.length > maximum) throw new RangeError(`a message has at most ${maximum} bytes, and this one ${bytes.length}`);
    this.#post({ type: "send", data: bytes, reliable });
  }

  #startWorker(): void {
    // Before the fragment: ?painter=webgl2, ?painter=video, ?painter=2d, ?display=newest, ?transport= and the name of one.
    const options = new URLSearchParams(location.search);
    const painter = options.get("painter");
    const { surface, why } = surfaceFor(painter === "webgl2" || painter === "video" || painter === "2d" ? painter : "auto");
    const transport = transportOf(options.get("transport"));
    this.#shell.onTransport(transport);
    this.#sentName = this.#shell.userName;
    const start: ToWorker = {
      type: "start",
      surface,
      why,
      origin: location.href,
      transport,
      remembered: rememberedTransport(),
      webrtc: hasWebRtc(),
      token: this.#token,
      certificate: this.#certificate,
      epoch: performance.timeOrigin,
      displayHz: 60,
      displayOrder: options.get("display") === "newest" ? "newest" : "in-turn",
      clipboard: this.#clipboard,
      userName: this.#sentName,
      seat: this.#fleet.seat,
    };
    this.#worker.post(start, [surface.target]);
    this.#walker.sendNow();
  }

  #onPresence(at: number, values: Float32Array<ArrayBuffer>): void {
    const [x = 0, y = 0, z = 0, qx = 0, qy = 0, qz = 0, qw = 1] = values;
    const head: Pose = { position: [x, y, z], orientation: [qx, qy, qz, qw] };
    this.#rendering.onPresence({ head, controllers: [] });
    this.#room.setHead(head);
    this.#post({ type: "presence", at: pageTime(at), values });
  }

  #onDevice(at: number, input: DeviceInput): void {
    if (!this.#rendering.onDevice(input)) this.#post({ type: "device", at: pageTime(at), input });
  }

  #post(message: ToWorker): void {
    this.#worker.post(message);
  }

  #onWorker(message: Exclude<FromWorker, WorkerAnswer>): void {
    if (this.#disposables.closed) {
      if (message.type === "frame") message.picture.close();
      return;
    }
    switch (message.type) {
      case "state":
        // The page's own pictures need no session.
        if (!this.#rendering.local) this.#onState(message.state);
        break;
      case "goodbye":
        this.#fleet.onGoodbye();
        break;
      case "painter":
        this.#hud.onPainter(message.name, message.why);
        break;
      case "carrier":
        this.#hud.onCarrier(message.name, message.why);
        if (message.remembered !== undefined) rememberTransport(message.remembered);
        break;
      case "codec":
        this.#hud.onCodecFailures(message.why);
        break;
      case "peer":
        void this.#peer?.close();
        this.#peer = new Peer({
          port: message.port,
          origin: location.href,
          token: this.#token,
          codecs: message.codecs,
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
      case "haptics":
        this.#shake(message.haptics);
        break;
      case "pointer":
        this.#walker.captures = message.captured;
        showCursor(element("stage"), message.cursor);
        break;
      case "clipboard":
        writeClipboard(message.text);
        break;
      case "received":
        if (message.reliable) this.#program.onMessage(message.data);
        if (this.#shell.demonstration && !this.#rendering.local) this.#room.onMessage(message.data, message.reliable);
        this.#messages.dispatchEvent(new CustomEvent("message", { detail: { data: message.data, reliable: message.reliable } }));
        break;
      case "timelines":
        this.#hud.onTimelines(message.rows);
        break;
      case "statistics":
        this.#marker = message.marker;
        this.#statistics = message.statistics;
        if (this.#stream && this.#shell.state === "live") this.#rendering.onStatistics(message.statistics, this.#stream.fps);
        this.#hud.onStatistics(message.statistics);
        break;
      case "frame":
        if (this.#streamed) this.#streamed.onPicture(message.frame, message.picture, message.crop, message.views);
        else message.picture.close();
        break;
    }
  }

  #onState(state: ConnectionState): void {
    this.#shell.onState(state);
    this.#fleet.onState(state);
  }

  /** Only the first session sets the pose: after a lost connection users continue where they are. */
  #onWelcome({ stream, start, demonstration, role }: Welcome): void {
    this.#shell.onRole(role);
    this.#access.onRole(role);
    this.#shell.demonstration = demonstration;
    this.#rendering.available = demonstration;
    element("rendering-choice").hidden = !demonstration || this.#roomName !== MAIN_ROOM;
    if (!this.#start) this.#placeUser(start);
    this.#onStream(stream);
    // From now on the page is told who is in the room, and hears them.
    if (demonstration) this.#say(new Uint8Array(4), true);
  }

  #placeUser(start: Pose): void {
    this.#start = start;
    const { yaw, pitch } = yawPitchOf(start.orientation);
    this.#walker.place(start.position, yaw, pitch);
  }

  /** A page that brings its user from another server does not start. */
  #arrival(): Arrival {
    if (this.#fleet.start) return "moved";
    if (!this.#start) return "unplaced";
    const { position } = this.#rendering.head;
    return this.#start.position.every((value, axis) => Math.abs(value - (position[axis] ?? 0)) < 1e-3) ? "placed" : "moved";
  }

  /** A packet of the user's voice, or an empty one, for others in the room. */
  #say(packet: Uint8Array, reliable: boolean): void {
    const { local } = this.#rendering;
    if (local) local.say(packet);
    else if (this.#shell.demonstration) this.#send(messageOf(packet), reliable);
  }

  #onProgram(name: string): void {
    this.#walker.giveToProgram(element("typed", HTMLTextAreaElement), this.#clipboard);
    this.#shell.onProgram(name);
    this.#hud.estimates = true;
    if (this.#shell.view === "world") this.#walker.focus();
  }

  #onStream(stream: StreamDescription): void {
    this.#stream = stream;
    if (stream.views === 1) this.#walker.aspect = stream.width / stream.height;
  }

  /** A name belongs to a session, so another one begins a new session. */
  #sendName(): void {
    const { userName } = this.#shell;
    if (userName === this.#sentName) return;
    this.#sentName = userName;
    this.#post({ type: "name", userName, anew: this.#shell.demonstration && !this.#rendering.local });
  }

  #enter(): void {
    this.#startSound();
    this.#sendName();
    this.#shell.view = "world";
    this.#walker.focus();
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
    this.#sendName();
    const local = this.#rendering.local;
    const streamed = local ? null : new StreamedEyes((at, frame, marker) => {
      this.#worker.post({ type: "shown", at: pageTime(at), frame, marker }, marker ? [marker.rgba.buffer] : []);
    });
    const [eyes, start] = local ? [local.eyes(), this.#rendering.head] : [streamed as StreamedEyes, this.#start ?? START];
    this.#streamed = streamed;
    try {
      const headset = await Headset.enter(start, eyes, this.#headsetOut());
      // The page may have ended while the browser asked its user.
      if (this.#disposables.closed) headset.close();
      else this.#headset = headset;
    } catch (error) {
      // A headset in use by another program or a user who declines is no reason to stop: the screen continues.
      console.warn("the headset's session did not begin:", error);
      this.#streamed = null;
    } finally {
      this.#entering = false;
    }
  }

  #headsetOut(): HeadsetOut {
    return {
      onBegin: (displayHz) => this.#onImmersive(true, displayHz),
      onPresence: (at, presence) => {
        this.#rendering.onPresence(presence);
        this.#room.setHead(presence.head);
        this.#post({ type: "presence", at: pageTime(at), values: presenceNumbers(presence) });
      },
      onDevice: (at, input) => this.#onDevice(at, input),
      onControllers: (controllers) => {
        this.#controllers = controllers;
        this.#sendDevices();
      },
      onEnd: () => {
        this.#headset = null;
        this.#controllers = [];
        this.#sendDevices();
        this.#onImmersive(false, 60);
        this.#streamed = null;
        void this.#offerVr();
      },
    };
  }

  #onImmersive(immersive: boolean, displayHz: number): void {
    document.body.toggleAttribute("data-immersive", immersive);
    element("enter-vr").textContent = immersive ? "Leave VR" : "Enter VR";
    this.#walker.paused = immersive;
    this.#shell.view = "world";
    if (this.#streamed) this.#post({ type: "display", immersive, displayHz });
    if (!immersive) this.#walker.sendNow();
    this.#rendering.immersive = immersive;
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

  /** Takes effect at once, and again when the page is reloaded or its address is shared. */
  #useTransport(transport: TransportChoice): void {
    const address = new URL(location.href);
    if (transport === "auto") address.searchParams.delete("transport");
    else address.searchParams.set("transport", transport);
    history.replaceState(null, "", address);
    this.#post({ type: "transport", transport });
    this.#rendering.setTransport(transport);
  }

  /** Takes effect at once, and again when the page is reloaded or its address is shared. */
  #useRendering(choice: RenderingChoice): void {
    const address = new URL(location.href);
    if (choice === "server") address.searchParams.delete("rendering");
    else address.searchParams.set("rendering", choice);
    history.replaceState(null, "", address);
    this.#shell.onRendering(choice);
    this.#rendering.setChoice(choice);
  }

  #openRendering(): WorldRendering {
    // The server renders only one room.
    const choice = this.#roomName === MAIN_ROOM ? renderingChoiceOf(new URLSearchParams(location.search).get("rendering")) : "local";
    if (this.#roomAsked === null) {
      this.#shell.onNotice("The link's room cannot exist: a room's name has 1 to 32 of a-z, 0-9 and -. You are in the room main.");
    }
    this.#shell.onRendering(choice);
    const transport = transportOf(new URLSearchParams(location.search).get("transport"));
    const pairing = { origin: location.href, token: this.#token, certificate: this.#certificate };
    return new WorldRendering({ ...pairing, transport, choice, room: this.#roomName, seat: this.#fleet.seat }, this.#start ?? START, {
      arrival: () => this.#arrival(),
      onPlace: (place) => this.#placeUser(place),
      userName: () => this.#shell.userName || "Guest",
      onLocal: () => {
        this.#post({ type: "pause" });
        this.#walker.captures = true;
        this.#onState({ state: "live" });
        this.#shell.demonstration = true;
      },
      onAway: (state) => {
        this.#room.onAway();
        this.#onState(state);
      },
      onMissed: (words, tryAgain) => this.#shell.onOffer(words, tryAgain),
      onPeople: (people, you) => this.#room.show({ people, you, more: 0 }),
      onHeard: (message) => this.#room.onHeard(message),
      onGoodbye: () => this.#fleet.onGoodbye(),
      onServer: () => {
        this.#room.onSessionChange();
        this.#post({ type: "retry" });
        this.#walker.sendNow();
      },
      onChoice: (choice) => this.#shell.onRendering(choice),
      onCursor: (cursor) => showCursor(element("stage"), { named: cursor }),
      onFelt: (hand) => this.#headset?.shake(hand, { target: { controller: hand }, ...HAND_HAPTICS }),
      onLocalFrameRate: (framesPerSecond) => this.#hud.onLocalFrameRate(framesPerSecond),
      onTransport: (name, why) => this.#hud.onCarrier(name, why),
      onNotice: (words) => this.#shell.onNotice(words),
    });
  }

  #toggleHud(): void {
    this.#hud.visible = !this.#hud.visible;
    this.#shell.hudPressed = this.#hud.visible;
  }

  /** Asks the worker for its record. A session that has ended has an empty one. */
  #ask(type: WorkerQuestion): Promise<string> {
    if (this.#disposables.closed) return Promise.resolve(type === "summary" ? "null" : "");
    return this.#worker.ask(type);
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
      get head() {
        return app.#rendering.head;
      },
      summary: async () => JSON.parse(await this.#ask("summary")) as unknown,
      events: () => this.#ask("events"),
      loudness: () => this.#loudspeaker.loudness(),
      heard: () => this.#room.heard(),
      device: (input) => this.#onDevice(performance.now(), input),
      get room() {
        const { known } = app.#room;
        return app.#rendering.local?.room ?? (known && { you: known.you, people: [...known.people], objects: [] });
      },
      send: (data, { reliable = true } = {}) => this.#send(data, reliable),
      addEventListener: (name, listener) => this.#messages.addEventListener(name, listener as EventListener),
      removeEventListener: (name, listener) => this.#messages.removeEventListener(name, listener as EventListener),
      setPose: ({ position, yaw = 0, pitch = 0 }) => this.#walker.place(position, yaw, pitch),
    };
  }
}

function transportOf(name: string | null): TransportChoice {
  return TRANSPORTS.find((transport) => transport === name) ?? "auto";
}
