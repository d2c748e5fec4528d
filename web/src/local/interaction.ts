// What the user's devices do to objects of the room while the page renders the world: what they do in the server's, as far as a member may.

import { POINTER_COLUMNS } from "../generated/core.ts";
import type { Hand } from "../generated/wire.ts";
import type { DeviceInput } from "../input/devices.ts";
import { type Pose, type Quat, type Vec3, clamp, conjugate, multiply, rotate } from "../math.ts";
import type { Controller } from "../presence.ts";
import type { Body, Membership, RoomObject } from "./membership.ts";

/** Minimum distance of a held object from its hand, in metres. This and the following are the server's values. */
const MIN_HOLD_DISTANCE = 0.35;
/** Maximum distance at which an object is held when it is taken, in metres. */
const MAX_GRAB_DISTANCE = 3;
/** Maximum distance to which the wheel moves a held object, in metres. */
const MAX_HOLD_DISTANCE = 8;
/** Factor by which a notch of the wheel changes the distance. */
const NOTCH_FACTOR = 1.15;
/** Pixels of a notch. */
const NOTCH_PIXELS = 100;
/** Maximum distance of an object that was handed over, in metres. */
const MAX_HANDOVER_DISTANCE = 1.2;
/** Cosine of the maximum angle to a member to whom an object is handed over: 35 degrees. */
const MIN_HANDOVER_COSINE = 0.82;
/** Velocity of a throw along the ray and upwards, in metres a second. */
const THROW: readonly [number, number] = [8.5, 1.4];
/** Velocity of a push along the ray and upwards, in metres a second. */
const PUSH: readonly [number, number] = [4.2, 0.9];
/** Distance from the hand at which a throw begins, in metres. */
const THROW_DISTANCE = 0.45;
/** How long a thrown or pushed object is moved before it is released: the server's world follows within 0.06 s. */
const SWING_SECONDS = 0.2;
/** Height in metres below which balls lie that nobody has thrown. */
const PARKED_HEIGHT = -10;

type Action = "grab" | "push" | "throw" | "hand-over";
/** Actions of a tracked controller's buttons (xr-standard mapping). */
const CONTROLLER_ACTIONS: readonly (readonly [number, Action])[] = [[0, "push"], [1, "grab"], [4, "throw"], [5, "hand-over"]];
/** Actions of a mouse's buttons (W3C's `buttons`). */
const POINTER_ACTIONS: readonly (readonly [number, Action])[] = [[1, "grab"], [2, "push"], [4, "throw"]];

/** The user as the devices report it. */
export interface User {
  head: Pose;
  /** What the user holds in the hands; nothing at a screen. */
  controllers: readonly Controller[];
}

interface Grip {
  hand: Hand;
  distance: number;
  /** The object's rotation as the hand sees it. */
  rotation: Quat;
  /** The room has said that this member holds it. */
  known: boolean;
}

/** Something that is being thrown or pushed. */
interface Swing {
  from: Vec3;
  orientation: Quat;
  velocity: Vec3;
  /** Seconds since this member has held it. */
  lasted: number;
  known: boolean;
}

/** Something that a ray meets. */
export interface Target {
  object: number;
  distance: number;
  /** Metres from its middle to its farthest point. */
  reach: number;
}

/** What is seen of the objects. */
export interface ObjectView {
  pick(ray: Pose, objects: readonly RoomObject[]): Target | null;
  placeOf(object: number): Pose | null;
}

export class Interaction {
  readonly #membership: Membership;
  readonly #view: ObjectView;
  readonly #onFelt: (hand: Hand) => void;
  readonly #grips = new Map<number, Grip>();
  readonly #swings = new Map<number, Swing>();
  #buttons = 0;
  /** The buttons that are down on each controller. */
  readonly #pressed = new Map<Hand, ReadonlySet<number>>();
  #scrolled: number | null = null;

  /** `onFelt`: the hand's controller has done something to an object. */
  constructor(membership: Membership, view: ObjectView, onFelt: (hand: Hand) => void) {
    this.#membership = membership;
    this.#view = view;
    this.#onFelt = onFelt;
  }

  /** What is drawn where the hand is and not where the room last heard of it. */
  get held(): ReadonlySet<number> {
    return new Set([...this.#grips, ...this.#swings].filter(([, { known }]) => known).map(([object]) => object));
  }

  onDevice(input: DeviceInput, user: User): void {
    if (input.device === "pointer") this.#onPointer(input.values, user);
    else if (input.device === "key" && input.pressed && input.code === "KeyG") this.#act("hand-over", "none", user);
    else if (input.device === "key" && input.pressed && input.code === "KeyF") this.#act("throw", "none", user);
    else if (input.device === "release") this.releaseAll();
  }

  /** The controllers' buttons; those of a controller that is gone are released. */
  onControllers(user: User): void {
    const hands = new Set([...this.#pressed.keys(), ...user.controllers.map(({ hand }) => hand)]);
    for (const hand of hands) {
      const before = this.#pressed.get(hand) ?? new Set();
      const buttons = user.controllers.find((controller) => controller.hand === hand)?.buttons ?? [];
      const now = new Set(buttons.flatMap(({ pressed }, button) => (pressed ? [button] : [])));
      this.#pressed.set(hand, now);
      for (const [button, action] of CONTROLLER_ACTIONS) {
        if (now.has(button) && !before.has(button)) this.#act(action, hand, user);
        if (!now.has(button) && before.has(button) && action === "grab") this.#release(hand);
      }
    }
  }

  /** Moves what is held; returns the objects with those places. */
  step(seconds: number, user: User, objects: RoomObject[]): RoomObject[] {
    const { you } = this.#membership;
    const owners = new Map(objects.map(({ object, owner }) => [object, owner]));
    for (const held of [this.#grips, this.#swings] as const) {
      for (const [object, hold] of held) {
        const owner = owners.get(object) ?? 0;
        // Somebody else was first, or has it now.
        if (owner !== you && (hold.known || owner !== 0)) held.delete(object);
        else hold.known ||= owner === you;
      }
    }
    for (const { object, owner, pose } of objects) {
      if (owner === you && you !== 0 && !this.#grips.has(object) && !this.#swings.has(object)) this.#receive(object, pose, user);
    }
    const moved = new Map<number, Pose>();
    for (const [object, grip] of this.#grips) if (grip.known) moved.set(object, held(grip, rayOf(user, grip.hand)));
    for (const [object, swing] of this.#swings) {
      if (!swing.known) continue;
      swing.lasted += seconds;
      moved.set(object, { position: along(swing.from, swing.velocity, swing.lasted), orientation: swing.orientation });
    }
    for (const [object, pose] of moved) this.#membership.setObject(object, pose);
    for (const [object, { lasted }] of this.#swings) {
      if (lasted < SWING_SECONDS) continue;
      this.#swings.delete(object);
      this.#membership.release(object);
    }
    return objects.map((object) => ({ ...object, pose: moved.get(object.object) ?? object.pose }));
  }

  /** Whether the user points at something or holds it. */
  cursor(user: User, objects: readonly RoomObject[]): "grabbing" | "grab" | "default" {
    if (this.#grips.size + this.#swings.size > 0) return "grabbing";
    return this.pointed(user, objects).size > 0 ? "grab" : "default";
  }

  /** The objects that the user points at, with the hands or with the view. */
  pointed({ head, controllers }: User, objects: readonly RoomObject[]): ReadonlySet<number> {
    const rays = controllers.length > 0 ? controllers.map(({ aim }) => aim) : [head];
    return new Set(rays.flatMap((ray) => this.#view.pick(ray, objects)?.object ?? []));
  }

  /** The devices are gone, or others. */
  releaseAll(): void {
    for (const object of [...this.#grips.keys(), ...this.#swings.keys()]) this.#membership.release(object);
    this.#grips.clear();
    this.#swings.clear();
    this.#pressed.clear();
    this.#buttons = 0;
  }

  #onPointer(values: readonly number[], user: User): void {
    const named = (name: (typeof POINTER_COLUMNS)[number]): number => values[POINTER_COLUMNS.indexOf(name)] ?? 0;
    const buttons = named("captured") === 0 ? 0 : named("buttons");
    for (const [bit, action] of POINTER_ACTIONS) {
      if ((buttons & ~this.#buttons & bit) !== 0) this.#act(action, "none", user);
      if ((~buttons & this.#buttons & bit) !== 0 && action === "grab") this.#release("none");
    }
    this.#buttons = buttons;
    const scrolled = named("scrolledY") / NOTCH_PIXELS;
    const notches = (this.#scrolled ?? scrolled) - scrolled;
    for (const grip of this.#grips.values()) {
      if (grip.hand === "none" && notches !== 0) grip.distance = clamp(grip.distance * NOTCH_FACTOR ** notches, MIN_HOLD_DISTANCE, MAX_HOLD_DISTANCE);
    }
    this.#scrolled = scrolled;
  }

  #act(action: Action, hand: Hand, user: User): void {
    if (action === "hand-over") return this.#handOver(user);
    const ray = rayOf(user, hand);
    const acts = action === "throw" ? this.#throw(ray) : this.#reach(action, hand, ray);
    if (acts && hand !== "none") this.#onFelt(hand);
  }

  /** Takes or pushes what the ray meets. */
  #reach(action: "grab" | "push", hand: Hand, ray: Pose): boolean {
    if (action === "grab") this.#release(hand);
    const target = this.#view.pick(ray, this.#membership.objects);
    const place = target && this.#view.placeOf(target.object);
    if (!place) return false;
    if (action === "push") this.#swing(target.object, place, velocityOf(ray, PUSH));
    else this.#hold(target.object, { hand, distance: clamp(target.distance + 0.6 * target.reach, MIN_HOLD_DISTANCE, MAX_GRAB_DISTANCE), known: false }, ray);
    this.#membership.take(target.object);
    return true;
  }

  /** A ball that nobody has thrown is taken, swung, and let go. */
  #throw(ray: Pose): boolean {
    const ball = this.#membership.objects.find(({ object, owner, pose }) => {
      return owner === 0 && pose.position[1] < PARKED_HEIGHT && !this.#swings.has(object);
    });
    if (!ball) return false;
    const from = along(ray.position, rotate(ray.orientation, [0, 0, -1]), THROW_DISTANCE);
    this.#swing(ball.object, { position: from, orientation: [0, 0, 0, 1] }, velocityOf(ray, THROW));
    this.#membership.take(ball.object);
    return true;
  }

  /** Somebody has handed it over. */
  #receive(object: number, pose: Pose, user: User): void {
    const hand = user.controllers.find((controller) => controller.hand !== "none")?.hand ?? "none";
    const ray = rayOf(user, hand);
    this.#hold(object, { hand, distance: clamp(distance(ray.position, pose.position), MIN_HOLD_DISTANCE, MAX_HANDOVER_DISTANCE), known: true }, ray);
  }

  #hold(object: number, grip: Omit<Grip, "rotation">, ray: Pose): void {
    const orientation = this.#view.placeOf(object)?.orientation ?? [0, 0, 0, 1];
    this.#grips.set(object, { ...grip, rotation: multiply(conjugate(ray.orientation), orientation) });
  }

  #swing(object: number, { position, orientation }: Pose, velocity: Vec3): void {
    this.#swings.set(object, { from: position, orientation, velocity, lasted: 0, known: false });
  }

  #release(hand: Hand): void {
    for (const [object, grip] of this.#grips) {
      if (grip.hand !== hand) continue;
      this.#grips.delete(object);
      this.#membership.release(object);
    }
  }

  #handOver(user: User): void {
    const [held] = [...this.#grips].find(([, { known }]) => known) ?? [];
    const to = faced(user.head, this.#membership.bodies);
    if (held !== undefined && to !== null) this.#membership.handOver(held, to);
  }
}

/** What a hand points along; a hand that is not tracked points where the head looks. */
function rayOf({ head, controllers }: User, hand: Hand): Pose {
  return controllers.find((controller) => controller.hand === hand)?.aim ?? head;
}

/** Where a hand holds something. */
function held({ distance, rotation }: Grip, ray: Pose): Pose {
  return { position: along(ray.position, rotate(ray.orientation, [0, 0, -1]), distance), orientation: multiply(ray.orientation, rotation) };
}

function velocityOf(ray: Pose, [ahead, up]: readonly [number, number]): Vec3 {
  const [x, y, z] = rotate(ray.orientation, [0, 0, -ahead]);
  return [x, y + up, z];
}

function along(from: Vec3, [x, y, z]: Vec3, times: number): Vec3 {
  return [from[0] + x * times, from[1] + y * times, from[2] + z * times];
}

/** The member whom the head faces. */
function faced(head: Pose, bodies: readonly Body[]): number | null {
  const ahead = rotate(head.orientation, [0, 0, -1]);
  let best: number | null = null;
  let cosine = MIN_HANDOVER_COSINE;
  for (const body of bodies) {
    const towards = body.head.position.map((value, axis) => value - (head.position[axis] ?? 0));
    const length = Math.hypot(...towards);
    const own = towards.reduce((sum, value, axis) => sum + value * (ahead[axis] ?? 0), 0) / Math.max(length, 1e-6);
    if (own > cosine) [best, cosine] = [body.member, own];
  }
  return best;
}

function distance(one: Vec3, other: Vec3): number {
  return Math.hypot(...one.map((value, axis) => value - (other[axis] ?? 0)));
}
