// This device's own token, which it gets once by a code of six digits and keeps.

import { store, stored } from "./storage.ts";

/** Key of the token in the site's storage. */
const STORAGE_KEY = "nearlight.device-token";

/** Returns the token that this device was given, or null. */
export function deviceToken(): string | null {
  return stored(STORAGE_KEY);
}

/** Forgets the token. */
export function forgetDeviceToken(): void {
  store(STORAGE_KEY, null);
}

/** Pairs this device by the code as its user typed it, and keeps its token. Throws an error with a sentence for the user. */
export async function pairDevice(code: string): Promise<void> {
  // Few pages need it, and it contains a second copy of the core's bindings.
  const address = new URL("device-pairing.js", document.baseURI).href;
  const { pair } = (await import(address)) as typeof import("./device-pairing.ts");
  if (!store(STORAGE_KEY, await pair(code, deviceName()))) {
    throw new Error("The device is paired, but this browser keeps no site data, so it cannot remember its token. Allow site data, then pair it again.");
  }
}

/** Names this device for the owner's list: its browser and its system. */
export function deviceName(agent = navigator.userAgent): string {
  const first = (names: readonly (readonly [RegExp, string])[], otherwise: string): string => names.find(([pattern]) => pattern.test(agent))?.[1] ?? otherwise;
  const browser = first([[/OculusBrowser/, "Quest browser"], [/Edg\//, "Edge"], [/Firefox\//, "Firefox"], [/Chrom(e|ium)\//, "Chrome"], [/Safari\//, "Safari"]], "Browser");
  const system = first([[/Quest/, "Quest"], [/iPhone/, "iPhone"], [/iPad/, "iPad"], [/Android/, "Android"], [/Windows/, "Windows"], [/Mac OS X/, "macOS"], [/Linux|X11/, "Linux"]], "");
  return system && !browser.startsWith(system) ? `${browser} on ${system}` : browser;
}
