// A host's panel: who may connect to the server. It lists links and devices, makes links, shows codes that pair devices, and revokes both.

import { Disposables } from "./disposables.ts";
import type { UserRole } from "./generated/wire.ts";
import { refusalOf, request, tokenHeader } from "./http.ts";
import { addressForOthers } from "./link.ts";
import { element } from "./page.ts";

/** How often an open panel asks for the list. Guess: who waits for a device to be paired sees it at once. */
const REFRESH_INTERVAL_MS = 2_000;
/** Time that the server has to answer. */
const ANSWER_LIMIT_MS = 5_000;

/** A link or a paired device, as docs/json.md describes it. Times are in seconds since 1970. */
interface GivenLink {
  number: number;
  name: string;
  kind: "link" | "device";
  role: UserRole;
  expires_s: number | null;
  uses: number;
  used_s: number | null;
}

export class AccessPanel {
  readonly #token: string;
  readonly #panel = element("access");
  readonly #toggle = element("toggle-access", HTMLButtonElement);
  readonly #list = element("access-list");
  readonly #disposables = new Disposables();

  constructor(token: string) {
    this.#token = token;
    const { signal } = this.#disposables;
    this.#toggle.addEventListener("click", () => {
      // The next key goes to the application again.
      this.#toggle.blur();
      this.#setOpen(this.#panel.hidden);
    }, { signal });
    element("access-form", HTMLFormElement).addEventListener("submit", (event) => {
      event.preventDefault();
      void this.#act(() => this.#makeLink());
    }, { signal });
    element("access-code").addEventListener("click", () => void this.#act(() => this.#openCode()), { signal });
    element("access-copy").addEventListener("click", () => {
      void this.#act(() => navigator.clipboard.writeText(element("access-made").innerText));
    }, { signal });
    this.#disposables.every(REFRESH_INTERVAL_MS, () => {
      if (!this.#panel.hidden) void this.#act(() => this.#refresh(), "list");
    });
  }

  close(): void {
    this.onRole("guest");
    this.#disposables.close();
  }

  /** The server has told the user's role. Only hosts see the panel. */
  onRole(role: UserRole): void {
    this.#toggle.hidden = role !== "host";
    if (role !== "host") this.#setOpen(false);
  }

  #setOpen(open: boolean): void {
    this.#panel.hidden = !open;
    this.#toggle.setAttribute("aria-pressed", String(open));
    // A link or code that was shown is not shown to whoever looks next.
    this.#showMade("", "", false);
    if (open) void this.#act(() => this.#refresh(), "list");
  }

  /** Says in the panel why something did not work, until the same works again: the list must not hide what its user wanted to do. */
  async #act(action: () => Promise<void>, of: "list" | "user" = "user"): Promise<void> {
    const said = element("access-said");
    try {
      await action();
      if (said.dataset.of === of) said.textContent = "";
    } catch (error) {
      said.textContent = error instanceof Error ? error.message : String(error);
      said.dataset.of = of;
    }
  }

  async #makeLink(): Promise<void> {
    const { token, page } = await this.#ask("links", "POST", this.#grant()) as { token: string; page: string | null };
    const link = addressForOthers(page);
    link.hash = `token=${token}`;
    element("access-name", HTMLInputElement).value = "";
    this.#showMade("Whoever opens this link is let in. It is shown once:", link.href, true);
    await this.#refresh();
  }

  async #openCode(): Promise<void> {
    const answer = await this.#ask("links/code", "POST", this.#grant()) as { code: string; valid_s: number; page: string | null };
    element("access-name", HTMLInputElement).value = "";
    const { href } = addressForOthers(answer.page);
    this.#showMade(`Open ${href} on the device within ${answer.valid_s / 60} minutes, and type this code:`, answer.code, false);
  }

  #grant(): object {
    const lifetime = element("access-lifetime", HTMLSelectElement).value;
    return {
      name: element("access-name", HTMLInputElement).value,
      role: element("access-role", HTMLSelectElement).value,
      lifetime_s: lifetime === "" ? null : Number(lifetime),
    };
  }

  #showMade(words: string, made: string, isLink: boolean): void {
    element("access-made-words").textContent = words;
    element("access-made").textContent = made;
    element("access-copy").hidden = !isLink;
  }

  async #refresh(): Promise<void> {
    const { links } = await this.#ask("links", "GET") as { links: GivenLink[] };
    const nowS = Date.now() / 1000;
    // A row that stays keeps the keyboard's focus.
    const shown = new Map([...this.#list.children].map((row) => [(row as HTMLElement).dataset.number, row]));
    const rows = links.map((link) => shown.get(String(link.number)) ?? this.#row(link));
    for (const row of shown.values()) if (!rows.includes(row)) row.remove();
    for (const row of rows) if (!row.isConnected) this.#list.append(row);
    for (const [index, link] of links.entries()) {
      const facts = [link.kind, link.role, usesOf(link, nowS), expiryOf(link, nowS)];
      (rows[index]?.querySelector("small") as HTMLElement).textContent = facts.join(" · ");
    }
    element("access-empty").hidden = links.length > 0;
  }

  #row(link: GivenLink): HTMLLIElement {
    const row = document.createElement("li");
    row.dataset.number = String(link.number);
    const name = document.createElement("span");
    name.textContent = link.name;
    const revoke = document.createElement("button");
    revoke.type = "button";
    revoke.textContent = "Revoke";
    revoke.setAttribute("aria-label", `Revoke ${link.name}`);
    revoke.addEventListener("click", () => {
      void this.#act(async () => {
        await this.#ask(`links/${link.number}`, "DELETE");
        await this.#refresh();
      });
    });
    row.append(name, document.createElement("small"), revoke);
    return row;
  }

  /** Throws an error with the server's words. */
  async #ask(path: string, method: string, body?: object): Promise<unknown> {
    const response = await request(new URL(path, document.baseURI), {
      method,
      headers: { ...tokenHeader(this.#token), ...(body && { "content-type": "application/json" }) },
      body: body ? JSON.stringify(body) : null,
      cache: "no-store",
      signal: AbortSignal.timeout(ANSWER_LIMIT_MS),
    });
    if (response.ok) return response.json();
    throw new Error(await refusalOf(response));
  }
}

function usesOf({ uses, used_s }: GivenLink, nowS: number): string {
  if (used_s === null) return "never used";
  return `used ${uses === 1 ? "once" : `${uses} times`}, last ${duration(nowS - used_s)} ago`;
}

function expiryOf({ expires_s }: GivenLink, nowS: number): string {
  if (expires_s === null) return "until it is revoked";
  return expires_s <= nowS ? "has expired" : `for ${duration(expires_s - nowS)}`;
}

/** A time for people, rounded down to its largest unit. */
function duration(seconds: number): string {
  const units = [["day", 86_400], ["hour", 3_600], ["minute", 60], ["second", 1]] as const;
  const [unit, length] = units.find(([, length]) => seconds >= length) ?? ["second", 1];
  const count = Math.max(0, Math.floor(seconds / length));
  return `${count} ${unit}${count === 1 ? "" : "s"}`;
}
