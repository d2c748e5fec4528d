// Moves between the server's pictures and those that this page renders as a member of the room, by the user's choice or by measurements.

import { explain } from "./carrier.ts";
import type { RoomPerson, TransportName } from "./generated/core.ts";
import type { Hand } from "./generated/wire.ts";
import type { DeviceInput } from "./input/devices.ts";
import type { User } from "./local/interaction.ts";
import type { Arrival, LocalWorld } from "./local-world.ts";
import type { Pose } from "./math.ts";
import type { ConnectionState, Statistics, TransportChoice } from "./messages.ts";
import { element } from "./page.ts";
import { RENDERING_CHOICES, type RenderingChoice, RenderingChooser } from "./rendering.ts";

/** The room that the server's world is. */
export const MAIN_ROOM = "main";
/** Minimum period over which the stream's frame rate is judged. Guess. */
const JUDGE_PERIOD_MS = 1_000;

export interface WorldRenderingOptions {
  /** The link's address, token and certificate. */
  origin: string;
  token: string;
  certificate: string | null;
  /** Transport of the membership and of the server's pictures. */
  transport: TransportChoice;
  choice: RenderingChoice;
  /** Which room the page joins when it renders. The server's pictures show `MAIN_ROOM`. */
  room: string;
  /** By which the room's member claims its seat again: 16 random bytes. */
  seat: Uint8Array;
}

export interface WorldRenderingOut {
  arrival(): Arrival;
  /** The user starts here. */
  onPlace(place: Pose): void;
  /** The user's name in the room. */
  userName(): string;
  /** The page's own pictures are on display, and the server's no longer needed. */
  onLocal(): void;
  /** The page has lost its membership and joins again; its own pictures stay. */
  onAway(state: ConnectionState): void;
  /** The page is in `MAIN_ROOM` in place of its room, and the user may want `tryAgain`; none: there is nothing to offer. */
  onMissed(words: string | null, tryAgain: () => void): void;
  /** The server's pictures are needed again. */
  onServer(): void;
  /** The choice is another, because the page could not render. */
  onChoice(choice: RenderingChoice): void;
  onCursor(cursor: string): void;
  onFelt(hand: Hand): void;
  /** Null: the page renders nothing. */
  onLocalFrameRate(framesPerSecond: number | null): void;
  /** The transport of the page's membership, and the reason for it. */
  onTransport(name: TransportName, why: string): void;
  onNotice(words: string): void;
  /** The people in the page's room. */
  onPeople(people: readonly RoomPerson[], you: number): void;
  /** A voice packet of another member. */
  onHeard(message: Uint8Array): void;
  /** The room has ended the membership. */
  onGoodbye(): void;
}

export class WorldRendering {
  readonly #options: WorldRenderingOptions;
  readonly #out: WorldRenderingOut;
  readonly #chooser: RenderingChooser;
  #transport: TransportChoice;
  /** The certificate that the link names, until a server has proved that it knows the token: started again, it shows another one. */
  #certificate: string | null;
  readonly #colour = colourOf(crypto.getRandomValues(new Uint8Array(1))[0] ?? 0);
  #local: LocalWorld | null = null;
  #opening = false;
  #closed = false;
  #head: Pose;
  /** A headset's session runs, in which nothing changes. */
  #immersive = false;
  /** Displayed pictures of the stream at the last judgement, and when. */
  #displayed = { pictures: 0, at: 0 };
  /** Whether the server's pictures are of a world that pages can render. */
  available = true;

  constructor(options: WorldRenderingOptions, head: Pose, out: WorldRenderingOut) {
    this.#options = options;
    this.#out = out;
    this.#head = head;
    this.#chooser = new RenderingChooser(options.choice);
    this.#transport = options.transport;
    this.#certificate = options.certificate;
  }

  /** The world rendered by this page, or null while the server renders it. */
  get local(): LocalWorld | null {
    return this.#local;
  }

  setChoice(choice: RenderingChoice): void {
    this.#out.onMissed(null, () => undefined);
    this.#chooser.setChoice(choice);
    this.apply();
  }

  /** Sets the transport of later memberships, and of this one unless a headset's session runs. */
  setTransport(transport: TransportChoice): void {
    this.#transport = transport;
    if (this.#immersive) return;
    this.#leaveLocal();
    this.apply();
  }

  /** While a headset's session runs, the world is rendered where it was before. */
  set immersive(immersive: boolean) {
    this.#immersive = immersive;
    this.apply();
  }

  /** Where the user is. */
  get head(): Pose {
    return this.#head;
  }

  /** Renders the world where it should be rendered. */
  apply(): void {
    if (this.#immersive || this.#closed) return;
    if (this.#chooser.rendering === "local") void this.#renderLocally();
    else this.#leaveLocal();
  }

  onPresence(user: User): void {
    this.#head = user.head;
    this.#local?.onPresence(user);
  }

  /** Whether the input was for the world that this page renders. */
  onDevice(input: DeviceInput): boolean {
    this.#local?.onDevice(input);
    return this.#local !== null;
  }

  /** Statistics of the stream, which should have `framesPerSecond`. */
  onStatistics({ at, displayed, roundTripUs }: Statistics, framesPerSecond: number): void {
    const passed = at - this.#displayed.at;
    if (passed < JUDGE_PERIOD_MS) return;
    const pictures = displayed - this.#displayed.pictures;
    this.#displayed = { pictures: displayed, at };
    // A new session counts from the beginning.
    if (pictures < 0 || !this.available || this.#immersive) return;
    const roundTripMs = roundTripUs === null ? null : roundTripUs / 1_000;
    this.#chooser.onStream(at, (1_000 * pictures) / passed, framesPerSecond, roundTripMs);
    this.apply();
  }

  close(): void {
    this.#closed = true;
    this.#local?.close();
    this.#local = null;
  }

  /** The server's pictures stay until the page's own are there. */
  async #renderLocally(): Promise<void> {
    if (this.#local || this.#opening) return;
    this.#opening = true;
    try {
      const address = new URL("local-world.js", document.baseURI).href;
      const { LocalWorld } = (await import(address)) as typeof import("./local-world.ts");
      // A canvas whose context was lost or given back cannot be drawn on again.
      const canvas = element("local-picture", HTMLCanvasElement).cloneNode() as HTMLCanvasElement;
      element("local-picture").replaceWith(canvas);
      const { origin, token, room, seat } = this.#options;
      const [certificate, transport] = [this.#certificate, this.#transport];
      const member = { origin, token, certificate, transport, room, seat, name: this.#out.userName(), colour: this.#colour };
      const local = await LocalWorld.open(canvas, member, this.#head, {
        arrival: () => (this.#immersive ? "moved" : this.#out.arrival()),
        onPlace: (place) => {
          this.#head = place;
          this.#out.onPlace(place);
        },
        onShown: (again) => {
          document.body.dataset.rendering = "local";
          this.#out.onLocal();
          if (again) this.#out.onNotice(`You are in the room ${room} again.`);
        },
        onDelayed: (why) => this.#out.onNotice(`The room ${room} cannot be joined yet: ${sentence(why)} Trying again…`),
        onAway: (why, attempt, retryInMs) => {
          this.#out.onNotice(`You are not in the room ${room} at the moment. This page joins it again…`);
          this.#out.onAway({ state: "reconnecting", attempt, retryInMs, why, advice: "" });
        },
        onGoodbye: () => this.#out.onGoodbye(),
        onPeople: (people, you) => this.#out.onPeople(people, you),
        onHeard: (message) => this.#out.onHeard(message),
        onCursor: (cursor) => this.#out.onCursor(cursor),
        onFelt: (hand) => this.#out.onFelt(hand),
        onFrameRate: (framesPerSecond) => {
          this.#out.onLocalFrameRate(framesPerSecond);
          if (this.#immersive) return;
          this.#chooser.onLocalFrameRate(performance.now(), framesPerSecond);
          this.apply();
        },
        onEnded: (why) => this.#onLocalFailed(why),
        onTransport: (name, why) => this.#out.onTransport(name, why),
      });
      this.#certificate = null;
      // The user may have chosen otherwise meanwhile, or put a headset on that shows the server's pictures.
      if (this.#chooser.rendering === "local" && !this.#immersive && !this.#closed) this.#local = local;
      else local.close();
    } catch (error) {
      if (!this.#closed) this.#onLocalFailed(explain(error));
    } finally {
      this.#opening = false;
    }
  }

  #onLocalFailed(why: string): void {
    const { room } = this.#options;
    if (room === MAIN_ROOM) this.#out.onNotice(`This browser does not render the world: ${sentence(why)}`);
    else this.#out.onMissed(`You are in the room ${MAIN_ROOM}, not in ${room}: ${sentence(why)}`, () => this.setChoice("local"));
    this.#chooser.onLocalFailed(performance.now());
    this.#out.onChoice(this.#chooser.choice);
    // A headset's session ends with it.
    this.#leaveLocal();
  }

  #leaveLocal(): void {
    if (!this.#local) return;
    this.#local.close();
    this.#local = null;
    delete document.body.dataset.rendering;
    this.#out.onLocalFrameRate(null);
    this.#out.onServer();
  }
}

/** Returns the room that the address names by `?room=`, or null when no room can have that name. */
export function roomOf(name: string | null): string | null {
  return name === null ? MAIN_ROOM : /^[a-z0-9-]{1,32}$/.test(name) ? name : null;
}

/** Returns the choice that the page's address names. */
export function renderingChoiceOf(name: string | null): RenderingChoice {
  return RENDERING_CHOICES.find((choice) => choice === name) ?? "server";
}

/** Ends words with a full stop: those of servers have one, those of browsers do not. */
function sentence(words: string): string {
  return /[.!?]$/.test(words) ? words : `${words}.`;
}

/** Returns a bright colour for a number below 256. */
function colourOf(number: number): [number, number, number] {
  const hue = (number / 256) * 6;
  const channel = (shift: number): number => {
    const along = (shift + hue) % 6;
    return Math.round(255 * (1 - 0.72 * Math.min(Math.max(Math.min(along, 4 - along), 0), 1)));
  };
  return [channel(5), channel(3), channel(1)];
}
