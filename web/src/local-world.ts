// The world rendered by this page. Loaded only when it is needed: three.js is larger than all the rest of the page.

import type { RoomNews, RoomPerson } from "./generated/core.ts";
import type { DeviceInput } from "./input/devices.ts";
import { Interaction } from "./local/interaction.ts";
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
  onCursor(cursor: string): void;
  onFrameRate(framesPerSecond: number): void;
  onEnded(why: string): void;
}

/** The world rendered by this page, and its user in it as a member of the room. */
export class LocalWorld {
  readonly #out: LocalWorldOut;
  readonly #scene: LocalScene;
  readonly #membership: Membership;
  readonly #interaction: Interaction;
  #head: Pose;
  #frame = 0;
  #drawnAt = performance.now();
  #counted = { frames: 0, since: performance.now() };
  #cursor = "";
  #shown = false;
  /** Spectators do nothing in the room. */
  #acts = false;

  private constructor(out: LocalWorldOut, scene: LocalScene, membership: Membership, head: Pose) {
    this.#out = out;
    this.#scene = scene;
    this.#membership = membership;
    this.#interaction = new Interaction(membership, scene);
    this.#head = head;
    this.#frame = requestAnimationFrame((now) => this.#step(now));
  }

  /** Loads the world and joins its room. Throws the reason where that does not succeed. */
  static async open(canvas: HTMLCanvasElement, options: MembershipOptions, head: Pose, out: LocalWorldOut): Promise<LocalWorld> {
    const address = new URL("world.glb", options.origin);
    address.hash = "";
    address.search = "";
    const scene = await LocalScene.load(canvas, address, options.token, AbortSignal.timeout(LOAD_MS));
    // The first picture takes longest, because shaders are compiled; a member that says nothing meanwhile would lose its place.
    scene.render(0, head, [], [], new Set());
    const heard: { by: LocalWorld | null; news: RoomNews[] } = { by: null, news: [] };
    const onNews = (news: RoomNews): void => {
      if (heard.by) heard.by.#onNews(news);
      else heard.news.push(news);
    };
    try {
      const membership = await join(options, { onNews, onEnded: (why) => out.onEnded(why) });
      const local = new LocalWorld(out, scene, membership, head);
      heard.by = local;
      for (const news of heard.news) local.#onNews(news);
      return local;
    } catch (error) {
      scene.close();
      throw error;
    }
  }

  /** Where the user is now. */
  onPresence(head: Pose): void {
    this.#head = head;
  }

  onDevice(input: DeviceInput): void {
    if (this.#acts) this.#interaction.onDevice(input, this.#head);
  }

  /** What the room knows, for tests. */
  get room(): { you: number; people: RoomPerson[]; objects: { object: number; owner: number; position: readonly number[] }[] } {
    const objects = this.#membership.objects.map(({ object, owner, pose }) => ({ object, owner, position: pose.position }));
    return { you: this.#membership.you, people: this.#membership.members, objects };
  }

  close(): void {
    cancelAnimationFrame(this.#frame);
    this.#membership.close();
    this.#scene.close();
  }

  #onNews(news: RoomNews): void {
    if (news.type !== "synchronised" && news.type !== "members") return;
    const { you, members } = this.#membership;
    this.#acts = members.some(({ id, role }) => id === you && role !== "spectator");
    this.#scene.setPeople(members.filter(({ id }) => id !== you));
    this.#out.onPeople(members, you);
  }

  #step(now: number): void {
    this.#frame = requestAnimationFrame((next) => this.#step(next));
    const seconds = Math.max(0, now - this.#drawnAt) / 1_000;
    this.#drawnAt = now;
    const membership = this.#membership;
    if (membership.you === 0) return;
    if (this.#acts) membership.setBody(this.#head);
    const objects = this.#interaction.step(seconds, this.#head, membership.objects);
    membership.pump();
    this.#scene.render(seconds, this.#head, objects, membership.bodies, this.#interaction.held);
    const cursor = this.#acts ? this.#interaction.cursor(this.#head, objects) : "default";
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
