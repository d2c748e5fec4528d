// What every input device may tell the page.

import type { Action } from "../messages.ts";

export interface InputOut {
  /** Radians to the left and up; `at` is the event's own time. */
  onLook(at: number, left: number, up: number): void;
  onAction(at: number, action: Action): void;
  onToggleHud(): void;
  onToggleMute(): void;
  /** Any sign of a user. */
  onActivity(): void;
}

/** Radians per pixel of mouse travel: 1,500 pixels are half a turn. */
export const MOUSE_RADIANS = Math.PI / 1_500;
