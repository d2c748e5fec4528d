// Text without keys: what input methods, dead keys, screen keyboards and symbol pickers write into a field that nobody sees.

export interface TextOut {
  onText(at: number, text: string): void;
  /** A key of a screen keyboard that writes nothing. */
  onTap(at: number, code: string): void;
}

/** Codes of the keys that write nothing, by the input type that a screen keyboard reports for them. */
const TAPS: Record<string, string> = { insertLineBreak: "Enter", insertParagraph: "Enter", deleteContentBackward: "Backspace" };
/** Input types that bring text from the clipboard or from a drag, which the clipboard's channel carries. */
const TRANSFERS = new Set(["insertFromPaste", "insertFromPasteAsQuotation", "insertFromDrop", "insertFromYank"]);

export class TextField {
  readonly #field: HTMLTextAreaElement;
  readonly #out: TextOut;
  readonly #listening = new AbortController();
  /** WebKit does not set `isComposing` on input events, so the composition's own events count. */
  #composing = false;

  constructor(field: HTMLTextAreaElement, out: TextOut) {
    this.#field = field;
    this.#out = out;
    const { signal } = this.#listening;
    field.addEventListener("beforeinput", (event) => this.#onBeforeInput(event), { signal });
    field.addEventListener("input", (event) => this.#onInput(event as InputEvent), { signal });
    field.addEventListener("compositionstart", () => (this.#composing = true), { signal });
    field.addEventListener(
      "compositionend",
      (event) => {
        this.#composing = false;
        this.#take(event.timeStamp);
      },
      { signal },
    );
  }

  focus(): void {
    this.#field.focus({ preventScroll: true });
  }

  close(): void {
    this.#listening.abort();
  }

  /** Input within a composition edits the composition. WebKit commits it with `insertFromComposition`, and loses it when that is cancelled. */
  #onBeforeInput(event: InputEvent): void {
    if (this.#composing || event.isComposing) return;
    const code = TAPS[event.inputType];
    if (code) this.#out.onTap(event.timeStamp, code);
    if (code || TRANSFERS.has(event.inputType)) event.preventDefault();
  }

  #onInput(event: InputEvent): void {
    if (!this.#composing && !event.isComposing) this.#take(event.timeStamp);
  }

  #take(at: number): void {
    const text = this.#field.value;
    this.#field.value = "";
    if (text) this.#out.onText(at, text);
  }
}
