// Touch: all fingers are reported to the application; a stick wherever the left thumb lands, looking with the right one.

import type { Walk } from "./camera.ts";
import { MAX_TOUCHES } from "../generated/wire.ts";
import { type InputOut, fractions } from "./devices.ts";
import { clamp } from "../math.ts";

/** Travel of the stick from rest to full speed, in CSS pixels. Guess: a thumb's comfortable reach. */
const STICK_TRAVEL_PIXELS = 56;
/** Radians per pixel of a swipe: half a phone's width turns by a third of a circle. */
const SWIPE_RADIANS = Math.PI / 300;

interface Finger {
  role: "stick" | "look";
  startX: number;
  startY: number;
  x: number;
  y: number;
  /** The finger's id in this session. */
  id: number;
  /** 0 to 1. */
  pressure: number;
}

export class Touch {
  readonly #out: InputOut;
  readonly #stage: HTMLElement;
  readonly #stick: HTMLElement;
  readonly #fingers = new Map<number, Finger>();
  readonly #listening = new AbortController();
  /** Number of fingers so far, which provides their ids. */
  #begun = 0;

  constructor(stage: HTMLElement, stick: HTMLElement, out: InputOut) {
    this.#out = out;
    this.#stage = stage;
    this.#stick = stick;
    const options = { signal: this.#listening.signal, passive: false };
    const on = (name: "pointerdown" | "pointermove" | "pointerup" | "pointercancel", handle: (event: PointerEvent) => void) =>
      stage.addEventListener(
        name,
        (event) => {
          if (event.pointerType !== "touch") return;
          event.preventDefault();
          handle(event);
        },
        options,
      );
    on("pointerdown", (event) => this.#onDown(event, stage));
    on("pointermove", (event) => this.#onMove(event));
    on("pointerup", (event) => this.#onUp(event));
    on("pointercancel", (event) => this.#onUp(event));
  }

  addTo(walk: Walk): void {
    for (const finger of this.#fingers.values()) {
      if (finger.role !== "stick") continue;
      walk.right += clamp((finger.x - finger.startX) / STICK_TRAVEL_PIXELS, -1, 1);
      walk.forward -= clamp((finger.y - finger.startY) / STICK_TRAVEL_PIXELS, -1, 1);
    }
  }

  close(): void {
    this.#listening.abort();
    this.#fingers.clear();
  }

  #onDown(event: PointerEvent, stage: HTMLElement): void {
    stage.setPointerCapture(event.pointerId);
    const walking = [...this.#fingers.values()].some((finger) => finger.role === "stick");
    const role = event.clientX < window.innerWidth / 2 && !walking && !this.#out.program ? "stick" : "look";
    const finger: Finger = {
      role,
      startX: event.clientX,
      startY: event.clientY,
      x: event.clientX,
      y: event.clientY,
      id: (this.#begun += 1),
      pressure: event.pressure,
    };
    if (this.#fingers.size === MAX_TOUCHES) return;
    this.#fingers.set(event.pointerId, finger);
    this.#report(event.timeStamp);
    this.#drawStick();
  }

  #onMove(event: PointerEvent): void {
    const finger = this.#fingers.get(event.pointerId);
    if (!finger) return;
    const [dx, dy] = [event.clientX - finger.x, event.clientY - finger.y];
    finger.x = event.clientX;
    finger.y = event.clientY;
    finger.pressure = event.pressure;
    this.#report(event.timeStamp);
    // The picture follows the finger, so the view turns against it.
    if (this.#out.program) return;
    if (finger.role === "look") this.#out.onLook(event.timeStamp, dx * SWIPE_RADIANS, dy * SWIPE_RADIANS);
    else this.#drawStick();
  }

  #onUp(event: PointerEvent): void {
    if (!this.#fingers.delete(event.pointerId)) return;
    this.#report(event.timeStamp);
    this.#drawStick();
  }

  #report(at: number): void {
    const values = [...this.#fingers.values()].flatMap(({ id, x, y, pressure }) => {
      return [id, ...fractions(this.#stage, this.#out, { clientX: x, clientY: y }), pressure];
    });
    this.#out.onDevice(at, { device: "touches", values });
  }

  #drawStick(): void {
    const finger = [...this.#fingers.values()].find((candidate) => candidate.role === "stick");
    this.#stick.hidden = !finger;
    if (!finger) return;
    const [dx, dy] = [finger.x - finger.startX, finger.y - finger.startY];
    const length = Math.max(1, Math.hypot(dx, dy) / STICK_TRAVEL_PIXELS);
    this.#stick.style.left = `${finger.startX}px`;
    this.#stick.style.top = `${finger.startY}px`;
    this.#stick.style.setProperty("--dx", `${dx / length}px`);
    this.#stick.style.setProperty("--dy", `${dy / length}px`);
  }
}
