// The position and view direction of a screen's user. Input devices turn and walk it; presences are read from it.

import { type Pose, clamp, fromYawPitch, rotate } from "../math.ts";

/** Metres a second; a calm walk and a run. */
const WALK = 1.8;
const RUN = 3.6;
/** Speed follows the keys with this time constant in seconds, so that steps start and end softly. */
const EASE = 0.08;
/** The world ends here, in metres from its middle. */
const REACH = 20;
const LOWEST = 0.4;
const HIGHEST = 8;
/** Straight up and down are excluded: there yaw would lose its meaning. */
const PITCH_LIMIT = 1.5;

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
    this.#pitch = clamp(this.#pitch + up, -PITCH_LIMIT, PITCH_LIMIT);
  }

  /** Walks for `seconds` (at most a tenth: a suspended page must not jump). True where the pose changed. */
  walk(walk: Walk, seconds: number): boolean {
    const step = Math.min(seconds, 0.1);
    const length = Math.max(1, Math.hypot(walk.right, walk.forward));
    const speed = walk.run ? RUN : WALK;
    const [x, , z] = rotate(fromYawPitch(this.#yaw, 0), [walk.right / length, 0, -walk.forward / length]);
    const wanted = [x * speed, walk.up * speed, z * speed] as const;
    const share = 1 - Math.exp(-step / EASE);
    let moved = false;
    for (const axis of [0, 1, 2] as const) {
      this.#velocity[axis] += (wanted[axis] - this.#velocity[axis]) * share;
      if (Math.abs(this.#velocity[axis]) < 0.001) this.#velocity[axis] = 0;
      const [low, high] = axis === 1 ? [LOWEST, HIGHEST] : [-REACH, REACH];
      const next = clamp(this.#position[axis] + this.#velocity[axis] * step, low, high);
      moved ||= next !== this.#position[axis];
      this.#position[axis] = next;
    }
    return moved;
  }

  /** Moves the user at once. */
  place(position: readonly [number, number, number], yaw: number, pitch: number): void {
    this.#position = [
      clamp(position[0], -REACH, REACH),
      clamp(position[1], LOWEST, HIGHEST),
      clamp(position[2], -REACH, REACH),
    ];
    this.#yaw = yaw;
    this.#pitch = clamp(pitch, -PITCH_LIMIT, PITCH_LIMIT);
    this.#velocity = [0, 0, 0];
  }

  pose(): Pose {
    return { position: [...this.#position], orientation: fromYawPitch(this.#yaw, this.#pitch) };
  }
}
