// Which transport got through to this site, so that the next visit begins with it. Browsers keep such data for each site by itself.

import { TRANSPORTS, type TransportName } from "./generated/core.ts";
import { store, stored } from "./storage.ts";

/** How long a transport is remembered that is not the best. Guess: reloads within a visit are quick, and a computer that was carried to another
 *  network soon gets a better one. */
export const REMEMBERED_MS = 15 * 60_000;
/** Key of the transport in the site's storage. */
const STORAGE_KEY = "nearlight.transport";

/** A transport that got through where better ones did not. */
export interface RememberedTransport {
  name: TransportName;
  /** For how much longer it is the first choice. */
  forMs: number;
}

/** Returns what the site's last session was opened with, or null if the best transport is to be tried first. */
export function rememberedTransport(): RememberedTransport | null {
  try {
    const { name, until } = JSON.parse(stored(STORAGE_KEY) ?? "null") as { name: unknown; until: unknown };
    const known = TRANSPORTS.find((transport) => transport === name);
    // A clock that was set back must not make it last for ever.
    const forMs = typeof until === "number" ? until - Date.now() : 0;
    return known && forMs > 0 && forMs <= REMEMBERED_MS ? { name: known, forMs } : null;
  } catch {
    return null;
  }
}

/** Keeps a transport, or with null forgets what was kept. */
export function rememberTransport(remembered: RememberedTransport | null): void {
  store(STORAGE_KEY, remembered && JSON.stringify({ name: remembered.name, until: Date.now() + remembered.forMs }));
}
