// A program's window on a display of its own: what its display tells the page, and what the page asks of it (docs/programs.md).

import { element } from "./page.ts";

/** A window to choose from. */
interface Choice {
  window: number;
  title: string;
  seen: boolean;
}

/** Who of several viewers has the controls. */
interface Controls {
  holder: "you" | "other" | null;
  /** This viewer would like them. */
  asked: boolean;
  /** Another viewer would like this viewer's. */
  wanted: boolean;
  viewers: number;
}

/** What the display tells, each as far as it has changed. */
interface Told {
  program?: string;
  windows?: Choice[];
  controls?: Controls;
  notice?: string;
  ended?: string;
}

export interface ProgramOut {
  /** The pictures are a program's: devices belong to it. */
  onProgram(name: string): void;
  /** Something to tell the user. */
  onNotice(words: string): void;
  /** The program has ended, and the session with it. */
  onEnded(words: string): void;
  send(message: string): void;
}

export class Program {
  readonly #out: ProgramOut;
  readonly #windows = element("windows", HTMLSelectElement);
  readonly #handOver = element("hand-over", HTMLButtonElement);
  #controls: Controls = { holder: null, asked: false, wanted: false, viewers: 1 };

  constructor(out: ProgramOut) {
    this.#out = out;
    this.#windows.addEventListener("change", () => {
      out.send(JSON.stringify({ display: { activate: Number(this.#windows.value) } }));
      // The next key is the program's.
      this.#windows.blur();
    });
    this.#handOver.addEventListener("click", () => {
      const { holder, asked } = this.#controls;
      out.send(JSON.stringify({ display: holder === "you" || asked ? { release: null } : { take: null } }));
      this.#handOver.blur();
    });
  }

  onMessage(data: Uint8Array): void {
    const told = parse(data);
    if (!told) return;
    if (told.program) this.#out.onProgram(told.program);
    if (told.windows) this.#choose(told.windows);
    if (told.controls) this.#onControls(told.controls);
    if (told.notice) this.#out.onNotice(told.notice);
    if (told.ended) this.#out.onEnded(told.ended);
  }

  /** Who watches alone need not know. */
  #onControls(controls: Controls): void {
    const before = this.#controls;
    this.#controls = controls;
    const { holder, asked, wanted, viewers } = controls;
    this.#handOver.hidden = viewers < 2;
    this.#handOver.dataset.holder = holder ?? "nobody";
    this.#handOver.classList.toggle("accent", wanted);
    this.#handOver.textContent =
      holder === "you" ? "Hand over controls" : holder === null ? "Take controls" : asked ? "Controls asked for" : "Ask for controls";
    this.#handOver.title =
      holder === "you"
        ? "Let another viewer use keyboard and mouse"
        : holder === null
          ? "Nobody uses keyboard and mouse"
          : asked
            ? "Click to do without them"
            : "Another viewer uses keyboard and mouse";
    if (viewers < 2) return;
    if (wanted && !before.wanted) this.#out.onNotice("Another viewer asks for the controls.");
    else if (holder === "you" && before.holder === "other") this.#out.onNotice("You have the controls.");
    else if (holder === "other" && before.holder !== "other") this.#out.onNotice("Another viewer has the controls.");
  }

  /** A choice among one is none. */
  #choose(windows: Choice[]): void {
    this.#windows.hidden = windows.length < 2;
    this.#windows.replaceChildren(
      ...windows.map(({ window, title, seen }) => {
        const option = document.createElement("option");
        option.value = String(window);
        option.textContent = title || "untitled";
        option.selected = seen;
        return option;
      }),
    );
  }
}

/** Nothing for messages of other applications. */
function parse(data: Uint8Array): Told | null {
  try {
    const message = JSON.parse(new TextDecoder().decode(data)) as { display?: Told } | null;
    return message?.display ?? null;
  } catch {
    return null;
  }
}
