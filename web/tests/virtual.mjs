// Virtual time and a page's surroundings for tests of single modules without a browser. Each test file runs in a process of its own, so
// that what is replaced here concerns no other file.

import { setMaxListeners } from "node:events";

// Modules listen to many events with one signal.
setMaxListeners(0);

/** Replaces the clock and all timers of this process by ones that move on `advance` alone. */
export class VirtualTime {
  now = 0;
  /** What waits, with when it is due. */
  timers = new Map();
  #number = 0;
  #real = globalThis.setImmediate;

  constructor() {
    Object.defineProperty(globalThis, "performance", { configurable: true, value: { now: () => this.now, timeOrigin: 0 } });
    globalThis.setTimeout = (act, delay = 0) => this.#add(act, delay, null);
    globalThis.setInterval = (act, period) => this.#add(act, period, period);
    globalThis.clearTimeout = globalThis.clearInterval = (number) => void this.timers.delete(Number(number));
    AbortSignal.timeout = (delay) => {
      const controller = new AbortController();
      this.#add(() => controller.abort(new DOMException("The operation timed out.", "TimeoutError")), delay, null);
      return controller.signal;
    };
  }

  #add(act, delay, period) {
    this.#number += 1;
    this.timers.set(this.#number, { act, at: this.now + delay, period });
    return this.#number;
  }

  /** Lets everything happen that is due within so many milliseconds. */
  async advance(milliseconds) {
    const end = this.now + milliseconds;
    await this.settle();
    for (;;) {
      const [number, timer] = [...this.timers].sort(([, one], [, other]) => one.at - other.at)[0] ?? [];
      if (!timer || timer.at > end) break;
      this.now = Math.max(this.now, timer.at);
      if (timer.period === null) this.timers.delete(number);
      else timer.at += timer.period;
      timer.act();
      await this.settle();
    }
    this.now = end;
  }

  /** Promises and messages of ports are delivered. */
  async settle() {
    for (let turn = 0; turn < 4; turn += 1) await new Promise((resolve) => this.#real(resolve));
  }
}

/** An element of a page, as far as modules use one. */
export class FakeElement extends EventTarget {
  hidden = false;
  textContent = "";
  title = "";
  value = "";
  dataset = {};
  classList = { toggle: () => undefined };
  style = { setProperty: () => undefined };
  children = [];
  attributes = new Map();
  clientWidth = 640;
  clientHeight = 360;

  getAttribute(name) {
    return this.attributes.get(name) ?? null;
  }
  setAttribute(name, value) {
    this.attributes.set(name, value);
  }
  toggleAttribute() {}
  replaceChildren(...children) {
    this.children = children;
  }
  append(...children) {
    this.children.push(...children);
  }
  querySelector() {
    return null;
  }
  focus() {
    this.focused = (this.focused ?? 0) + 1;
  }
  blur() {}
  closest() {
    return null;
  }
  getBoundingClientRect() {
    return { left: 0, top: 0, width: this.clientWidth, height: this.clientHeight };
  }
}

/** Gives this process a window and a document whose elements come into being when they are asked for. */
export function fakePage(navigator = {}) {
  const elements = new Map();
  const window = new EventTarget();
  const document = Object.assign(new EventTarget(), {
    baseURI: "https://server.example/",
    hidden: false,
    pointerLockElement: null,
    body: new FakeElement(),
    createElement: () => new FakeElement(),
    getElementById: (id) => {
      if (!elements.has(id)) elements.set(id, new FakeElement());
      return elements.get(id);
    },
  });
  const names = ["HTMLElement", "HTMLButtonElement", "HTMLSelectElement", "HTMLInputElement", "HTMLDetailsElement", "HTMLCanvasElement", "HTMLTextAreaElement", "Element"];
  for (const name of names) globalThis[name] = FakeElement;
  Object.assign(globalThis, { window, document, self: globalThis, matchMedia: () => ({ matches: true }) });
  Object.defineProperty(globalThis, "navigator", { configurable: true, value: { platform: "Linux x86_64", onLine: true, ...navigator } });
  return { window, document, element: (id) => document.getElementById(id) };
}

/** What an `await` in progress may still reject with, so that a test can look at it later. */
export const outcome = (promise) => promise.then((value) => ({ value }), (error) => ({ error }));

/** An event with these fields. */
export function event(name, fields = {}) {
  const made = new Event(name, { cancelable: true, bubbles: true });
  for (const [key, value] of Object.entries(fields)) Object.defineProperty(made, key, { value });
  return made;
}
