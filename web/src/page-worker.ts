// The window's end of the worker that plays the stream.

import type { FromWorker, ToWorker } from "./messages.ts";
import { workerError } from "./worker-error.ts";

/** What the window may ask the worker. */
export type WorkerQuestion = "summary" | "events";
export type WorkerAnswer = Extract<FromWorker, { type: "answer" }>;

/** The worker calls these. */
export interface PageWorkerOut {
  onMessage: (message: Exclude<FromWorker, WorkerAnswer>) => void;
  /** `words` say what has happened and what the user can do. */
  onFailure: (words: string) => void;
}

export class PageWorker {
  readonly #worker = new Worker(new URL("worker.js", document.baseURI), { type: "module" });
  /** The worker has sent something, so its script runs. */
  #started = false;
  readonly #questions = new Map<number, (text: string) => void>();
  #questionCount = 0;

  constructor({ onMessage, onFailure }: PageWorkerOut) {
    this.#worker.onmessage = ({ data }: MessageEvent<FromWorker>) => {
      this.#started = true;
      if (data.type === "answer") this.#onAnswer(data);
      else onMessage(data);
    };
    this.#worker.onerror = (event) => {
      const what = this.#started ? "Its worker has failed" : "Its worker does not start";
      onFailure(`${what}: ${workerError(event)}. Reload the page.`);
    };
  }

  post(message: ToWorker, transfer: Transferable[] = []): void {
    this.#worker.postMessage(message, transfer);
  }

  ask(type: WorkerQuestion): Promise<string> {
    const id = (this.#questionCount += 1);
    return new Promise((resolve) => {
      this.#questions.set(id, resolve);
      this.post({ type, id });
    });
  }

  #onAnswer({ id, text }: WorkerAnswer): void {
    this.#questions.get(id)?.(text);
    this.#questions.delete(id);
  }
}
