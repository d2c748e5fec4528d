// Mouse, pen and keyboard: their input goes to the application; the mouse also looks, and keys walk.

import { type DeviceInput, type InputOut, MOUSE_RADIANS, fractions } from "./devices.ts";
import type { Walk } from "./camera.ts";

/** Walking keys by physical position, so that they are under the same fingers in every layout. */
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
/** Those that walk against their axis. */
const BACKWARD = new Set(["KeyS", "ArrowDown", "KeyA", "ArrowLeft", "KeyQ", "KeyC"]);
/** Pixels per unit of a wheel that counts lines or pages. Guess: browsers scroll by this much. */
const LINE_PIXELS = 100 / 3;
const PAGE_PIXELS = 800;
/** `key` of keydowns whose text is not known yet: an input method or a dead key will write it. */
const UNDECIDED_KEYS = new Set(["Process", "Dead", "Unidentified"]);
/** `keyCode` of a keydown that an input method handles (UI Events, section 7.3.1). */
const COMPOSITION_KEY_CODE = 229;
/** Keys are held back for this long, so that pasted text arrives first: it goes by the control stream. Guess: both leave at once. */
const PASTE_LEAD_MS = 50;
const MODIFIER = /^(Shift|Control|Alt|Meta)/;
/** Keys that do nothing more when they are held. */
const UNREPEATED = /^(Shift|Control|Alt|Meta)|Lock$/;
/** Characters that are no letters of another alphabet than the Latin one. */
const LATIN = /^(?:\P{L}|\p{Script=Latin})$/u;

export class MouseKeyboard {
  readonly #stage: HTMLElement;
  readonly #out: InputOut;
  /** Whether the user's system is one of Apple's. */
  readonly #apple: boolean;
  /** Codes of the keys that are down, and as which each was reported. */
  readonly #held = new Map<string, string>();
  readonly #listening = new AbortController();
  /** Pointer position in fractions of the picture. */
  #at: [number, number] = [0.5, 0.5];
  /** Total pointer movement in pixels. */
  readonly #moved: [number, number] = [0, 0];
  /** Total wheel movement in pixels. */
  readonly #scrolled: [number, number] = [0, 0];
  /** W3C's `buttons`, limited to those that went down on the picture. */
  #buttons = 0;
  /** Characters of the keys in the user's layout, or in the Latin one beside it; null in browsers that do not tell. */
  #layout: ReadonlyMap<string, string> | null = null;
  /** Input that waits for a pasted text, in order; null when none does. */
  #delayed: DeviceInput[] | null = null;
  #delay: ReturnType<typeof setTimeout> | undefined;
  /** The application wants relative pointer movement. */
  captures = true;
  /** The user's paste shortcut also delivers the clipboard to the program. */
  pastes = false;
  /** On Apple's systems programs receive Cmd as Control, which is what Linux programs use for Cmd+C and the like. */
  commandIsControl = true;

  constructor(stage: HTMLElement, out: InputOut, apple = isApple()) {
    this.#stage = stage;
    this.#out = out;
    this.#apple = apple;
    const { signal } = this.#listening;
    const on = <K extends keyof WindowEventMap>(name: K, handle: (event: WindowEventMap[K]) => void): void =>
      window.addEventListener(name, handle, { signal });
    on("keydown", (event) => this.#onKeyDown(event));
    on("keyup", (event) => this.#onKeyUp(event));
    on("compositionend", (event) => {
      // A program's text has a field of its own.
      if (!this.#out.program) this.#type(event.timeStamp, event.data);
    });
    on("blur", () => this.#releaseAll(performance.now()));
    on("focus", () => void this.#readLayout());
    void this.#readLayout();
    on("mouseup", (event) => this.#onMouseUp(event));
    document.addEventListener("visibilitychange", () => this.#releaseAll(performance.now()), { signal });
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
    for (const code of this.#held.keys()) {
      const axis = WALK_KEYS[code];
      if (axis) walk[axis] += BACKWARD.has(code) ? -1 : 1;
      if (code.startsWith("Shift")) walk.run = true;
    }
  }

  close(): void {
    this.#listening.abort();
    clearTimeout(this.#delay);
    this.unlock();
  }

  #onKeyDown(event: KeyboardEvent): void {
    // The input method has this key, and the text field its text. WebKit sends the confirming key after the composition has ended.
    if (event.isComposing || event.keyCode === COMPOSITION_KEY_CODE || !this.#takes(event)) return;
    if (this.#out.program) {
      this.#onProgramKey(event);
      return;
    }
    const { code, key, timeStamp } = event;
    // Space and arrows would scroll the page or press a focused button, Tab would leave the picture.
    if (!(event.target instanceof HTMLButtonElement)) event.preventDefault();
    // Keys that type nothing have longer names. With Control or Cmd a letter is a command.
    const types = [...key].length === 1 && !event.ctrlKey && !event.metaKey;
    if (event.repeat) {
      this.#onRepeat(event, types ? key : "");
      return;
    }
    this.#onPress(event);
    if (code === "KeyH") this.#out.onToggleHud();
    if (code === "KeyM") this.#out.onToggleMute();
    if (code === "KeyT") this.#out.onToggleTalk();
    if (types) this.#type(timeStamp, key);
  }

  /** A program gets all keys, with what they type in the user's layout. */
  #onProgramKey(event: KeyboardEvent): void {
    const { key, ctrlKey, metaKey, altKey, target } = event;
    // A tool that a finger has tapped keeps the focus until the next key, which is the program's. Other buttons, such as a notice's, keep their keys.
    const ofTool = isTool(target);
    if (ofTool) this.#out.focus();
    if (UNDECIDED_KEYS.has(key) || (target instanceof HTMLButtonElement && !ofTool)) return;
    const pasting = this.pastes && this.#isPaste(event);
    if (pasting) this.#delayKeys();
    else event.preventDefault();
    const choosesCharacter = event.getModifierState("AltGraph");
    // With Alt a key is a command, except on Apple's systems, where the layout makes other characters of it.
    const commands = !choosesCharacter && (ctrlKey || metaKey || (altKey && !this.#apple));
    const text = [...key].length === 1 && !commands ? key : "";
    if (event.repeat) this.#onRepeat(event, text);
    else this.#onPress(event, text, commands ? this.#meaningOf(event) : undefined);
  }

  /** What a key means as a command: its character in the user's layout, which is seldom the one of its place on the server's. */
  #meaningOf({ code, key, altKey }: KeyboardEvent): string | undefined {
    if ([...key].length !== 1) return undefined;
    const plain = this.#layout?.get(code);
    // Alt may have made another character of it.
    return this.#apple && altKey ? (plain ?? key) : LATIN.test(key) ? key : plain && LATIN.test(plain) ? plain : key;
  }

  async #readLayout(): Promise<void> {
    const { keyboard } = navigator as Navigator & { keyboard?: { getLayoutMap?: () => Promise<ReadonlyMap<string, string>> } };
    // Refused in frames without the permission; then the keys' own characters are known only.
    this.#layout = (await keyboard?.getLayoutMap?.().catch(() => null)) ?? null;
  }

  /** The program repeats a key when the browser does, and never by itself. */
  #onRepeat({ code, timeStamp }: KeyboardEvent, text: string): void {
    if (UNREPEATED.test(code)) return;
    const reported = this.#held.get(code) ?? this.#reportedCode(code);
    this.#send(timeStamp, { device: "key-repeat", code: reported, ...(text && { text }) });
  }

  #onPress(event: KeyboardEvent, text?: string, character?: string): void {
    const { code, timeStamp } = event;
    // Pressed again without a keyup in between.
    this.#release(code, timeStamp);
    const reported = this.#reportedCode(code);
    this.#held.set(code, reported);
    this.#send(timeStamp, { device: "key", code: reported, pressed: true, ...(text !== undefined && { text }), ...(character && { character }) });
    if (this.#lacksKeyUp(event)) this.#release(code, timeStamp);
  }

  #onKeyUp({ code, metaKey, timeStamp }: KeyboardEvent): void {
    if (this.#apple && code === "CapsLock" && !this.#held.has(code)) this.#tapCapsLock(timeStamp);
    // Keys that went up while Cmd was down have sent nothing.
    if (this.#apple && code.startsWith("Meta") && !metaKey) {
      for (const held of [...this.#held.keys()]) if (!MODIFIER.test(held)) this.#release(held, timeStamp);
    }
    this.#release(code, timeStamp);
  }

  /** macOS reports no keyup of a key that is pressed with Cmd, and of Caps Lock only a keydown when it goes on and a keyup when it goes off. */
  #lacksKeyUp({ code, metaKey }: KeyboardEvent): boolean {
    return this.#apple && ((metaKey && !MODIFIER.test(code)) || code === "CapsLock");
  }

  #tapCapsLock(at: number): void {
    for (const pressed of [true, false]) this.#send(at, { device: "key", code: "CapsLock", pressed });
  }

  #reportedCode(code: string): string {
    return this.#apple && this.commandIsControl && this.#out.program ? code.replace(/^Meta/, "Control") : code;
  }

  /** Whether the browser pastes at this key: by its letter, and by its place in layouts without Latin letters. */
  #isPaste({ code, key, ctrlKey, metaKey }: KeyboardEvent): boolean {
    const isV = /^[a-z]$/i.test(key) ? key.toLowerCase() === "v" : code === "KeyV";
    return isV && (this.#apple ? metaKey : ctrlKey || metaKey);
  }

  #release(code: string, at: number): void {
    const reported = this.#held.get(code);
    if (reported === undefined) return;
    this.#held.delete(code);
    this.#send(at, { device: "key", code: reported, pressed: false });
  }

  /** Holds all keys back, this one and those that follow, until the pasted text has arrived. */
  #delayKeys(): void {
    this.#delayed ??= [];
    clearTimeout(this.#delay);
    this.#delay = setTimeout(() => {
      const inputs = this.#delayed ?? [];
      this.#delayed = null;
      for (const input of inputs) this.#out.onDevice(performance.now(), input);
    }, PASTE_LEAD_MS);
  }

  #send(at: number, input: DeviceInput): void {
    if (this.#delayed) this.#delayed.push(input);
    else this.#out.onDevice(at, input);
  }

  #type(at: number, text: string): void {
    if (text) this.#send(at, { device: "text", text });
  }

  /** The browser keeps its own shortcuts as long as the pointer is not captured; the page's input fields keep their keys. */
  #takes(event: KeyboardEvent): boolean {
    const { target } = event;
    // The page keeps its own full screen, and the keys that choose from an open list.
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
    if (!this.locked) this.#releaseAll(performance.now());
    this.#point(performance.now());
  }

  #releaseAll(at: number): void {
    this.#held.clear();
    this.#buttons = 0;
    this.#send(at, { device: "release" });
  }
}

/** Whether the browser runs on macOS, iOS or iPadOS. */
export function isApple(): boolean {
  return /^(Mac|iPhone|iPad|iPod)/.test(navigator.platform);
}

/** Whether the target is one of the page's tools around the picture, rather than a notice or the landing page. */
export function isTool(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest(".bar, .show-bar, .hud, .access") !== null;
}

/** Whether the list is open, so that keys choose from it. Browsers that cannot tell might show it. */
function isOpen(select: HTMLSelectElement): boolean {
  return !CSS.supports("selector(:open)") || select.matches(":open");
}
