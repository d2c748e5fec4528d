// What the user's devices do to objects of the room while the page renders the world: what they do in the server's, as far as a member may.

import { POINTER_COLUMNS } from "../generated/core.ts";
import type { DeviceInput } from "../input/devices.ts";
import { type Pose, type Quat, type Vec3, clamp, conjugate, multiply, rotate } from "../math.ts";
import type { Body, Membership, RoomObject } from "./membership.ts";

/** Metres from the eyes to what is held: at the least, at the most when it is taken, and at the most after the wheel has moved it. */
const NEAREST = 0.35;
const FARTHEST_GRAB = 3;
const FARTHEST = 8;
/** Factor of a notch of the wheel, and its pixels. */
const NOTCH = 1.15;
const NOTCH_PIXELS = 100;
/** Metres to what was handed over. */
const HANDED_OVER = 1.2;
/** The cosine of the angle to whom something is handed over: 35 degrees. */
const FACING = 0.82;
/** Metres a second of a throw, how long the hand swings, and where it begins. */
const THROW_SPEED = 8.5;
const SWING_SECONDS = 0.2;
const SWING_FROM = 0.45;
/** Balls that nobody has thrown lie below this. */
const PARKED_BELOW = -10;

interface Grip {
  object: number;
  distance: number;
  /** The object's rotation as the head sees it. */
  rotation: Quat;
  /** Seconds of the swing so far; none where it is only held. */
  swung: number | null;
  /** The room has said that this member holds it. */
  known: boolean;
}

/** What is seen of the objects. */
export interface ObjectView {
  pick(head: Pose, objects: readonly RoomObject[]): { object: number; distance: number } | null;
  placeOf(object: number): Pose | null;
}

export class Interaction {
  readonly #membership: Membership;
  readonly #view: ObjectView;
  #grip: Grip | null = null;
  #pressed = false;
  #scrolled: number | null = null;

  constructor(membership: Membership, view: ObjectView) {
    this.#membership = membership;
    this.#view = view;
  }

  /** What is drawn where the hand is and not where the room last heard of it. */
  get held(): ReadonlySet<number> {
    return new Set(this.#grip?.known ? [this.#grip.object] : []);
  }

  onDevice(input: DeviceInput, head: Pose): void {
    if (input.device === "pointer") this.#onPointer(input.values, head);
    else if (input.device === "key" && input.pressed && input.code === "KeyG") this.#handOver(head);
    else if (input.device === "key" && input.pressed && input.code === "KeyF") this.#throw();
    else if (input.device === "release") this.#release();
  }

  /** Moves what is held; returns the objects with those places. */
  step(seconds: number, head: Pose, objects: RoomObject[]): RoomObject[] {
    const { you } = this.#membership;
    const own = objects.find(({ owner }) => owner === you && you !== 0);
    const grip = this.#grip;
    if (grip?.known && own?.object !== grip.object) this.#grip = null;
    else if (grip && own?.object === grip.object) grip.known = true;
    // Somebody has handed it over.
    if (!this.#grip && own) this.#hold(own.object, Math.min(HANDED_OVER, distance(head.position, own.pose.position)), head, true);
    const held = this.#grip;
    if (!held?.known) return objects;
    if (held.swung !== null) {
      held.swung += seconds;
      held.distance = SWING_FROM + THROW_SPEED * held.swung;
    }
    const ahead = rotate(head.orientation, [0, 0, -held.distance]);
    const position = head.position.map((value, axis) => value + (ahead[axis] ?? 0)) as Vec3;
    const pose: Pose = { position, orientation: multiply(head.orientation, held.rotation) };
    this.#membership.setObject(held.object, pose);
    if (held.swung !== null && held.swung >= SWING_SECONDS) this.#release();
    return objects.map((object) => (object.object === held.object ? { ...object, pose } : object));
  }

  /** Whether the user points at something or holds it. */
  cursor(head: Pose, objects: readonly RoomObject[]): "grabbing" | "grab" | "default" {
    if (this.#grip) return "grabbing";
    return this.#view.pick(head, objects) ? "grab" : "default";
  }

  #onPointer(values: readonly number[], head: Pose): void {
    const named = (name: (typeof POINTER_COLUMNS)[number]): number => values[POINTER_COLUMNS.indexOf(name)] ?? 0;
    const pressed = named("captured") !== 0 && (named("buttons") & 1) !== 0;
    if (pressed && !this.#pressed) this.#take(head);
    if (!pressed && this.#pressed) this.#release();
    this.#pressed = pressed;
    const scrolled = named("scrolledY") / NOTCH_PIXELS;
    if (this.#grip && this.#scrolled !== null) {
      this.#grip.distance = clamp(this.#grip.distance * NOTCH ** (this.#scrolled - scrolled), NEAREST, FARTHEST);
    }
    this.#scrolled = scrolled;
  }

  #take(head: Pose): void {
    this.#release();
    const target = this.#view.pick(head, this.#membership.objects);
    if (!target) return;
    this.#hold(target.object, clamp(target.distance, NEAREST, FARTHEST_GRAB), head, false);
    this.#membership.take(target.object);
  }

  #hold(object: number, distance: number, head: Pose, known: boolean): void {
    const orientation = this.#view.placeOf(object)?.orientation ?? [0, 0, 0, 1];
    const rotation = multiply(conjugate(head.orientation), orientation);
    this.#grip = { object, distance: Math.max(distance, NEAREST), rotation, swung: null, known };
  }

  #release(): void {
    if (this.#grip) this.#membership.release(this.#grip.object);
    this.#grip = null;
  }

  #handOver(head: Pose): void {
    const to = faced(head, this.#membership.bodies);
    if (this.#grip?.known && to !== null) this.#membership.handOver(this.#grip.object, to);
  }

  /** A ball that nobody has thrown is taken, swung, and let go. */
  #throw(): void {
    this.#release();
    const ball = this.#membership.objects.find(({ owner, pose }) => owner === 0 && pose.position[1] < PARKED_BELOW);
    if (!ball) return;
    this.#grip = { object: ball.object, distance: SWING_FROM, rotation: [0, 0, 0, 1], swung: 0, known: false };
    this.#membership.take(ball.object);
  }
}

/** The member whom the head faces. */
function faced(head: Pose, bodies: readonly Body[]): number | null {
  const ahead = rotate(head.orientation, [0, 0, -1]);
  let best: number | null = null;
  let cosine = FACING;
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
