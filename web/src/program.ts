// A program's window on a display of its own: what its display tells the page, and what the page asks of it (docs/programs.md).

import { Microphone, messageOf } from "./microphone.ts";
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
  /** The program may record the user's microphone. */
  microphone?: boolean;
  notice?: string;
  ended?: string;
}

/** A window that is being dragged larger changes its size with each frame, and a program draws all of itself anew each time. Guess. */
const SETTLED_MS = 250;

export interface ProgramOut {
  /** The pictures are a program's: devices belong to it. */
  onProgram(name: string): void;
  /** Something to tell the user. */
  onNotice(words: string): void;
  /** The program has ended, and the session with it. */
  onEnded(words: string): void;
  send(message: string): void;
  /** A packet of the microphone. */
  sendPacket(packet: Uint8Array): void;
}

export class Program {
  readonly #out: ProgramOut;
  readonly #stage = element("stage");
  readonly #windows = element("windows", HTMLSelectElement);
  readonly #handOver = element("hand-over", HTMLButtonElement);
  /** None unless the user offers it. */
  readonly #microphone: Microphone | null;
  #isProgram = false;
  #controls: Controls = { holder: null, asked: false, wanted: false, viewers: 1 };

  constructor(out: ProgramOut, offersMicrophone: boolean) {
    this.#out = out;
    this.#microphone = offersMicrophone ? new Microphone((packet) => out.sendPacket(messageOf(packet))) : null;
    let settled = 0;
    new ResizeObserver(() => {
      clearTimeout(settled);
      settled = setTimeout(() => this.#tellSize(), SETTLED_MS);
    }).observe(this.#stage);
    this.#windows.addEventListener("change", () => {
      out.send(JSON.stringify({ display: { activate: Number(this.#windows.value) } }));
    });
    this.#handOver.addEventListener("click", () => {
      const { holder, asked } = this.#controls;
      out.send(JSON.stringify({ display: holder === "you" || asked ? { release: null } : { take: null } }));
    });
  }

  onMessage(data: Uint8Array): void {
    const told = parse(data);
    if (!told) return;
    if (told.program) {
      this.#isProgram = true;
      this.#out.onProgram(told.program);
      this.#tellSize();
    }
    if (told.windows) this.#choose(told.windows);
    if (told.controls) this.#onControls(told.controls);
    if (told.microphone) void this.#startMicrophone();
    if (told.notice) this.#out.onNotice(told.notice);
    if (told.ended) this.#out.onEnded(told.ended);
  }

  async #startMicrophone(): Promise<void> {
    if (!this.#microphone) return;
    try {
      await this.#microphone.start();
      this.#out.onNotice("While you have the controls, the program can hear you.");
    } catch (error) {
      this.#out.onNotice(`The program cannot hear you: ${error instanceof Error ? error.message : String(error)}.`);
    }
  }

  /** A display whose size is not fixed follows it. */
  #tellSize(): void {
    const { clientWidth, clientHeight } = this.#stage;
    if (!this.#isProgram || clientWidth === 0 || clientHeight === 0) return;
    const side = (pixels: number): number => Math.min(pixels, 0xffff);
    this.#out.send(JSON.stringify({ display: { window: [side(clientWidth), side(clientHeight)] } }));
  }

  /** Who watches alone need not know. */
  #onControls(controls: Controls): void {
    const before = this.#controls;
    this.#controls = controls;
    const { holder, asked, wanted, viewers } = controls;
    if (this.#microphone) this.#microphone.live = holder === "you";
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
