// Mouse, pen and keyboard: their input goes to the application; the mouse also looks, and keys walk.

import { type InputOut, MOUSE_RADIANS, fractions } from "./devices.ts";
import type { Walk } from "./camera.ts";

/** By physical position, so that they are under the same fingers in every layout. */
const WALK_KEYS: Record<string, keyof Omit<Walk, "run">> = {
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
const BACKWARD = new Set(["KeyS", "ArrowDown", "KeyA", "ArrowLeft", "KeyQ", "KeyC"]);
/** Pixels per unit of a wheel that counts lines or pages. Guess: what browsers scroll by for a line. */
const LINE_PIXELS = 100 / 3;
const PAGE_PIXELS = 800;
/** What an input method or a dead key will write is not known when the key goes down. */
const COMPOSING = new Set(["Process", "Dead", "Unidentified"]);
/** Milliseconds by which a pasted text is ahead of the keys that paste it. Guess: both leave at once, by different ways. */
const PASTE_LEAD = 50;

export class MouseKeyboard {
  readonly #stage: HTMLElement;
  readonly #out: InputOut;
  readonly #held = new Set<string>();
  readonly #listening = new AbortController();
  /** Fractions of the picture. */
  #at: [number, number] = [0.5, 0.5];
  /** Totals in pixels. */
  readonly #moved: [number, number] = [0, 0];
  readonly #scrolled: [number, number] = [0, 0];
  /** W3C's `buttons`, of those that went down on the picture. */
  #buttons = 0;
  /** The application wants the pointer's movement. */
  captures = true;
  /** The user pastes into the program by the keys for it. */
  pastes = false;

  constructor(stage: HTMLElement, out: InputOut) {
    this.#stage = stage;
    this.#out = out;
    const { signal } = this.#listening;
    const on = <K extends keyof WindowEventMap>(name: K, handle: (event: WindowEventMap[K]) => void): void =>
      window.addEventListener(name, handle, { signal });
    on("keydown", (event) => this.#onKeyDown(event));
    on("keyup", (event) => this.#onKeyUp(event));
    on("compositionend", (event) => {
      // A program's text has a field of its own.
      if (!this.#out.program) this.#type(event.timeStamp, event.data);
    });
    on("blur", () => this.#letGo(performance.now()));
    on("mouseup", (event) => this.#onMouseUp(event));
    document.addEventListener("visibilitychange", () => this.#letGo(performance.now()), { signal });
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
    if (!this.captures) return;
    // Refused without a fresh gesture or right after an escape: the next click asks again.
    const asked = this.#stage.requestPointerLock() as Promise<void> | undefined;
    asked?.catch(() => undefined);
  }

  unlock(): void {
    if (this.locked) document.exitPointerLock();
  }

  addTo(walk: Walk): void {
    for (const code of this.#held) {
      const axis = WALK_KEYS[code];
      if (axis) walk[axis] += BACKWARD.has(code) ? -1 : 1;
      if (code.startsWith("Shift")) walk.run = true;
    }
  }

  close(): void {
    this.#listening.abort();
    this.unlock();
  }

  #onKeyDown(event: KeyboardEvent): void {
    if (!this.#takes(event)) return;
    if (this.#out.program) {
      this.#onProgramKey(event);
      return;
    }
    const { code, key, timeStamp } = event;
    // Space and arrows would scroll the page or press a focused button, Tab would leave the picture.
    if (!(event.target instanceof HTMLButtonElement)) event.preventDefault();
    if (!event.repeat) {
      this.#held.add(code);
      this.#out.onDevice(timeStamp, { device: "key", code, pressed: true });
      if (code === "KeyH") this.#out.onToggleHud();
      if (code === "KeyM") this.#out.onToggleMute();
      if (code === "KeyT") this.#out.onToggleTalk();
    }
    // Names of keys that type nothing are longer; a letter that control has turned into a command is none.
    const types = [...key].length === 1 && !event.ctrlKey && !event.metaKey && !event.isComposing;
    if (types) this.#type(timeStamp, key);
  }

  /** All keys are the program's, with what they type in this layout. */
  #onProgramKey(event: KeyboardEvent): void {
    const { code, key, timeStamp, ctrlKey, metaKey, altKey, target } = event;
    // A tool that a finger has tapped keeps the focus until the next key, which is the program's. Other buttons, such as a notice's, keep their keys.
    const ofTool = isTool(target);
    if (ofTool) this.#out.focus();
    if (event.isComposing || COMPOSING.has(key) || (target instanceof HTMLButtonElement && !ofTool)) return;
    const pasting = this.pastes && code === "KeyV" && (ctrlKey || metaKey);
    if (!pasting) event.preventDefault();
    const chooses = event.getModifierState("AltGraph");
    // With Alt a letter is a command, unless the layout makes a sign of it.
    const commands = !chooses && (ctrlKey || metaKey || (altKey && key.charCodeAt(0) < 0x80));
    const text = [...key].length === 1 && !commands ? key : "";
    if (event.repeat) {
      if (text) this.#type(timeStamp, text);
      return;
    }
    this.#held.add(code);
    const press = (at: number): void => this.#out.onDevice(at, { device: "key", code, pressed: true, text });
    if (pasting) setTimeout(() => this.#held.has(code) && press(performance.now()), PASTE_LEAD);
    else press(timeStamp);
  }

  #onKeyUp({ code, timeStamp }: KeyboardEvent): void {
    if (this.#held.delete(code)) this.#out.onDevice(timeStamp, { device: "key", code, pressed: false });
  }

  #type(at: number, text: string): void {
    if (text) this.#out.onDevice(at, { device: "text", text });
  }

  /** The browser keeps its own shortcuts as long as the pointer is not captured; the page's input fields keep their keys. */
  #takes(event: KeyboardEvent): boolean {
    const { target } = event;
    // Only the page's own full screen, and what is being chosen.
    if (this.#out.program && isTool(target)) return event.code !== "F11" && !(target instanceof HTMLSelectElement && isOpen(target));
    if (target instanceof HTMLInputElement || target instanceof HTMLSelectElement) return false;
    if (this.#out.program) return event.code !== "F11";
    const modifier = /^(Control|Alt|Meta)/.test(event.code);
    const shortcut = event.ctrlKey || event.metaKey || event.altKey;
    return this.locked || modifier || !shortcut;
  }

  #onMouseDown(event: MouseEvent): void {
    event.preventDefault();
    this.#out.focus();
    if (this.captures && !this.locked) {
      this.lock();
      return;
    }
    this.#press(event, event.buttons);
  }

  #onMouseUp(event: MouseEvent): void {
    // Buttons pressed elsewhere do not belong to the picture.
    if (this.#buttons !== 0) this.#press(event, this.#buttons & event.buttons);
  }

  #press(event: MouseEvent, buttons: number): void {
    this.#buttons = buttons;
    this.#place(event);
    this.#point(event.timeStamp);
  }

  #onWheel(event: WheelEvent): void {
    event.preventDefault();
    const unit = [1, LINE_PIXELS, PAGE_PIXELS][event.deltaMode] ?? 1;
    this.#scrolled[0] += event.deltaX * unit;
    this.#scrolled[1] += event.deltaY * unit;
    this.#point(event.timeStamp);
  }

  #onMove(event: PointerEvent): void {
    if (event.pointerType === "touch") return;
    this.#place(event);
    if (this.locked) {
      const [right, down] = [event.movementX, event.movementY];
      if (right === 0 && down === 0) return;
      this.#moved[0] += right;
      this.#moved[1] += down;
      this.#point(event.timeStamp);
      if (!this.#out.program) this.#out.onLook(event.timeStamp, -right * MOUSE_RADIANS, -down * MOUSE_RADIANS);
    } else if (!this.captures) this.#point(event.timeStamp);
  }

  #place(event: MouseEvent): void {
    if (!this.locked) this.#at = fractions(this.#stage, this.#out, event);
  }

  #point(at: number): void {
    const values = [...this.#at, Number(this.locked), ...this.#moved, ...this.#scrolled, this.#buttons];
    this.#out.onDevice(at, { device: "pointer", values });
  }

  #onLockChange(): void {
    if (!this.locked) this.#letGo(performance.now());
    this.#point(performance.now());
  }

  #letGo(at: number): void {
    this.#held.clear();
    this.#buttons = 0;
    this.#out.onDevice(at, { device: "release" });
  }
}

/** Whether it is one of the page's tools: around the picture, and not in a notice or on the landing page. */
export function isTool(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest(".bar, .show-bar, .hud") !== null;
}

/** Whether its choices are seen, and keys choose. Browsers that do not tell might show them. */
function isOpen(select: HTMLSelectElement): boolean {
  return !CSS.supports("selector(:open)") || select.matches(":open");
}
