// Control messages: the core writes and reads them in stream form, prefixed with their length; other transports carry bare texts.

/** Bytes before each message on a control stream, which message-based transports omit. */
const LENGTH_BYTES = 4;

/** The text of one complete message. */
export function textOf(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes.subarray(LENGTH_BYTES));
}

/** The bytes of this message on a control stream. */
export function withLength(text: string): Uint8Array {
  const json = new TextEncoder().encode(text);
  const bytes = new Uint8Array(LENGTH_BYTES + json.length);
  new DataView(bytes.buffer).setUint32(0, json.length);
  bytes.set(json, LENGTH_BYTES);
  return bytes;
}
