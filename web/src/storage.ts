// The site's storage in the browser. A browser may refuse it: then nothing is kept between visits.

/** Returns what is kept under this key, or null. */
export function stored(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

/** Keeps a text under this key, or with null removes it. Returns false if the browser refuses. */
export function store(key: string, text: string | null): boolean {
  try {
    if (text === null) localStorage.removeItem(key);
    else localStorage.setItem(key, text);
    return true;
  } catch (error) {
    console.warn("the browser does not keep the choice:", error);
    return false;
  }
}
