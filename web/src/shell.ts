// All text on the page: status, landing, and notices about what is wrong and what to do.

import { Disposables } from "./disposables.ts";
import { TRANSPORTS } from "./generated/core.ts";
import type { UserRole } from "./generated/wire.ts";
import type { ConnectionState, RefusalReason, TransportChoice } from "./messages.ts";
import { isApple } from "./input/mouse-keyboard.ts";
import { element } from "./page.ts";
import { forgetDeviceToken, pairDevice } from "./device.ts";
import { type LinkDamage, pairingOf } from "./link.ts";
import type { RenderingChoice } from "./rendering.ts";
import type { MissingFeature } from "./support.ts";
import { store, stored } from "./storage.ts";
import { TRANSPORT } from "./transports.ts";

/** States of the page: those of the connection, two that never get that far, and one after it, when a program has ended. */
export type PageState = ConnectionState["state"] | "unsupported" | "unpaired" | "ended";

/** How long a notice stays. Guess: two sentences are read in half of it. */
const TOAST_MS = 8_000;

/** Whether a headset is there, and whether this browser can draw for it. */
export type VrOffer = "none" | "ready" | "no-webgl2";

export interface ShellOut {
  onEnter(): void;
  onEnterVr(): void;
  onToggleHud(): void;
  onFullscreen(): void;
  onRetry(): void;
  onMute(): void;
  /** 0 to 1. */
  onVolume(volume: number): void;
  onTransport(transport: TransportChoice): void;
  onRendering(rendering: RenderingChoice): void;
  /** On Apple's systems: whether programs receive Cmd as Control. */
  onCommandKey(isControl: boolean): void;
}

const REFUSALS: Record<RefusalReason, { title: string; advice: string; retry: boolean }> = {
  token: {
    title: "This link is not valid here",
    advice: "Its token is wrong, was replaced, was revoked or has expired. Open the link that the server prints now, or ask the owner for another one.",
    retry: false,
  },
  too_many_attempts: {
    title: "Too many attempts",
    advice: "Someone at this address used a wrong link, or tried to connect, too often. Wait a minute, then try again with the right link.",
    retry: true,
  },
  full: {
    title: "All places are taken",
    advice: "The server serves as many people as it may (--max-clients). Try again when someone has left.",
    retry: true,
  },
  protocol: {
    title: "This page is out of date",
    advice: "The server speaks another version than this page. Reload the page.",
    retry: false,
  },
  codec: {
    title: "No common codec",
    advice: "This browser decodes none of the server's codecs. Start the server with --codec vp8 or --codec h264, or use another browser.",
    retry: true,
  },
  certificate: {
    title: "This is not the server of this link",
    advice: "It shows another certificate than the link names. If the server was started again, open the link that it prints now; if not, somebody may stand between you and it.",
    retry: false,
  },
  impostor: {
    title: "This is not the server of this link",
    advice: "It does not know the link's token. If another server runs there now, open the link that it prints; if not, somebody may stand between you and it.",
    retry: false,
  },
  proxy: {
    title: "A proxy does not let this page through",
    advice: "It stands in front of the server and has its own names and passwords; the link's token is not one of them.",
    retry: true,
  },
  undecodable: {
    title: "This browser decodes no picture",
    advice: "Pictures arrive, and the browser shows none of them although it claims their codecs. Another browser may, and so may another transport in the panel.",
    retry: true,
  },
  internal: { title: "The server could not start a session", advice: "Its log says why. Try again once that is fixed.", retry: true },
};

/** Refusals that the page decides by itself. */
const PAGE_REASONS: ReadonlySet<RefusalReason> = new Set(["certificate", "impostor", "undecodable", "proxy"]);

export class Shell {
  readonly #disposables = new Disposables();
  readonly #status = element("status").querySelector("span") as HTMLElement;
  #countdown: ReturnType<typeof setInterval> | undefined;
  #toast: ReturnType<typeof setTimeout> | undefined;
  #state: PageState = "connecting";
  /** The notice says that the server is gone. */
  #relocating = false;
  /** Address that the notice's button opens, or null when it tries again. */
  #opens: string | null = null;

  constructor(out: ShellOut) {
    const { signal } = this.#disposables;
    const onClick = (id: string, handle: () => void): void => element(id).addEventListener("click", handle, { signal });
    onClick("enter", () => out.onEnter());
    onClick("landing-vr", () => out.onEnterVr());
    onClick("enter-vr", () => out.onEnterVr());
    onClick("toggle-hud", () => out.onToggleHud());
    onClick("fullscreen", () => out.onFullscreen());
    onClick("notice-action", () => {
      if (this.#opens) location.assign(this.#opens);
      else out.onRetry();
    });
    onClick("mute", () => out.onMute());
    const volume = element("volume", HTMLInputElement);
    volume.addEventListener("input", () => out.onVolume(volume.valueAsNumber / 100), { signal });
    const transport = element("transport", HTMLSelectElement);
    transport.append(...TRANSPORTS.map((name) => new Option(TRANSPORT[name].label, name)));
    transport.addEventListener("change", () => out.onTransport(transport.value as TransportChoice), { signal });
    const rendering = element("rendering", HTMLSelectElement);
    rendering.addEventListener("change", () => out.onRendering(rendering.value as RenderingChoice), { signal });
    const command = element("command-key", HTMLSelectElement);
    command.value = stored(COMMAND_KEY) === "super" ? "super" : "control";
    command.addEventListener(
      "change",
      () => {
        store(COMMAND_KEY, command.value);
        out.onCommandKey(this.commandIsControl);
      },
      { signal },
    );
    const name = element("user-name", HTMLInputElement);
    name.value = stored(NAME_KEY) ?? "";
    name.addEventListener("change", () => store(NAME_KEY, name.value), { signal });
    element("pair").addEventListener(
      "submit",
      (event) => {
        event.preventDefault();
        void this.#pair();
      },
      { signal },
    );
    // The next key walks again.
    for (const control of [volume, transport, rendering, command, name]) control.addEventListener("change", () => control.blur(), { signal });
  }

  /** Ends the timers, and what the page's buttons do. */
  close(): void {
    this.#disposables.close();
    clearInterval(this.#countdown);
    clearTimeout(this.#toast);
  }

  /** The user's choice for Apple's systems: programs receive Cmd as Control. */
  get commandIsControl(): boolean {
    return element("command-key", HTMLSelectElement).value === "control";
  }

  get state(): PageState {
    return this.#state;
  }

  /** The picture or the landing page in front of it. */
  set view(view: "landing" | "world") {
    document.body.dataset.view = view;
  }

  get view(): string {
    return document.body.dataset.view ?? "landing";
  }

  set vrOffer(offer: VrOffer) {
    for (const button of [element("landing-vr", HTMLButtonElement), element("enter-vr", HTMLButtonElement)]) {
      button.hidden = offer === "none";
      button.disabled = offer === "no-webgl2";
      button.textContent = offer === "no-webgl2" ? "VR needs WebGL2" : "Enter VR";
      button.title = offer === "no-webgl2" ? "Switch graphics acceleration on in the browser's settings." : "";
    }
  }

  set hudPressed(pressed: boolean) {
    element("toggle-hud").setAttribute("aria-pressed", String(pressed));
  }

  onSound(volume: number, muted: boolean): void {
    element("mute").setAttribute("aria-pressed", String(muted));
    element("volume", HTMLInputElement).value = String(Math.round(100 * volume));
  }

  /** Only the demonstration world needs an explanation of how to move. */
  set demonstration(is: boolean) {
    element("controls").hidden = !is;
  }

  get demonstration(): boolean {
    return !element("controls").hidden;
  }

  /** The role that the link permits. */
  onRole(role: UserRole): void {
    document.body.dataset.role = role;
    element("tagline-role").hidden = role !== "spectator";
  }

  onTransport(transport: TransportChoice): void {
    element("transport", HTMLSelectElement).value = transport;
  }

  onRendering(rendering: RenderingChoice): void {
    element("rendering", HTMLSelectElement).value = rendering;
  }

  /** The user's name in the room, or "". */
  get userName(): string {
    return bounded(element("user-name", HTMLInputElement).value.trim());
  }

  set userName(name: string) {
    element("user-name", HTMLInputElement).value = bounded(name);
    store(NAME_KEY, name);
  }

  onState(state: ConnectionState): void {
    if (this.#state === "ended") return;
    clearInterval(this.#countdown);
    this.#enter(state.state);
    if (state.state !== "refused" && state.state !== "failed" && !this.#relocating) this.#hideNotice();
    switch (state.state) {
      case "connecting":
        this.#say("Connecting");
        break;
      case "waiting":
        this.#say("Waiting for the first picture");
        break;
      case "live":
        document.body.dataset.shown = "";
        this.#say("Live");
        break;
      case "stalled":
        this.#say(`Nothing from the server for ${(state.sinceMs / 1000).toFixed(0)} s`);
        break;
      case "reconnecting":
        this.#count(state.why, state.retryInMs);
        if (state.advice && !this.#relocating) this.#notice("The network is in the way", state.advice, [], true);
        break;
      case "refused": {
        // The address has no token that could be wrong.
        if (state.reason === "token" && pairingOf(location.hash) === "token") {
          forgetDeviceToken();
          this.onUnpaired("token", "The owner has ended this device's pairing, or it has expired. ");
          break;
        }
        const { title, advice, retry } = REFUSALS[state.reason];
        this.#say("Refused");
        const name = PAGE_REASONS.has(state.reason) ? "What the page sees" : "The server says";
        this.#notice(title, advice, state.message ? [{ name, advice: state.message }] : [], retry);
        break;
      }
      case "failed":
        this.#say("Stopped");
        this.#notice("The page cannot go on", state.message, [], false);
        break;
    }
  }

  /** The server is gone, and `words` say what the page does; null when the server is back. `other`: a link that the user may open instead. */
  onRelocation(words: string | null, other: { name: string; link: string } | null): void {
    if (words !== null) {
      this.#notice("The server is gone", words, [], other !== null);
      this.#opens = other?.link ?? null;
      if (other) element("notice-action").textContent = `Open ${other.name}`;
    } else if (this.#relocating) this.#hideNotice();
    this.#relocating = words !== null;
  }

  /** The pictures are a program's. */
  onProgram(name: string): void {
    document.body.dataset.content = "program";
    document.title = `${name} – Nearlight`;
    element("title").textContent = name;
    element("tagline").textContent = "Keys, mouse, touch and typed text go to the program.";
    element("tagline-role").textContent = "You are a spectator: you watch, and others use the program.";
    element("enter").textContent = "Open";
    element("command-key-choice").hidden = !isApple();
    // Keys are the program's.
    element("toggle-hud").title = "Latency graph";
    element("mute").title = "Sound on or off";
    element("stage").setAttribute("aria-label", `The window of ${name}`);
    const latency = element("mtp-label");
    latency.textContent = "Input to pixels, estimated";
    latency.title = "An input counts as shown by the first picture captured after it, whether or not that picture shows its effect.";
  }

  /** Shows a notice for a while. */
  onNotice(words: string): void {
    const toast = element("toast");
    toast.textContent = words;
    toast.hidden = false;
    clearTimeout(this.#toast);
    this.#toast = setTimeout(() => {
      toast.hidden = true;
    }, TOAST_MS);
  }

  /** Offers something that the user may try again at any time; null withdraws the offer. */
  onOffer(words: string | null, act: () => void): void {
    element("offer").hidden = words === null;
    element("offer-text").textContent = words ?? "";
    const [accept, decline] = [element("offer-accept", HTMLButtonElement), element("offer-decline", HTMLButtonElement)];
    const hide = (): void => {
      element("offer").hidden = true;
    };
    accept.onclick = () => {
      hide();
      act();
    };
    decline.onclick = hide;
  }

  /** The program has ended: there is nothing left to connect to. */
  onEnded(words: string): void {
    clearInterval(this.#countdown);
    this.#enter("ended");
    this.#say("Ended");
    this.#notice("The program has ended", `${words}.`, [], false);
  }

  onUnsupported(missing: readonly MissingFeature[]): void {
    this.#enter("unsupported");
    this.#say("Unsupported browser");
    const what = missing.length === 1 ? "something" : "some things";
    this.#notice("This browser cannot show the world", `It lacks ${what} that the page is built on.`, missing, false);
  }

  /** `found`: a sentence on why the address has no valid token, if that is known. */
  onUnpaired(damage: LinkDamage, found = ""): void {
    this.#enter("unpaired");
    this.#say("Not paired");
    if (damage === "token") {
      const words = `${found}Type the code that the command “nearlight devices pair” shows on the server's machine, or open the whole link that the server printed, including everything after #token=.`;
      this.#notice("This device is not paired yet", words, [], false);
      this.#offerPairing();
      return;
    }
    this.#notice("This link is incomplete", `What follows certificate= is not a whole fingerprint, which has 64 hexadecimal digits. Open the whole link that the server printed, including everything after #token=, or scan its QR code.`, [], false);
  }

  /** Lets the user type a code. */
  #offerPairing(): void {
    element("pair", HTMLFormElement).hidden = false;
    element("pair-code", HTMLInputElement).focus();
  }

  /** Pairs this device by the code that its user typed; the page begins anew once it is paired. */
  async #pair(): Promise<void> {
    const code = element("pair-code", HTMLInputElement);
    const button = element("pair", HTMLFormElement).querySelector("button") as HTMLButtonElement;
    button.disabled = true;
    element("pair-state").textContent = "Pairing";
    try {
      await pairDevice(code.value);
      location.reload();
    } catch (error) {
      element("pair-state").textContent = error instanceof Error ? error.message : String(error);
      button.disabled = false;
      code.select();
    }
  }

  #enter(state: PageState): void {
    this.#state = state;
    document.body.dataset.state = state;
  }

  #say(words: string): void {
    if (this.#status.textContent !== words) this.#status.textContent = words;
  }

  #count(why: string, milliseconds: number): void {
    const until = performance.now() + milliseconds;
    const tell = (): void => {
      const left = Math.ceil((until - performance.now()) / 1000);
      this.#say(left > 0 && milliseconds >= 1000 ? `Lost: ${why}. Trying again in ${left} s` : `Lost: ${why}. Trying again`);
    };
    tell();
    this.#countdown = setInterval(tell, 250);
  }

  #notice(title: string, words: string, details: readonly MissingFeature[], retry: boolean): void {
    element("notice-title").textContent = title;
    element("notice-text").textContent = words;
    element("notice-list").replaceChildren(
      ...details.map(({ name, advice }) => {
        const item = document.createElement("li");
        const head = document.createElement("b");
        head.textContent = name;
        item.append(head, advice);
        return item;
      }),
    );
    this.#opens = null;
    element("pair").hidden = true;
    element("notice-action").textContent = "Try again";
    element("notice-action").hidden = !retry;
    element("notice").hidden = false;
  }

  #hideNotice(): void {
    element("notice").hidden = true;
  }
}

/** Cuts a name to the 32 bytes that members may have. */
function bounded(name: string): string {
  const bytes = (text: string): number => new TextEncoder().encode(text).length;
  let letters = [...name];
  while (bytes(letters.join("")) > 32) letters = letters.slice(0, -1);
  return letters.join("");
}

/** Keys of the user's choices in the site's storage. */
const NAME_KEY = "nearlight-name";
const COMMAND_KEY = "nearlight.command-key";
