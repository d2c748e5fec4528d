// Mouse look with pointer lock, and the keyboard.

import { type InputOut, MOUSE_RADIANS } from "./devices.ts";
import type { Wish } from "./camera.ts";

/** By physical position, so that it is the same hand on every layout. Control is left out: Ctrl+W closes the tab. */
const WALK_KEYS: Record<string, keyof Omit<Wish, "run">> = {
  KeyW: "forward",
  ArrowUp: "forward",
  KeyS: "forward",
  ArrowDown: "forward",
  KeyD: "right",
  ArrowRight: "right",
  KeyA: "right",
  ArrowLeft: "right",
  KeyE: "up",
  Space: "up",
  KeyQ: "up",
  KeyC: "up",
};
/** Pixels that a notch of the wheel scrolls in browsers, or lines where they count these, and the most notches of one event. */
const WHEEL_NOTCH = 100;
const WHEEL_LINES = 3;
const MOST_NOTCHES = 8;
const BACKWARD = new Set(["KeyS", "ArrowDown", "KeyA", "ArrowLeft", "KeyQ", "KeyC"]);

export class MouseKeyboard {
  readonly #stage: HTMLElement;
  readonly #out: InputOut;
  readonly #held = new Set<string>();
  readonly #listening = new AbortController();
  #grabbing = false;
  /** Of a notch of the wheel, towards the user, since the last whole one. */
  #turned = 0;

  constructor(stage: HTMLElement, out: InputOut) {
    this.#stage = stage;
    this.#out = out;
    const { signal } = this.#listening;
    const on = <K extends keyof WindowEventMap>(name: K, handle: (event: WindowEventMap[K]) => void): void =>
      window.addEventListener(name, handle, { signal });
    on("keydown", (event) => this.#onKey(event));
    on("keyup", (event) => this.#held.delete(event.code));
    on("blur", () => this.#letGo(performance.now()));
    on("mouseup", (event) => this.#onMouseUp(event));
    stage.addEventListener("mousedown", (event) => this.#onMouseDown(event), { signal });
    stage.addEventListener("wheel", (event) => this.#onWheel(event), { signal, passive: false });
    stage.addEventListener("contextmenu", (event) => event.preventDefault(), { signal });
    // Raw updates come as they happen; move events wait for the next animation frame.
    const move = "onpointerrawupdate" in window ? "pointerrawupdate" : "pointermove";
    stage.addEventListener(move, (event) => this.#onMove(event as PointerEvent), { signal });
    document.addEventListener("pointerlockchange", () => this.#onLockChange(), { signal });
  }

  /** Whether the mouse turns the view. */
  get locked(): boolean {
    return document.pointerLockElement === this.#stage;
  }

  lock(): void {
    // Refused without a fresh gesture or right after an escape: the next click asks again.
    const asked = this.#stage.requestPointerLock() as Promise<void> | undefined;
    asked?.catch(() => undefined);
  }

  addTo(wish: Wish): void {
    for (const code of this.#held) {
      const axis = WALK_KEYS[code];
      if (axis) wish[axis] += BACKWARD.has(code) ? -1 : 1;
      if (code.startsWith("Shift")) wish.run = true;
    }
  }

  close(): void {
    this.#listening.abort();
    if (this.locked) document.exitPointerLock();
  }

  #onKey(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target instanceof HTMLInputElement) return;
    if (event.code in WALK_KEYS || event.code.startsWith("Shift")) {
      this.#held.add(event.code);
      this.#out.onActivity();
      // Space and arrows would scroll the page or press a focused button.
      if (!(event.target instanceof HTMLButtonElement)) event.preventDefault();
      return;
    }
    if (event.repeat) return;
    if (event.code === "KeyH") this.#out.onToggleHud();
    if (event.code === "KeyM") this.#out.onToggleMute();
    if (event.code === "KeyF") this.#out.onAction(event.timeStamp, "throw");
    if (event.code === "KeyR") this.#out.onAction(event.timeStamp, "reset");
  }

  #onMouseDown(event: MouseEvent): void {
    event.preventDefault();
    if (!this.locked) {
      this.lock();
      return;
    }
    if (event.button === 0) {
      this.#grabbing = true;
      this.#turned = 0;
      this.#out.onAction(event.timeStamp, "grab");
    }
    if (event.button === 1) this.#out.onAction(event.timeStamp, "throw");
    if (event.button === 2) this.#out.onAction(event.timeStamp, "push");
  }

  #onMouseUp(event: MouseEvent): void {
    if (event.button === 0) this.#release(event.timeStamp);
  }

  /** Moves what is held, a step for each notch. */
  #onWheel(event: WheelEvent): void {
    event.preventDefault();
    if (!this.#grabbing) return;
    const notches = event.deltaMode === WheelEvent.DOM_DELTA_PIXEL ? event.deltaY / WHEEL_NOTCH : event.deltaY / WHEEL_LINES;
    this.#turned += Math.min(Math.max(notches, -MOST_NOTCHES), MOST_NOTCHES);
    for (; Math.abs(this.#turned) >= 1; this.#turned -= Math.sign(this.#turned)) {
      this.#out.onAction(event.timeStamp, this.#turned > 0 ? "nearer" : "farther");
    }
  }

  #onMove(event: PointerEvent): void {
    if (!this.locked || event.pointerType === "touch") return;
    if (event.movementX === 0 && event.movementY === 0) return;
    this.#out.onLook(event.timeStamp, -event.movementX * MOUSE_RADIANS, -event.movementY * MOUSE_RADIANS);
  }

  #onLockChange(): void {
    if (this.locked) this.#out.onActivity();
    else this.#letGo(performance.now());
  }

  #letGo(at: number): void {
    this.#held.clear();
    this.#release(at);
  }

  #release(at: number): void {
    if (!this.#grabbing) return;
    this.#grabbing = false;
    this.#out.onAction(at, "release");
  }
}
