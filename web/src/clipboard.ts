// The browser's clipboard, which the application has as far as the user lets it.

import { MAX_CLIPBOARD_BYTES } from "./generated/wire.ts";

/** The user lets the application read pasted text and write the clipboard: ?clipboard before the link's fragment. */
export function isClipboardShared(): boolean {
  return new URLSearchParams(location.search).has("clipboard");
}

export interface ClipboardOut {
  onPasted(text: string): void;
  onNotice(words: string): void;
}

/** Passes on text that the user pastes. What is too long is refused with words. */
export function listenToPastes(out: ClipboardOut, signal: AbortSignal): void {
  const onPaste = (event: ClipboardEvent): void => {
    const text = event.clipboardData?.getData("text/plain");
    if (!text) return;
    event.preventDefault();
    const bytes = new TextEncoder().encode(text).length;
    if (bytes > MAX_CLIPBOARD_BYTES) {
      const mebibytes = (size: number): string => `${(size / 2 ** 20).toFixed(1)} MiB`;
      const words = `Not pasted: the text has ${mebibytes(bytes)}, and at most ${mebibytes(MAX_CLIPBOARD_BYTES)} can be passed on. Copy less at once.`;
      console.warn(words);
      out.onNotice(words);
      return;
    }
    out.onPasted(text);
  };
  document.addEventListener("paste", onPaste, { signal });
}

/** Browsers want the page in front and a user who has done something; nothing else can be done about a refusal. */
export function writeClipboard(text: string): void {
  navigator.clipboard.writeText(text).catch((error: unknown) => console.warn("the clipboard was not written:", error));
}
