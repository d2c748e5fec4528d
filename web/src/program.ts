// A program's window on a display of its own: what the display reports to the page, and what the page asks of it (docs/programs.md).

import { Disposables } from "./disposables.ts";
import { Microphone, messageOf } from "./microphone.ts";
import { element } from "./page.ts";

/** A window to choose from. */
interface Choice {
  window: number;
  title: string;
  seen: boolean;
}

/** Which viewer has the controls. */
interface Controls {
  holder: "you" | "other" | null;
  /** The holder's name, if it has given one. */
  name?: string | null;
  /** This viewer has asked for them. */
  asked: boolean;
  /** Another viewer has asked for this viewer's. */
  wanted: boolean;
  viewers: number;
}

/** A report of the display. Absent fields have not changed. */
interface DisplayReport {
  program?: string;
  windows?: Choice[];
  controls?: Controls;
  /** The user's input has no effect, because another viewer has the controls. */
  refused?: boolean;
  /** The program may record the user's microphone. */
  microphone?: boolean;
  notice?: string;
  ended?: string;
}

/** The program learns a new size once it has not changed for this long, because programs redraw everything for each. Guess. */
const SIZE_SETTLE_MS = 250;

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
  /** Null unless the user offers it. */
  readonly #microphone: Microphone | null;
  readonly #disposables = new Disposables();
  #isProgram = false;
  #controls: Controls = { holder: null, asked: false, wanted: false, viewers: 1 };

  constructor(out: ProgramOut, offersMicrophone: boolean) {
    this.#out = out;
    this.#microphone = offersMicrophone ? this.#openMicrophone() : null;
    let settling: ReturnType<typeof setTimeout> | undefined;
    const observer = new ResizeObserver(() => {
      clearTimeout(settling);
      settling = setTimeout(() => this.#sendSize(), SIZE_SETTLE_MS);
    });
    observer.observe(this.#stage);
    this.#disposables.add(() => {
      observer.disconnect();
      clearTimeout(settling);
    });
    const { signal } = this.#disposables;
    const activate = (): void => out.send(JSON.stringify({ display: { activate: Number(this.#windows.value) } }));
    this.#windows.addEventListener("change", activate, { signal });
    const handOver = (): void => {
      const { holder, asked } = this.#controls;
      out.send(JSON.stringify({ display: holder === "you" || asked ? { release: null } : { take: null } }));
    };
    this.#handOver.addEventListener("click", handOver, { signal });
  }

  close(): void {
    this.#disposables.close();
    this.#microphone?.stop();
  }

  onMessage(data: Uint8Array): void {
    const report = parse(data);
    if (!report || this.#disposables.closed) return;
    const { program, windows, controls, refused, microphone, notice, ended } = report;
    if (program) {
      this.#isProgram = true;
      this.#out.onProgram(program);
      this.#sendSize();
    }
    if (windows) this.#showWindows(windows);
    if (controls) this.#onControls(controls);
    if (refused) this.#onRefused();
    if (microphone) void this.#startMicrophone();
    if (notice) this.#out.onNotice(notice);
    if (ended) this.#out.onEnded(ended);
  }

  #openMicrophone(): Microphone {
    return new Microphone({
      onPacket: (packet) => this.#out.sendPacket(messageOf(packet)),
      onEnded: (why) => this.#out.onNotice(`The program no longer hears you: ${why}.`),
    });
  }

  async #startMicrophone(): Promise<void> {
    if (!this.#microphone) return;
    try {
      if (await this.#microphone.start()) this.#out.onNotice("While you have the controls, the program can hear you.");
    } catch (error) {
      this.#out.onNotice(`The program cannot hear you: ${error instanceof Error ? error.message : String(error)}.`);
    }
  }

  /** A display without a fixed size takes the page's. */
  #sendSize(): void {
    const { clientWidth, clientHeight } = this.#stage;
    if (!this.#isProgram || clientWidth === 0 || clientHeight === 0) return;
    const side = (pixels: number): number => Math.min(pixels, 0xffff);
    this.#out.send(JSON.stringify({ display: { window: [side(clientWidth), side(clientHeight)] } }));
  }

  /** The controls concern a viewer only when there are several. */
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
    else if (holder === "other" && before.holder !== "other") this.#out.onNotice(`${this.#holder()} has the controls.`);
  }

  #onRefused(): void {
    const next = this.#controls.asked ? "You have asked for them." : "Click “Ask for controls” to use keyboard and mouse.";
    this.#out.onNotice(`${this.#holder()} has the controls, and your input has no effect. ${next}`);
  }

  #holder(): string {
    return this.#controls.name ?? "Another viewer";
  }

  /** The list of windows appears when there are several. */
  #showWindows(windows: Choice[]): void {
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

/** Returns the display's report, or null for messages of other applications. */
function parse(data: Uint8Array): DisplayReport | null {
  try {
    const message = JSON.parse(new TextDecoder().decode(data)) as { display?: DisplayReport } | null;
    return message?.display ?? null;
  } catch {
    return null;
  }
}
