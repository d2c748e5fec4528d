// The page as a document: its elements by id, and full screen.

/** Returns the page's element with this id. Throws without one: that is a mistake of the page itself. */
export function element<T extends HTMLElement = HTMLElement>(id: string, type?: new () => T): T {
  const found = document.getElementById(id);
  if (!(found instanceof (type ?? HTMLElement))) throw new Error(`the page has no usable element #${id}`);
  return found as T;
}

export async function toggleFullscreen(): Promise<void> {
  if (document.fullscreenElement) await document.exitFullscreen();
  else await document.documentElement.requestFullscreen?.().catch(() => undefined);
}
