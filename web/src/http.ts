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
