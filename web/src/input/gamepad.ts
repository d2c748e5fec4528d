// Gamepads: all of them go to the application; the first with the standard layout also walks and looks.

import { GAMEPAD_LAYOUT } from "../generated/core.ts";
import { MAX_GAMEPADS, SERVED_GAMEPAD } from "../generated/wire.ts";
import type { Haptics } from "../messages.ts";
import { pack, values as rows } from "../packing.ts";
import type { Walk } from "./camera.ts";
import type { InputOut } from "./devices.ts";

/** Deflection below which a stick counts as at rest. Guess: worn sticks rest at up to a tenth. */
const DEAD_ZONE = 0.12;
/** Radians a second at full deflection. Guess: a full turn in 2.6 s. */
const TURN_SPEED = 2.4;
/** Button numbers of the standard layout (W3C Gamepad, section 11). */
const RUN_BUTTON = 10;
const DOWN_TRIGGER = 6;
const UP_TRIGGER = 7;

export class GamepadInput {
  readonly #out: InputOut;
  /** The last reported state, as text. */
  #reported = "";

  constructor(out: InputOut) {
    this.#out = out;
  }

  /** Reads the gamepads; call once per animation frame of `seconds`. */
  poll(now: number, seconds: number, walk: Walk): void {
    const pads = connected();
    this.#report(now, pads);
    const pad = pads.find(({ mapping }) => mapping === "standard");
    if (!pad || this.#out.program) return;
    const axis = (index: number): number => shaped(pad.axes[index] ?? 0);
    walk.right += axis(0);
    walk.forward -= axis(1);
    walk.up += (pad.buttons[UP_TRIGGER]?.value ?? 0) - (pad.buttons[DOWN_TRIGGER]?.value ?? 0);
    walk.run ||= pad.buttons[RUN_BUTTON]?.pressed ?? false;
    const [left, up] = [-axis(2) * TURN_SPEED * seconds, -axis(3) * TURN_SPEED * seconds];
    // The pad's own time stamp says when its state changed last; a stick that is held keeps turning after that.
    if (left !== 0 || up !== 0) this.#out.onLook(now, left, up);
  }

  #report(now: number, pads: Gamepad[]): void {
    const values = pads.flatMap(({ index, buttons, axes }) => pack(GAMEPAD_LAYOUT, { pad: { index }, buttons, axes: rows(axes) }));
    const text = values.join();
    if (text === this.#reported) return;
    this.#reported = text;
    const changed = Math.max(...pads.map(({ timestamp }) => timestamp), 0);
    this.#out.onDevice(changed > 0 ? Math.min(now, changed) : now, { device: "gamepads", values });
  }
}

/** Returns the user's connected gamepads whose numbers the protocol supports. */
export function connected(): Gamepad[] {
  // Those of a program that is served by this machine would move themselves.
  return all().filter(({ connected, index, id }) => connected && index < MAX_GAMEPADS && !id.includes(SERVED_GAMEPAD));
}

function all(): Gamepad[] {
  try {
    return navigator.getGamepads().filter((pad) => pad !== null);
  } catch {
    // A frame without the permission policy `gamepad` throws at every call.
    return [];
  }
}

/** The part of an actuator that every browser with rumble has. */
type Actuator = Pick<GamepadHapticActuator, "playEffect">;

/** Rumbles the gamepad with this number, if it can. */
export function rumble(index: number, { milliseconds, strong, weak }: Haptics): void {
  const pad = connected().find((one) => one.index === index);
  const actuator = pad?.vibrationActuator as Actuator | null | undefined;
  const effect = { duration: milliseconds, strongMagnitude: strong, weakMagnitude: weak };
  // A pad that is gone no longer vibrates, which is no error.
  void actuator?.playEffect("dual-rumble", effect).catch(() => undefined);
}

/** Returns 0 in the dead zone, then a square curve up to full deflection. */
function shaped(value: number): number {
  const size = Math.max(0, Math.abs(value) - DEAD_ZONE) / (1 - DEAD_ZONE);
  return Math.sign(value) * size * size;
}
