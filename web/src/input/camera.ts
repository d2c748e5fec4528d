// The position and view direction of a screen's user. Input devices turn and walk it; presences are read from it.

import { type Pose, clamp, fromYawPitch, rotate } from "../math.ts";

/** Speed of a calm walk in metres a second. */
const WALK_SPEED = 1.8;
/** Speed of a run in metres a second. */
const RUN_SPEED = 3.6;
/** Time constant in seconds with which the speed follows the keys, so that steps start and end softly. Guess. */
const SPEED_TIME_CONSTANT = 0.08;
/** Maximum distance from the world's middle along each horizontal axis, in metres. */
const MAX_DISTANCE = 20;
/** Minimum height of the eyes in metres. */
const MIN_HEIGHT = 0.4;
/** Maximum height of the eyes in metres. */
const MAX_HEIGHT = 8;
/** Maximum pitch in radians: straight up and down yaw would lose its meaning. */
const MAX_PITCH = 1.5;

/** How strongly the user wants to move: right, up and forward, each from -1 to 1. */
export interface Walk {
  right: number;
  up: number;
  forward: number;
  run: boolean;
}

export class Camera {
  #position: [number, number, number] = [0, 1.6, 6];
  #yaw = 0;
  #pitch = 0;
  #velocity: [number, number, number] = [0, 0, 0];

  /** Turns by radians to the left and up. */
  turn(left: number, up: number): void {
    this.#yaw = (this.#yaw + left) % (2 * Math.PI);
    this.#pitch = clamp(this.#pitch + up, -MAX_PITCH, MAX_PITCH);
  }

  /** Walks for `seconds`, but at most a tenth: a suspended page must not jump. Returns whether the pose changed. */
  walk(walk: Walk, seconds: number): boolean {
    const step = Math.min(seconds, 0.1);
    const length = Math.max(1, Math.hypot(walk.right, walk.forward));
    const speed = walk.run ? RUN_SPEED : WALK_SPEED;
    const [x, , z] = rotate(fromYawPitch(this.#yaw, 0), [walk.right / length, 0, -walk.forward / length]);
    const wanted = [x * speed, walk.up * speed, z * speed] as const;
    const share = 1 - Math.exp(-step / SPEED_TIME_CONSTANT);
    let moved = false;
    for (const axis of [0, 1, 2] as const) {
      this.#velocity[axis] += (wanted[axis] - this.#velocity[axis]) * share;
      if (Math.abs(this.#velocity[axis]) < 0.001) this.#velocity[axis] = 0;
      const [low, high] = axis === 1 ? [MIN_HEIGHT, MAX_HEIGHT] : [-MAX_DISTANCE, MAX_DISTANCE];
      const next = clamp(this.#position[axis] + this.#velocity[axis] * step, low, high);
      moved ||= next !== this.#position[axis];
      this.#position[axis] = next;
    }
    return moved;
  }

  /** Moves the user at once. */
  place(position: readonly [number, number, number], yaw: number, pitch: number): void {
    this.#position = [
      clamp(position[0], -MAX_DISTANCE, MAX_DISTANCE),
      clamp(position[1], MIN_HEIGHT, MAX_HEIGHT),
      clamp(position[2], -MAX_DISTANCE, MAX_DISTANCE),
    ];
    this.#yaw = yaw;
    this.#pitch = clamp(pitch, -MAX_PITCH, MAX_PITCH);
    this.#velocity = [0, 0, 0];
  }

  pose(): Pose {
    return { position: [...this.#position], orientation: fromYawPitch(this.#yaw, this.#pitch) };
  }
}
