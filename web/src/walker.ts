// The user of a screen: combines mouse, keys, touch and gamepad into one camera and reports its pose.

import { Camera, type Walk } from "./input/camera.ts";
import type { DeviceInput, InputOut } from "./input/devices.ts";
import { GamepadInput } from "./input/gamepad.ts";
import { MouseKeyboard, isTool } from "./input/mouse-keyboard.ts";
import { TextField } from "./input/text-field.ts";
import { Touch } from "./input/touch.ts";
import { type Pose, symmetricFov } from "./math.ts";
import { element } from "./page.ts";
import { presenceNumbers } from "./presence.ts";

/** Minimum interval between poses: no server renders faster, and a gaming mouse reports 1,000 times a second. */
const MIN_POSE_INTERVAL_MS = 1000 / 240;
/** Maximum interval between poses, also for a user who stands still. */
const MAX_POSE_INTERVAL_MS = 1000 / 30;
/** Interval of poses for a program, which does not use them. */
const PROGRAM_POSE_INTERVAL_MS = 500;
/** Vertical field of view in radians. Guess: a screen at arm's length covers less, but then one bumps into things. */
const VERTICAL_FOV = (65 / 180) * Math.PI;

export interface WalkerOut {
  onPresence(at: number, values: Float32Array<ArrayBuffer>): void;
  onDevice(at: number, input: DeviceInput): void;
  onToggleHud(): void;
  onToggleMute(): void;
  onToggleTalk(): void;
}

export class Walker {
  readonly #out: WalkerOut;
  readonly #camera = new Camera();
  readonly #mouse: MouseKeyboard;
  readonly #touch: Touch;
  readonly #gamepad: GamepadInput;
  readonly #stage: HTMLElement;
  readonly #listening = new AbortController();
  /** Takes typed text when the devices belong to a program. */
  #field: TextField | null = null;
  #aspect = 16 / 9;
  #sentAt = Number.NEGATIVE_INFINITY;
  /** When the newest unreported change happened. */
  #unsentAt: number | null = null;
  #stepAt = performance.now();
  #frame = 0;
  #paused = false;

  constructor(stage: HTMLElement, out: WalkerOut) {
    this.#out = out;
    this.#stage = stage;
    const walker = this;
    const input: InputOut = {
      get aspect() {
        return walker.#aspect;
      },
      get program() {
        return walker.#field !== null;
      },
      focus: () => this.focus(),
      onLook: (at, left, up) => {
        this.#camera.turn(left, up);
        this.#onChange(at);
      },
      onDevice: (at, input) => {
        if (!this.#paused) out.onDevice(at, input);
      },
      onToggleHud: () => out.onToggleHud(),
      onToggleMute: () => out.onToggleMute(),
      onToggleTalk: () => out.onToggleTalk(),
    };
    this.#mouse = new MouseKeyboard(stage, input);
    this.#touch = new Touch(stage, element("stick"), input);
    this.#gamepad = new GamepadInput(input);
    this.#frame = requestAnimationFrame((now) => this.#step(now));
  }

  /** Width of the picture by its height. */
  set aspect(aspect: number) {
    this.#aspect = aspect;
    this.#onChange(performance.now());
  }

  /** While a headset is on, the screen's user stands still and sends nothing. */
  set paused(paused: boolean) {
    this.#paused = paused;
  }

  /** Whether the application wants the pointer's movement, for which a click captures it. */
  set captures(captures: boolean) {
    this.#mouse.captures = captures;
    if (!captures) this.#mouse.unlock();
  }

  /** Whether programs receive Cmd as Control, on Apple's systems. */
  set commandIsControl(is: boolean) {
    this.#mouse.commandIsControl = is;
  }

  /** From now on the devices belong to a program; with `pastes` so does the user's clipboard. */
  giveToProgram(field: HTMLTextAreaElement, pastes: boolean): void {
    this.#mouse.pastes = pastes;
    if (this.#field) return;
    this.#field = new TextField(field, {
      onText: (at, text) => this.#out.onDevice(at, { device: "text", text }),
      onTap: (at, code) => {
        for (const pressed of [true, false]) this.#out.onDevice(at, { device: "key", code, pressed });
      },
    });
    const { signal } = this.#listening;
    document.addEventListener("click", (event) => !(event.target instanceof HTMLSelectElement) && this.#leaveTool(event), { signal });
    document.addEventListener("change", (event) => this.#leaveTool(event), { signal });
  }

  /** Returns the focus to the program after a tool was used, because an input method writes into what has the focus. With a finger that
   *  would open the screen keyboard. */
  #leaveTool({ target }: Event): void {
    if (isTool(target) && matchMedia("(pointer: fine)").matches) this.focus();
  }

  /** The next key is for the picture. */
  focus(): void {
    if (this.#field) this.#field.focus();
    else this.#stage.focus({ preventScroll: true });
  }

  lockPointer(): void {
    this.#mouse.lock();
  }

  place(position: readonly [number, number, number], yaw: number, pitch: number): void {
    this.#camera.place(position, yaw, pitch);
    this.#onChange(performance.now());
  }

  /** Sends the current pose: a new worker has none. */
  sendNow(): void {
    this.#send(performance.now());
  }

  close(): void {
    cancelAnimationFrame(this.#frame);
    this.#listening.abort();
    this.#mouse.close();
    this.#touch.close();
    this.#field?.close();
  }

  #step(now: number): void {
    this.#frame = requestAnimationFrame((next) => this.#step(next));
    const seconds = (now - this.#stepAt) / 1000;
    this.#stepAt = now;
    if (this.#paused) return;
    const at = performance.now();
    const walk: Walk = { right: 0, up: 0, forward: 0, run: false };
    this.#mouse.addTo(walk);
    this.#touch.addTo(walk);
    this.#gamepad.poll(at, seconds, walk);
    if (!this.#field && this.#camera.walk(walk, seconds)) this.#unsentAt = at;
    const gap = this.#field ? PROGRAM_POSE_INTERVAL_MS : MAX_POSE_INTERVAL_MS;
    if (this.#unsentAt !== null || at - this.#sentAt >= gap) this.#send(this.#unsentAt ?? at);
  }

  #onChange(at: number): void {
    this.#unsentAt = at;
    if (performance.now() - this.#sentAt >= MIN_POSE_INTERVAL_MS) this.#send(at);
  }

  #send(at: number): void {
    if (this.#paused) return;
    this.#sentAt = performance.now();
    this.#unsentAt = null;
    this.#out.onPresence(at, presence(this.#camera.pose(), this.#aspect));
  }
}

/** Returns the presence of a screen's user: one view and no controllers. */
function presence(head: Pose, aspect: number): Float32Array<ArrayBuffer> {
  return presenceNumbers({ head, views: [{ ...head, fov: symmetricFov(VERTICAL_FOV, aspect) }], gaze: null, controllers: [] });
}
