// The list of the people in the room, with a volume for each voice. Announces who joins and leaves.

import type { RoomPerson } from "./generated/core.ts";
import { element } from "./page.ts";
import type { Volume } from "./volume.ts";

export interface PeopleOut {
  onNotice(words: string): void;
  volumeOf(member: number): Volume;
  onVolume(member: number, volume: Volume): void;
}

/** The room's list of people. */
export interface PeopleList {
  people: readonly RoomPerson[];
  you: number;
  /** Number of further people. */
  more: number;
}

export class People {
  readonly #out: PeopleOut;
  #known: Map<number, string> | null = null;
  /** The user in that list. */
  #own: number | null = null;
  /** Items by content. They are reused, so that a changed list does not take a slider out of the user's hand. */
  readonly #items = new Map<string, HTMLLIElement>();
  readonly #panel = element("people", HTMLDetailsElement);

  constructor(out: PeopleOut) {
    this.#out = out;
    // A small window belongs to the world.
    this.#panel.open = matchMedia("(min-width: 761px)").matches;
    // The next key walks again.
    this.#panel.addEventListener("toggle", () => this.#panel.querySelector("summary")?.blur());
  }

  show({ people, you, more }: PeopleList): void {
    const kept = new Set<string>();
    const items = people.map((person) => {
      const key = JSON.stringify([person, person.id === you]);
      kept.add(key);
      const item = this.#items.get(key) ?? this.#item(person, person.id === you);
      this.#items.set(key, item);
      return item;
    });
    for (const key of this.#items.keys()) if (!kept.has(key)) this.#items.delete(key);
    if (more > 0) {
      const item = document.createElement("li");
      item.textContent = `and ${more} more`;
      items.push(item);
    }
    const list = element("people-list");
    if (items.length !== list.children.length || items.some((item, index) => item !== list.children[index])) list.replaceChildren(...items);
    element("people-count").textContent = String(people.length + more);
    this.#panel.hidden = false;
    this.#announce(people, you);
  }

  /** The members who are speaking. */
  setSpeaking(speaking: ReadonlySet<number>): void {
    for (const item of this.#items.values()) item.toggleAttribute("data-speaking", speaking.has(Number(item.dataset.member)));
  }

  /** Forgets who was there, so that the next list is not compared with it. */
  forget(): void {
    this.#known = null;
  }

  hide(): void {
    this.forget();
    this.#panel.hidden = true;
  }

  #item({ id, name, role, colour: [red, green, blue] }: RoomPerson, own: boolean): HTMLLIElement {
    const item = document.createElement("li");
    item.dataset.member = String(id);
    item.style.setProperty("--colour", `rgb(${red} ${green} ${blue})`);
    const words = document.createElement("span");
    const further = [...(role === "guest" ? [] : [role]), ...(own ? ["you"] : [])];
    words.append(name, ...further.map((word) => ` · ${word}`));
    words.title = name;
    item.append(document.createElement("i"), words);
    if (!own && role !== "spectator") item.append(...this.#volume(id, name));
    return item;
  }

  #volume(member: number, name: string): HTMLElement[] {
    const { volume, muted } = this.#out.volumeOf(member);
    const [mute, slider] = [document.createElement("button"), document.createElement("input")];
    mute.type = "button";
    mute.className = "voice-mute";
    mute.setAttribute("aria-label", `Mute ${name}`);
    mute.setAttribute("aria-pressed", String(muted));
    slider.type = "range";
    [slider.max, slider.step, slider.value] = ["100", "5", String(Math.round(100 * volume))];
    slider.setAttribute("aria-label", `Volume of ${name}`);
    const tell = (): void => {
      const isMuted = mute.getAttribute("aria-pressed") === "true";
      this.#out.onVolume(member, { volume: slider.valueAsNumber / 100, muted: isMuted });
    };
    mute.addEventListener("click", () => {
      mute.setAttribute("aria-pressed", String(mute.getAttribute("aria-pressed") !== "true"));
      tell();
      // The next key walks again.
      mute.blur();
    });
    slider.addEventListener("input", () => {
      mute.setAttribute("aria-pressed", "false");
      tell();
    });
    slider.addEventListener("change", () => slider.blur());
    return [mute, slider];
  }

  #announce(people: readonly RoomPerson[], you: number): void {
    const now = new Map(people.map(({ id, name }) => [id, name]));
    const [before, own] = [this.#known, this.#own];
    [this.#known, this.#own] = [now, you];
    if (!before) return;
    const came = [...now].filter(([id]) => !before.has(id) && id !== you).map(([, name]) => name);
    const left = [...before].filter(([id]) => !now.has(id) && id !== own).map(([, name]) => name);
    const words = [came.length > 0 ? `${names(came)} joined` : "", left.length > 0 ? `${names(left)} left` : ""];
    const said = words.filter(Boolean).join(" · ");
    if (said) this.#out.onNotice(said);
  }
}

/** Returns names in words; of a crowd only the first ones. */
function names(all: readonly string[]): string {
  return all.length > 3 ? `${all.slice(0, 2).join(", ")} and ${all.length - 2} others` : all.join(", ");
}
