// Control messages: the core writes and reads them as a stream has them, behind their length; other transports carry bare texts.

/** Bytes in front of each message on a control stream, which transports of whole messages do without. */
const LENGTH_BYTES = 4;

/** The text of one whole message. */
export function textOf(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes.subarray(LENGTH_BYTES));
}

/** The bytes that a control stream has for this message. */
export function withLength(text: string): Uint8Array {
  const json = new TextEncoder().encode(text);
  const bytes = new Uint8Array(LENGTH_BYTES + json.length);
  new DataView(bytes.buffer).setUint32(0, json.length);
  bytes.set(json, LENGTH_BYTES);
  return bytes;
}
