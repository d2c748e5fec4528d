// The world rendered by this page. Loaded only when it is needed: three.js is larger than all the rest of the page.

import type { RoomNews, RoomPerson, TransportName } from "./generated/core.ts";
import type { Hand } from "./generated/wire.ts";
import type { Eyes } from "./headset.ts";
import type { DeviceInput } from "./input/devices.ts";
import { Interaction, type User } from "./local/interaction.ts";
import { type Membership, type MembershipOptions, join } from "./local/membership.ts";
import { LocalScene } from "./local/scene.ts";
import type { Pose } from "./math.ts";

/** How long the world's file may take; the server makes it when it is first asked for. */
const LOAD_MS = 30_000;
/** How often the frame rate is reported. */
const REPORT_MS = 500;

export interface LocalWorldOut {
  /** The room is known, and the first picture is drawn. */
  onShown(): void;
  onPeople(people: readonly RoomPerson[], you: number): void;
  /** Somebody in the room says something. */
  onHeard(message: Uint8Array): void;
  onCursor(cursor: string): void;
  /** The hand's controller has done something to an object. */
  onFelt(hand: Hand): void;
  onFrameRate(framesPerSecond: number): void;
  /** `goodbye`: the room said so, and the connection did not just break. */
  onEnded(why: string, goodbye: boolean): void;
  /** What carries the membership, and why this. */
  onTransport(name: TransportName, why: string): void;
}

/** The world rendered by this page, and its user in it as a member of the room. */
export class LocalWorld {
  readonly #out: LocalWorldOut;
  readonly #scene: LocalScene;
  readonly #membership: Membership;
  readonly #interaction: Interaction;
  #user: User;
  /** Takes the frames of a headset's session. */
  #onHeadsetFrame: ((now: number, frame: XRFrame) => void) | null = null;
  #drawnAt = performance.now();
  #counted = { frames: 0, since: performance.now() };
  #cursor = "";
  #shown = false;
  #closed = false;
  /** Spectators do nothing in the room. */
  #acts = false;

  private constructor(out: LocalWorldOut, scene: LocalScene, membership: Membership, head: Pose) {
    this.#out = out;
    this.#scene = scene;
    this.#membership = membership;
    this.#interaction = new Interaction(membership, scene, (hand) => out.onFelt(hand));
    this.#user = { head, controllers: [] };
    scene.setLoop((now, frame) => {
      if (frame) this.#onHeadsetFrame?.(now, frame);
      else this.#draw(now);
    });
  }

  /** Loads the world and joins its room. Throws the reason where that does not succeed. */
  static async open(canvas: HTMLCanvasElement, options: MembershipOptions, head: Pose, out: LocalWorldOut): Promise<LocalWorld> {
    const address = new URL("world.glb", options.origin);
    address.hash = "";
    address.search = "";
    const scene = await LocalScene.load(canvas, address, options.token, AbortSignal.timeout(LOAD_MS));
    // The first picture takes longest, because shaders are compiled; a member that says nothing meanwhile would lose its place.
    const user: User = { head, controllers: [] };
    scene.render({ seconds: 0, user, objects: [], bodies: [], held: new Set(), pointed: new Set() });
    const heard: { by: LocalWorld | null; news: RoomNews[] } = { by: null, news: [] };
    const onNews = (news: RoomNews): void => {
      if (heard.by) heard.by.#onNews(news);
      else heard.news.push(news);
    };
    try {
      const membership = await join(options, { onNews, onHeard: (message) => out.onHeard(message), onEnded: (why, goodbye) => out.onEnded(why, goodbye) });
      const local = new LocalWorld(out, scene, membership, head);
      out.onTransport(membership.transport, membership.why);
      heard.by = local;
      for (const news of heard.news) local.#onNews(news);
      return local;
    } catch (error) {
      scene.close();
      throw error;
    }
  }

  /** Where the user is now, and what is in the hands. */
  onPresence(user: User): void {
    this.#user = user;
    if (this.#acts) this.#interaction.onControllers(user);
  }

  onDevice(input: DeviceInput): void {
    if (this.#acts) this.#interaction.onDevice(input, this.#user);
  }

  /** Ten milliseconds of the user's voice: the packet's number, and Opus. */
  say(packet: Uint8Array): void {
    this.#membership.say(packet);
  }

  /** Draws the world in a headset. */
  eyes(): Eyes {
    return {
      begin: async (session, onFrame) => {
        this.#interaction.releaseAll();
        this.#onHeadsetFrame = onFrame;
        await this.#scene.enter(session);
      },
      setWorld: (world) => this.#scene.setWorld(world),
      draw: (now) => this.#draw(now),
      close: () => {
        this.#interaction.releaseAll();
        this.#user = { ...this.#user, controllers: [] };
        this.#onHeadsetFrame = null;
      },
    };
  }

  /** What the room knows, for tests. */
  get room(): { you: number; people: RoomPerson[]; objects: { object: number; owner: number; position: readonly number[] }[]; transport?: TransportName } {
    const objects = this.#membership.objects.map(({ object, owner, pose }) => ({ object, owner, position: pose.position }));
    return { you: this.#membership.you, people: this.#membership.members, objects, transport: this.#membership.transport };
  }

  close(): void {
    this.#closed = true;
    this.#membership.close();
    this.#scene.close();
  }

  #onNews(news: RoomNews): void {
    if (news.type !== "synchronised" && news.type !== "members") return;
    const { you, members } = this.#membership;
    this.#acts = members.some(({ id, role }) => id === you && role !== "spectator");
    this.#scene.setPeople(members, you);
    this.#out.onPeople(members, you);
  }

  #draw(now: number): void {
    const seconds = Math.max(0, now - this.#drawnAt) / 1_000;
    this.#drawnAt = now;
    const [membership, interaction, user] = [this.#membership, this.#interaction, this.#user];
    if (this.#closed || membership.you === 0) return;
    const hand = (wanted: Hand): Pose | null => user.controllers.find(({ hand }) => hand === wanted)?.aim ?? null;
    if (this.#acts) membership.setBody(user.head, { left: hand("left"), right: hand("right") });
    const objects = interaction.step(seconds, user, membership.objects);
    membership.pump();
    const pointed = this.#acts && user.controllers.length > 0 ? interaction.pointed(user, objects) : new Set<number>();
    this.#scene.render({ seconds, user, objects, bodies: membership.bodies, held: interaction.held, pointed });
    const cursor = this.#acts ? interaction.cursor(user, objects) : "default";
    if (cursor !== this.#cursor) this.#out.onCursor(cursor);
    this.#cursor = cursor;
    if (!this.#shown) this.#out.onShown();
    this.#shown = true;
    this.#count(now);
  }

  #count(now: number): void {
    this.#counted.frames += 1;
    const passed = now - this.#counted.since;
    if (passed < REPORT_MS) return;
    this.#out.onFrameRate((1_000 * this.#counted.frames) / passed);
    this.#counted = { frames: 0, since: now };
  }
}
