// Touch: a stick wherever the left thumb lands, looking with the right one, a tap pushes, a long press holds.

import type { Wish } from "./camera.ts";
import type { InputOut } from "./devices.ts";
import { clamp } from "../math.ts";

/** Travel of the stick from rest to full speed, in CSS pixels. */
const STICK_REACH = 56;
/** Radians per pixel: a swipe across half a phone turns by a third of a circle. */
const SWIPE_RADIANS = Math.PI / 300;
/** A finger that moved less than this is tapping or pressing. */
const STILL_PIXELS = 12;
const TAP_MS = 260;
const PRESS_MS = 380;

interface Finger {
  role: "stick" | "look";
  startX: number;
  startY: number;
  x: number;
  y: number;
  startedAt: number;
  moved: boolean;
  pressing: ReturnType<typeof setTimeout> | undefined;
}

export class Touch {
  readonly #out: InputOut;
  readonly #stick: HTMLElement;
  readonly #fingers = new Map<number, Finger>();
  readonly #listening = new AbortController();
  #holding = false;

  constructor(stage: HTMLElement, stick: HTMLElement, out: InputOut) {
    this.#out = out;
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
    on("pointerup", (event) => this.#onUp(event, true));
    on("pointercancel", (event) => this.#onUp(event, false));
  }

  addTo(wish: Wish): void {
    for (const finger of this.#fingers.values()) {
      if (finger.role !== "stick") continue;
      wish.right += clamp((finger.x - finger.startX) / STICK_REACH, -1, 1);
      wish.forward -= clamp((finger.y - finger.startY) / STICK_REACH, -1, 1);
    }
  }

  close(): void {
    this.#listening.abort();
    for (const finger of this.#fingers.values()) clearTimeout(finger.pressing);
    this.#fingers.clear();
  }

  #onDown(event: PointerEvent, stage: HTMLElement): void {
    stage.setPointerCapture(event.pointerId);
    const walking = [...this.#fingers.values()].some((finger) => finger.role === "stick");
    const role = event.clientX < window.innerWidth / 2 && !walking ? "stick" : "look";
    const finger: Finger = {
      role,
      startX: event.clientX,
      startY: event.clientY,
      x: event.clientX,
      y: event.clientY,
      startedAt: event.timeStamp,
      moved: false,
      pressing: undefined,
    };
    if (role === "look") finger.pressing = setTimeout(() => this.#onPress(finger), PRESS_MS);
    this.#fingers.set(event.pointerId, finger);
    this.#out.onActivity();
    this.#drawStick();
  }

  #onMove(event: PointerEvent): void {
    const finger = this.#fingers.get(event.pointerId);
    if (!finger) return;
    const [dx, dy] = [event.clientX - finger.x, event.clientY - finger.y];
    finger.x = event.clientX;
    finger.y = event.clientY;
    if (Math.hypot(finger.x - finger.startX, finger.y - finger.startY) > STILL_PIXELS) {
      finger.moved = true;
      clearTimeout(finger.pressing);
    }
    // The picture follows the finger, so the view turns against it.
    if (finger.role === "look") this.#out.onLook(event.timeStamp, dx * SWIPE_RADIANS, dy * SWIPE_RADIANS);
    else this.#drawStick();
  }

  #onUp(event: PointerEvent, lifted: boolean): void {
    const finger = this.#fingers.get(event.pointerId);
    if (!finger) return;
    this.#fingers.delete(event.pointerId);
    clearTimeout(finger.pressing);
    this.#drawStick();
    if (finger.role === "look" && this.#holding) {
      this.#holding = false;
      this.#out.onAction(event.timeStamp, "release");
    } else if (lifted && !finger.moved && event.timeStamp - finger.startedAt < TAP_MS) {
      this.#out.onAction(event.timeStamp, "push");
    }
  }

  #onPress(finger: Finger): void {
    if (finger.moved) return;
    this.#holding = true;
    navigator.vibrate?.(12);
    this.#out.onAction(performance.now(), "grab");
  }

  #drawStick(): void {
    const finger = [...this.#fingers.values()].find((candidate) => candidate.role === "stick");
    this.#stick.hidden = !finger;
    if (!finger) return;
    const [dx, dy] = [finger.x - finger.startX, finger.y - finger.startY];
    const length = Math.max(1, Math.hypot(dx, dy) / STICK_REACH);
    this.#stick.style.left = `${finger.startX}px`;
    this.#stick.style.top = `${finger.startY}px`;
    this.#stick.style.setProperty("--dx", `${dx / length}px`);
    this.#stick.style.setProperty("--dy", `${dy / length}px`);
  }
}
