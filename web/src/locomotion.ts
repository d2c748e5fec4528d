// The position of a headset's room in the world: walked with the left stick, turned in steps with the right one.

import { type Vec3, clamp, conjugate, fromYawPitch, rotate } from "./math.ts";

/** Speed in metres a second. Guess: slower than on a screen, for the inner ear. */
const WALK_SPEED = 1.4;
/** One step of turning in radians: smooth turning makes many people sick. */
const TURN_STEP = Math.PI / 6;
/** Deflection below which a stick counts as at rest. Guess. */
const DEAD_ZONE = 0.2;
/** A stick beyond this deflection turns one step, and must come back before it turns another. Guess. */
const TURN_DEFLECTION = 0.7;
/** Maximum distance from the world's middle along each axis, in metres. */
const MAX_DISTANCE = 20;

export class Locomotion {
  /** Position of the room's floor in the world. */
  #origin: Vec3;
  #yaw: number;
  #snapped = false;

  /** Places the room's middle where a user of a screen would start, on the ground. */
  constructor(start: Vec3, yaw: number) {
    this.#origin = [start[0], 0, start[2]];
    this.#yaw = yaw;
  }

  /** Moves the room for `seconds`; `head` is the user's head in the world, which faces `heading` radians to the left of -z. True where it moved. */
  step(sticks: { walk: readonly [number, number]; turn: number }, seconds: number, head: Vec3, heading: number): boolean {
    const [right, back] = sticks.walk.map((value) => (Math.abs(value) < DEAD_ZONE ? 0 : value)) as [number, number];
    const [x, , z] = rotate(fromYawPitch(heading, 0), [right, 0, back]);
    const length = WALK_SPEED * Math.min(seconds, 0.1);
    // The head stays within the world's border, wherever in the room it is.
    const inside = (from: number, step: number): number => clamp(from + step, -MAX_DISTANCE, MAX_DISTANCE) - from;
    const [dx, dz] = [inside(head[0], x * length), inside(head[2], z * length)];
    this.#origin = [this.#origin[0] + dx, this.#origin[1], this.#origin[2] + dz];
    const turned = this.#turn(sticks.turn, head);
    return dx !== 0 || dz !== 0 || turned;
  }

  /** The world as seen from the room: what `getOffsetReferenceSpace` takes. */
  offset(): XRRigidTransform {
    const back = conjugate(fromYawPitch(this.#yaw, 0));
    const [x, y, z] = rotate(back, [-this.#origin[0], -this.#origin[1], -this.#origin[2]]);
    return new XRRigidTransform({ x, y, z }, { x: back[0], y: back[1], z: back[2], w: back[3] });
  }

  /** Turns around the head, not around the middle of the room. */
  #turn(stick: number, head: Vec3): boolean {
    const beyond = Math.abs(stick) > TURN_DEFLECTION;
    const turns = beyond && !this.#snapped;
    this.#snapped = beyond || (this.#snapped && Math.abs(stick) > DEAD_ZONE);
    if (!turns) return false;
    const angle = -Math.sign(stick) * TURN_STEP;
    const arm: Vec3 = [this.#origin[0] - head[0], 0, this.#origin[2] - head[2]];
    const turnedArm = rotate(fromYawPitch(angle, 0), arm);
    this.#origin = [head[0] + turnedArm[0], this.#origin[1], head[2] + turnedArm[2]];
    this.#yaw += angle;
    return true;
  }
}
