// A program's window on a display of its own: what its display tells the page, and what the page asks of it (docs/programs.md).

import { element } from "./page.ts";

/** A window to choose from. */
interface Choice {
  window: number;
  title: string;
  seen: boolean;
}

/** What the display tells, each as far as it has changed. */
interface Told {
  program?: string;
  windows?: Choice[];
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

  constructor(out: ProgramOut) {
    this.#out = out;
    this.#windows.addEventListener("change", () => {
      out.send(JSON.stringify({ display: { activate: Number(this.#windows.value) } }));
      // The next key is the program's.
      this.#windows.blur();
    });
  }

  onMessage(data: Uint8Array): void {
    const told = parse(data);
    if (!told) return;
    if (told.program) this.#out.onProgram(told.program);
    if (told.windows) this.#choose(told.windows);
    if (told.notice) this.#out.onNotice(told.notice);
    if (told.ended) this.#out.onEnded(told.ended);
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
