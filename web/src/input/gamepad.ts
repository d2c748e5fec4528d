// The first gamepad with the standard layout: sticks walk and look, A grabs, B pushes, X throws, Y resets.

import type { Action } from "../messages.ts";
import type { Wish } from "./camera.ts";
import type { InputOut } from "./devices.ts";

/** Sticks rest somewhere in here. */
const DEAD_ZONE = 0.12;
/** Radians a second at full deflection. */
const TURN_SPEED = 2.4;
/** Button numbers of the standard layout. */
const GRAB_BUTTON = 0;
const PRESSES: readonly [number, Action][] = [
  [1, "push"],
  [2, "throw"],
  [3, "reset"],
];
const RUN_BUTTON = 10;
const DOWN_TRIGGER = 6;
const UP_TRIGGER = 7;

export class GamepadInput {
  readonly #out: InputOut;
  #pressed = new Set<number>();

  constructor(out: InputOut) {
    this.#out = out;
  }

  /** Reads the gamepad; call once per animation frame of `seconds`. */
  poll(now: number, seconds: number, wish: Wish): void {
    const pad = navigator.getGamepads().find((candidate) => candidate?.connected && candidate.mapping === "standard");
    if (!pad) {
      this.#leave(now);
      return;
    }
    const axis = (index: number): number => bent(pad.axes[index] ?? 0);
    wish.right += axis(0);
    wish.forward -= axis(1);
    wish.up += (pad.buttons[UP_TRIGGER]?.value ?? 0) - (pad.buttons[DOWN_TRIGGER]?.value ?? 0);
    wish.run ||= pad.buttons[RUN_BUTTON]?.pressed ?? false;
    const [left, up] = [-axis(2) * TURN_SPEED * seconds, -axis(3) * TURN_SPEED * seconds];
    // The pad's own time stamp says when its state changed last; a stick that is held keeps turning after that.
    if (left !== 0 || up !== 0) this.#out.onLook(now, left, up);
    this.#buttons(pad, Math.min(now, pad.timestamp || now));
  }

  /** Lets go: a pad that is gone tells of no release. */
  #leave(now: number): void {
    if (this.#pressed.has(GRAB_BUTTON)) this.#out.onAction(now, "release");
    this.#pressed.clear();
  }

  #buttons(pad: Gamepad, at: number): void {
    const pressed = new Set(pad.buttons.flatMap((button, index) => (button.pressed ? [index] : [])));
    const went = (index: number): boolean => pressed.has(index) && !this.#pressed.has(index);
    if (went(GRAB_BUTTON)) this.#out.onAction(at, "grab");
    if (this.#pressed.has(GRAB_BUTTON) && !pressed.has(GRAB_BUTTON)) this.#out.onAction(at, "release");
    for (const [index, action] of PRESSES) if (went(index)) this.#out.onAction(at, action);
    if (pressed.size > 0) this.#out.onActivity();
    this.#pressed = pressed;
  }
}

/** Nothing in the dead zone, then a soft start to full deflection. */
function bent(value: number): number {
  const size = Math.max(0, Math.abs(value) - DEAD_ZONE) / (1 - DEAD_ZONE);
  return Math.sign(value) * size * size;
}
