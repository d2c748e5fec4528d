// The world rendered by this page. Loaded only when it is needed: three.js is larger than all the rest of the page.

import { SessionRefused, explain } from "./carrier.ts";
import { request, tokenHeader } from "./http.ts";
import type { RoomNews, RoomPerson, TransportName } from "./generated/core.ts";
import type { Hand } from "./generated/wire.ts";
import type { Eyes } from "./headset.ts";
import type { DeviceInput } from "./input/devices.ts";
import { Interaction, type User } from "./local/interaction.ts";
import { type Body, type Goodbye, type Membership, type MembershipOptions, type RoomObject, join } from "./local/membership.ts";
import { Pauses } from "./local/pauses.ts";
import { LocalScene } from "./local/scene.ts";
import type { Pose } from "./math.ts";

/** Timeout of the world's file, which the server makes at the first request. Guess. */
const LOAD_TIMEOUT_MS = 30_000;
/** Timeout of the room's first description of itself. Guess. */
const SYNCHRONISE_TIMEOUT_MS = 6_000;
/** Attempts to load the world and to join, with pauses of about 6 s in all. Meanwhile the page shows the server's pictures. */
const MAX_ATTEMPTS = 5;
/** Delay before the list of people follows a change: hundreds of members may join in a second. Guess. */
const PEOPLE_DELAY_MS = 100;
/** How long a newcomer who has not moved makes room for those who came before: two may join at the same moment. Guess: a slow round trip. */
const ARRIVAL_MS = 3_000;
/** How often the frame rate is reported. Guess: faster cannot be read. */
const REPORT_INTERVAL_MS = 500;

/** Whether the user has walked from the starting place, stands there, or has none yet. */
export type Arrival = "moved" | "placed" | "unplaced";

export interface LocalWorldOut {
  arrival(): Arrival;
  /** The user starts here. */
  onPlace(place: Pose): void;
  /** The room is known and its first picture is drawn. `again`: after the membership was lost. */
  onShown(again: boolean): void;
  /** The room cannot be joined for the first time yet. */
  onDelayed(why: string): void;
  /** The membership is lost. The page joins again in `pause` milliseconds. */
  onAway(why: string, attempt: number, pause: number): void;
  onPeople(people: readonly RoomPerson[], you: number): void;
  /** A voice packet of another member. */
  onHeard(message: Uint8Array): void;
  onCursor(cursor: string): void;
  /** The hand's controller has done something to an object. */
  onFelt(hand: Hand): void;
  onFrameRate(framesPerSecond: number): void;
  /** The room has said that it ends the membership. */
  onGoodbye(): void;
  /** The membership has ended for good. */
  onEnded(why: string): void;
  /** The membership's transport and the reason for it. */
  onTransport(name: TransportName, why: string): void;
}

/** The world rendered by this page, and its user in it as a member of the room. */
export class LocalWorld {
  readonly #out: LocalWorldOut;
  readonly #scene: LocalScene;
  #options: MembershipOptions;
  /** Null while the page is not in the room. */
  #room: { membership: Membership; interaction: Interaction } | null = null;
  /** The room's last state, which is drawn while the page is not in it. */
  #lastSeen: { objects: RoomObject[]; bodies: Body[] } = { objects: [], bodies: [] };
  #user: User;
  /** Takes the frames of a headset's session. */
  #onHeadsetFrame: ((now: number, frame: XRFrame) => void) | null = null;
  #drawnAt = performance.now();
  #counted = { frames: 0, since: performance.now() };
  #cursor = "";
  #shown: "never" | "before" | "now" = "never";
  #closed = false;
  #peopleTimer: ReturnType<typeof setTimeout> | undefined;
  /** Until when the user may be given another place. */
  #arrivesUntil: number | null = null;
  /** The user may act in the room, which spectators may not. */
  #acts = false;

  private constructor(out: LocalWorldOut, scene: LocalScene, options: MembershipOptions, head: Pose) {
    this.#out = out;
    this.#scene = scene;
    this.#options = options;
    this.#user = { head, controllers: [] };
    scene.setLoop((now, frame) => {
      if (frame) this.#onHeadsetFrame?.(now, frame);
      else this.#draw(now);
    });
  }

  /** Loads the world and joins its room. Throws when that does not succeed. */
  static async open(canvas: HTMLCanvasElement, options: MembershipOptions, head: Pose, out: LocalWorldOut): Promise<LocalWorld> {
    const file = await attempt(() => fetchWorld(options), out);
    const scene = await LocalScene.load(canvas, file);
    // The first picture takes longest, because shaders are compiled; a member that says nothing meanwhile would lose its place.
    const user: User = { head, controllers: [] };
    scene.render({ seconds: 0, user, objects: [], bodies: [], held: new Set(), pointed: new Set() });
    const local = new LocalWorld(out, scene, options, head);
    try {
      await attempt(() => local.#join(), out);
      return local;
    } catch (error) {
      local.close();
      throw error;
    }
  }

  /** Where the user is now, and what is in the hands. */
  onPresence(user: User): void {
    this.#user = user;
    if (this.#acts) this.#room?.interaction.onControllers(user);
  }

  onDevice(input: DeviceInput): void {
    if (this.#acts) this.#room?.interaction.onDevice(input, this.#user);
  }

  /** Ten milliseconds of the user's voice: the packet's number, and Opus. */
  say(packet: Uint8Array): void {
    this.#room?.membership.say(packet);
  }

  /** Draws the world in a headset. */
  eyes(): Eyes {
    return {
      begin: async (session, onFrame) => {
        this.#room?.interaction.releaseAll();
        this.#onHeadsetFrame = onFrame;
        await this.#scene.enter(session);
      },
      setWorld: (world) => this.#scene.setWorld(world),
      draw: (now) => this.#draw(now),
      close: () => {
        this.#room?.interaction.releaseAll();
        this.#user = { ...this.#user, controllers: [] };
        this.#onHeadsetFrame = null;
      },
    };
  }

  /** The room's state for tests; empty while the page is not in it. */
  get room(): { you: number; people: RoomPerson[]; objects: { object: number; owner: number; position: readonly number[] }[]; transport?: TransportName } {
    if (!this.#room) return { you: 0, people: [], objects: [] };
    const { you, members: people, objects: all, transport } = this.#room.membership;
    const objects = all.map(({ object, owner, pose }) => ({ object, owner, position: pose.position }));
    return { you, people, objects, transport };
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#peopleTimer);
    this.#room?.membership.close();
    this.#room = null;
    this.#scene.close();
  }

  /** Joins the room and waits until it is known. Throws when that does not succeed. */
  async #join(): Promise<void> {
    let isKnown = false;
    let [onKnown, onFailed]: [() => void, (error: Error) => void] = [() => undefined, () => undefined];
    const known = new Promise<void>((resolve, reject) => {
      [onKnown, onFailed] = [resolve, reject];
    });
    // Nothing arrives before the next task.
    const membership = await join(this.#options, {
      onNews: (news) => {
        this.#onNews(news);
        if (news.type !== "synchronised") return;
        isKnown = true;
        onKnown();
      },
      onHeard: (message) => this.#out.onHeard(message),
      onEnded: (why, goodbye) => {
        this.#room = null;
        if (isKnown) this.#onLost(why, goodbye);
        else onFailed(new Error(why));
      },
    });
    if (this.#closed) return membership.close();
    this.#room = { membership, interaction: new Interaction(membership, this.#scene, (hand) => this.#out.onFelt(hand)) };
    const limit = setTimeout(() => membership.onEnded("the room does not describe itself"), SYNCHRONISE_TIMEOUT_MS);
    try {
      await known;
    } finally {
      clearTimeout(limit);
    }
    // It has proved that it knows the token: started again, it shows another certificate than the link names.
    this.#options = { ...this.#options, certificate: null };
    this.#out.onTransport(membership.transport, membership.why);
  }

  #onLost(why: string, goodbye: Goodbye | null): void {
    if (this.#shown === "now") this.#shown = "before";
    if (goodbye) this.#out.onGoodbye();
    if (goodbye && !goodbye.again) this.#out.onEnded(why);
    else void this.#joinAgain(why, goodbye !== null);
  }

  /** Joins again, as often as it takes, in the same place and with the same seat. `saidGoodbye`: the room ended the membership. */
  async #joinAgain(why: string, saidGoodbye: boolean): Promise<void> {
    for (const pauses = new Pauses(); !this.#closed; ) {
      const pause = pauses.next();
      this.#out.onAway(why, pauses.count, pause);
      await passed(pause);
      // A page that nobody sees may be allowed to run too rarely for a member, and would be lost again.
      if (saidGoodbye) await seen();
      if (this.#closed) return;
      try {
        return await this.#join();
      } catch (error) {
        // A wrong token stays wrong.
        if (error instanceof SessionRefused && !this.#closed) return this.#out.onEnded(error.message);
        why = explain(error);
      }
    }
  }

  #onNews(news: RoomNews): void {
    if (news.type === "synchronised") this.#showPeople();
    else if (news.type === "members") this.#peopleTimer ??= setTimeout(() => this.#showPeople(), PEOPLE_DELAY_MS);
  }

  #showPeople(): void {
    clearTimeout(this.#peopleTimer);
    this.#peopleTimer = undefined;
    if (!this.#room) return;
    const { you, members } = this.#room.membership;
    this.#acts = members.some(({ id, role }) => id === you && role !== "spectator");
    this.#scene.setPeople(members, you);
    this.#out.onPeople(members, you);
  }

  #draw(now: number): void {
    const seconds = Math.max(0, now - this.#drawnAt) / 1_000;
    this.#drawnAt = now;
    if (this.#closed) return;
    if (!this.#room || this.#room.membership.you === 0) {
      if (this.#shown !== "never") this.#scene.render({ seconds, user: this.#user, ...this.#lastSeen, held: new Set(), pointed: new Set() });
      return;
    }
    const { membership, interaction } = this.#room;
    this.#arrive(membership, now);
    const user = this.#user;
    const hand = (wanted: Hand): Pose | null => user.controllers.find(({ hand }) => hand === wanted)?.aim ?? null;
    if (this.#acts) membership.setBody(user.head, { left: hand("left"), right: hand("right") });
    const objects = interaction.step(seconds, user, membership.objects);
    membership.pump();
    this.#lastSeen = { objects, bodies: membership.bodies };
    const pointed = this.#acts && user.controllers.length > 0 ? interaction.pointed(user, objects) : new Set<number>();
    this.#scene.render({ seconds, user, ...this.#lastSeen, held: interaction.held, pointed });
    const cursor = this.#acts ? interaction.cursor(user, objects) : "default";
    if (cursor !== this.#cursor) this.#out.onCursor(cursor);
    this.#cursor = cursor;
    const before = this.#shown;
    this.#shown = "now";
    if (before !== "now") this.#out.onShown(before === "before");
    this.#count(now);
  }

  /** Gives a newcomer a place at which nobody stands. A user who comes back after an outage stays. */
  #arrive(membership: Membership, now: number): void {
    this.#arrivesUntil ??= now + ARRIVAL_MS;
    if (!this.#acts || now > this.#arrivesUntil) return;
    const arrival = this.#out.arrival();
    const place = arrival === "moved" ? null : membership.startingPlace(this.#scene.places, arrival === "placed" ? this.#user.head : null);
    if (!place) return;
    this.#user = { ...this.#user, head: place };
    this.#out.onPlace(place);
  }

  #count(now: number): void {
    this.#counted.frames += 1;
    const passed = now - this.#counted.since;
    if (passed < REPORT_INTERVAL_MS) return;
    this.#out.onFrameRate((1_000 * this.#counted.frames) / passed);
    this.#counted = { frames: 0, since: now };
  }
}

/** Tries `act` several times. Throws the last error, or at once when the server refuses. */
async function attempt<Result>(act: () => Promise<Result>, out: LocalWorldOut): Promise<Result> {
  for (const pauses = new Pauses(); ; ) {
    try {
      return await act();
    } catch (error) {
      if (error instanceof SessionRefused || pauses.count === MAX_ATTEMPTS - 1) throw error;
      out.onDelayed(explain(error));
      await passed(pauses.next());
    }
  }
}

async function fetchWorld({ origin, token }: MembershipOptions): Promise<ArrayBuffer> {
  const address = new URL("world.glb", origin);
  address.hash = "";
  address.search = "";
  const headers: HeadersInit = address.protocol === "https:" ? tokenHeader(token) : {};
  const answer = await request(address, { headers, signal: AbortSignal.timeout(LOAD_TIMEOUT_MS) });
  if (!answer.ok) throw new SessionRefused("internal", (await answer.text()).trim());
  return answer.arrayBuffer();
}

function passed(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** Waits until the page is visible. */
async function seen(): Promise<void> {
  while (document.hidden) await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
}
