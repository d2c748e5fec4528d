// Control messages: the core writes and reads them in stream form, prefixed with their length; other transports carry bare texts.

/** Bytes before each message on a control stream, which message-based transports omit. */
const LENGTH_BYTES = 4;
/** The first byte of a room's message with somebody's voice (docs/wire.md). */
export const VOICE = 0x18;

/** The text of one complete message. */
export function textOf(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes.subarray(LENGTH_BYTES));
}

/** The bytes of this message, a text or a room's, on a stream. */
export function withLength(message: string | Uint8Array): Uint8Array {
  const content = typeof message === "string" ? new TextEncoder().encode(message) : message;
  const bytes = new Uint8Array(LENGTH_BYTES + content.length);
  new DataView(bytes.buffer).setUint32(0, content.length);
  bytes.set(content, LENGTH_BYTES);
  return bytes;
}
