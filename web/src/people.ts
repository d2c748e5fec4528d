// Who is in the room, as a list; who comes and goes is said.

import type { RoomPerson } from "./generated/core.ts";
import { element } from "./page.ts";

export class People {
  readonly #say: (words: string) => void;
  #known: Map<number, string> | null = null;

  constructor(say: (words: string) => void) {
    this.#say = say;
  }

  /** `former`: what this user was called as long as the server rendered; that it leaves is no news. */
  show(people: readonly RoomPerson[], you: number, former: string): void {
    const items = people.map(({ id, name, role, colour: [red, green, blue] }) => {
      const item = document.createElement("li");
      item.style.setProperty("--colour", `rgb(${red} ${green} ${blue})`);
      const further = [...(role === "guest" ? [] : [role]), ...(id === you ? ["you"] : [])];
      item.append(document.createElement("i"), name, ...further.map((words) => ` · ${words}`));
      return item;
    });
    element("people-list").replaceChildren(...items);
    element("people").hidden = false;
    const now = new Map(people.map(({ id, name }) => [id, name]));
    if (this.#known) {
      const before = this.#known;
      const came = [...now].filter(([id]) => !before.has(id) && id !== you).map(([, name]) => name);
      const left = [...before].filter(([id, name]) => !now.has(id) && name !== former).map(([, name]) => name);
      const words = [came.length > 0 ? `${came.join(", ")} joined` : "", left.length > 0 ? `${left.join(", ")} left` : ""];
      const said = words.filter(Boolean).join(" · ");
      if (said) this.#say(said);
    }
    this.#known = now;
  }

  hide(): void {
    this.#known = null;
    element("people").hidden = true;
  }
}
