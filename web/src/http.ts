// HTTP requests whose failures say what is known. A browser does not tell a page whether the name, the network, the certificate or a policy
// kept an answer away.

/** There is no answer that the page may read. */
export class NoAnswer extends Error {
  override readonly name = "NoAnswer";
}

/** As `fetch`, but throws `NoAnswer` with a message for users when there is no answer. */
export async function request(address: URL, init: RequestInit): Promise<Response> {
  try {
    return await fetch(address, init);
  } catch (error) {
    throw new NoAnswer(`no answer from ${address.host}${reason(error)}`);
  }
}

function reason(error: unknown): string {
  if (error instanceof Error && error.name === "TimeoutError") return " in time";
  if (!navigator.onLine) return ": the browser reports that it is offline";
  return error instanceof Error && error.message ? ` (${error.message})` : "";
}

/** Returns the header with the pairing token. `Authorization` is left to a proxy in front of the server, for which the browser fills it in. */
export function tokenHeader(token: string): Record<string, string> {
  return { "X-Nearlight-Token": token };
}

/** Returns why the server refused, as a sentence. A proxy's page is none, so its status is given. */
export async function refusalOf(response: Response): Promise<string> {
  const isText = response.headers.get("content-type")?.startsWith("text/plain");
  const words = isText ? (await response.text()).trim() : `HTTP ${response.status}`;
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}.`;
}

/** Returns what a proxy in front of the server asks for, or null where the answer is the server's, which asks for a bearer token. */
export function proxyRefusal({ status, headers }: Response): string | null {
  if (status === 407) return "A proxy on the way to the server asks for a name and a password, which this browser has not sent.";
  const challenge = headers.get("www-authenticate") ?? "";
  if (status !== 401 || /^bearer\b/i.test(challenge)) return null;
  const scheme = /^[\w-]+/.exec(challenge)?.[0];
  const asked = scheme ? ` (HTTP ${scheme})` : "";
  return `A proxy in front of the server refuses the page's request: it asks for a login${asked}. Reload the page and log in there.`;
}
