// Text without keys: what input methods, dead keys, screen keyboards and symbol pickers write into a field that nobody sees.

export interface TextOut {
  onText(at: number, text: string): void;
  /** A screen keyboard has keys that write nothing. */
  onTap(at: number, code: string): void;
}

/** Keys of screen keyboards, by what they do to a field. */
const TAPS: Record<string, string> = { insertLineBreak: "Enter", insertParagraph: "Enter", deleteContentBackward: "Backspace" };

export class TextField {
  readonly #field: HTMLTextAreaElement;
  readonly #listening = new AbortController();

  constructor(field: HTMLTextAreaElement, out: TextOut) {
    this.#field = field;
    const { signal } = this.#listening;
    field.addEventListener(
      "beforeinput",
      (event) => {
        const code = TAPS[event.inputType];
        if (code && !event.isComposing) out.onTap(event.timeStamp, code);
        // Pasted text is the clipboard's affair.
        if (code || event.inputType.startsWith("insertFrom")) event.preventDefault();
      },
      { signal },
    );
    const take = (event: Event): void => {
      const text = field.value;
      field.value = "";
      if (text) out.onText(event.timeStamp, text);
    };
    field.addEventListener("input", (event) => (event as InputEvent).isComposing || take(event), { signal });
    field.addEventListener("compositionend", take, { signal });
  }

  focus(): void {
    this.#field.focus({ preventScroll: true });
  }

  close(): void {
    this.#listening.abort();
  }
}
