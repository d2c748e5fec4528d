// The interface between input devices and the page.

import type { Hand } from "../generated/wire.ts";

/** A device's input, as the session takes it; lists of numbers are the core's. */
export type DeviceInput =
  /** `code` as in `KeyboardEvent`; `text` is what it types, `character` what it means in the user's layout if it is a command. */
  | { device: "key"; code: string; pressed: boolean; text?: string; character?: string }
  /** The browser repeats a key. */
  | { device: "key-repeat"; code: string; text?: string }
  | { device: "text"; text: string }
  /** `POINTER_COLUMNS`, or nothing where there is no pointer. */
  | { device: "pointer"; values: number[] }
  /** `TOUCH_COLUMNS` for each finger. */
  | { device: "touches"; values: number[] }
  /** `GAMEPAD_LAYOUT` for each. */
  | { device: "gamepads"; values: number[] }
  /** `HAND_LAYOUT`, or nothing where the hand is no longer tracked. */
  | { device: "joints"; hand: Hand; values: number[] }
  /** Everything held counts as released. */
  | { device: "release" };

export interface InputOut {
  /** Width of the picture by its height. */
  readonly aspect: number;
  /** The devices belong to a program: they neither look nor walk. */
  readonly program: boolean;
  /** Radians to the left and up; `at` is the event's own time. */
  onLook(at: number, left: number, up: number): void;
  /** The next key is for the picture. */
  focus(): void;
  onDevice(at: number, input: DeviceInput): void;
  onToggleHud(): void;
  onToggleMute(): void;
  onToggleTalk(): void;
}

/** Radians per pixel of mouse travel: 1,500 pixels are half a turn. */
export const MOUSE_RADIANS = Math.PI / 1_500;

/** Where a point of the window is in the picture: fractions of the picture's width and height. It covers its element, and a program's is
 *  within it, so that nothing of it is cut off. */
export function fractions(stage: HTMLElement, { aspect, program }: InputOut, event: { clientX: number; clientY: number }): [number, number] {
  const { left, top, width, height } = stage.getBoundingClientRect();
  const fit = program ? Math.min : Math.max;
  const [wide, high] = [Math.max(fit(width, height * aspect), 1), Math.max(fit(height, width / aspect), 1)];
  return [0.5 + (event.clientX - left - width / 2) / wide, 0.5 + (event.clientY - top - height / 2) / high];
}
