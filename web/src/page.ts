// The page's fixed elements: found by id, and a missing one is a mistake of the page itself.

export function element<T extends HTMLElement = HTMLElement>(id: string, type?: new () => T): T {
  const found = document.getElementById(id);
  if (!(found instanceof (type ?? HTMLElement))) throw new Error(`the page has no usable element #${id}`);
  return found as T;
}
