// Pairs this device with the server by a code of six digits (docs/wire.md).

import initCore, { DevicePairing } from "./core/core.js";
import { refusalOf } from "./http.ts";

/** Time that the server has to answer each of the two requests. */
const ANSWER_LIMIT_MS = 5_000;

/** Returns the token on which this device and the server agree. `device` is the name that the owner sees. Throws an error with a sentence for the user. */
export async function pair(code: string, device: string): Promise<string> {
  await initCore({ module_or_path: new URL("core.wasm", document.baseURI) });
  const pairing = new DevicePairing(code, crypto.getRandomValues(new Uint8Array(32)));
  try {
    const { exchange, share } = await post("pair", { share: pairing.share(), device }) as { exchange: string; share: string };
    const confirmation = pairing.finish(share);
    if (confirmation === undefined) throw new Error("The server's answer is invalid. Reload the page and try again.");
    const answer = await post(`pair/${exchange}`, { confirmation }) as { confirmation: string };
    const token = pairing.token(answer.confirmation);
    // Whoever answered would take any code.
    if (token === undefined) throw new Error("This server does not know the code, although it says so. Do not use it.");
    return token;
  } finally {
    pairing.free();
  }
}

async function post(path: string, body: object): Promise<unknown> {
  const response = await fetch(new URL(path, document.baseURI), {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    cache: "no-store",
    signal: AbortSignal.timeout(ANSWER_LIMIT_MS),
  }).catch((error: unknown) => {
    throw new Error("The server does not answer. Check that it runs, and try again.", { cause: error });
  });
  if (response.ok) return response.json();
  throw new Error(await refusalOf(response));
}
