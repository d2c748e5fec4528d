// What a browser reports of a worker that fails.

/** Describes a worker's error event. A script that does not load gives an event without a message. */
export function workerError({ message, filename, lineno }: Partial<ErrorEvent>): string {
  if (!message) return "the browser gives no reason";
  return filename ? `${message} (${filename.split("/").at(-1)}:${lineno ?? 0})` : message;
}
