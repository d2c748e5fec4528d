// What must be undone when a part of the page ends.

/** Collects callbacks that undo what has been started. One that is added after `close` runs at once: a start may still be in progress then. */
export class Disposables {
  #closed = false;
  readonly #disposables: (() => void)[] = [];
  readonly #listening = new AbortController();

  get closed(): boolean {
    return this.#closed;
  }

  /** For `addEventListener`: aborted by `close`. */
  get signal(): AbortSignal {
    return this.#listening.signal;
  }

  add(end: () => void): void {
    if (this.#closed) end();
    else this.#disposables.push(end);
  }

  /** Calls `act` periodically until the end. */
  every(milliseconds: number, act: () => void): void {
    const timer = setInterval(act, milliseconds);
    this.add(() => clearInterval(timer));
  }

  /** Ends everything, the newest first. Further calls do nothing. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#listening.abort();
    for (const end of this.#disposables.splice(0).reverse()) end();
  }
}
