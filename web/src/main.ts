// The page's first script: reads the link, and runs the page or says why it cannot.

import { App, START } from "./app.ts";
import { explain } from "./carrier.ts";
import { deviceToken } from "./device.ts";
import { pairingOf, takeMovedPage } from "./link.ts";
import { Shell, type ShellOut } from "./shell.ts";
import { missingFeatures } from "./support.ts";

/** Runs the page, or says why it cannot. */
function begin(): void {
  const nothing = (): void => undefined;
  const silent: ShellOut = {
    onEnter: nothing, onEnterVr: nothing, onToggleHud: nothing, onMute: nothing, onVolume: nothing, onTransport: nothing, onRendering: nothing,
    onCommandKey: nothing, onFullscreen: nothing, onRetry: () => location.reload(),
  };
  const shell = (): Shell => new Shell(silent);
  const still = (state: string): void => {
    window.nearlight = {
      state,
      lastMarker: null,
      stream: null,
      statistics: null,
      summary: () => Promise.resolve(null),
      events: () => Promise.resolve(""),
      loudness: () => null,
      heard: () => null,
      device: () => undefined,
      send: () => undefined,
      addEventListener: () => undefined,
      removeEventListener: () => undefined,
      room: null,
      head: START,
      setPose: () => undefined,
    };
  };
  // Another link in the same tab changes only the fragment.
  window.addEventListener("hashchange", () => location.reload());
  const missing = missingFeatures();
  // The page's own changes of the address cause no such event.
  const { movedPage, hash } = takeMovedPage(location.hash);
  if (hash !== location.hash) history.replaceState(null, "", hash);
  const pairing = pairingOf(hash, deviceToken());
  if (missing.length > 0) {
    shell().onUnsupported(missing);
    still("unsupported");
  } else if (typeof pairing === "string") {
    shell().onUnpaired(pairing);
    still("unpaired");
  } else {
    try {
      new App(pairing, movedPage);
    } catch (error) {
      shell().onState({ state: "failed", message: `It does not start: ${explain(error)}. Reload the page, or use another browser.` });
      still("failed");
      throw error;
    }
  }
}

begin();
