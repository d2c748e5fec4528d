// The server's description of itself over HTTP, before a session.

import { SessionRefused } from "./carrier.ts";
import { proxyRefusal, request, tokenHeader } from "./http.ts";

/** The server's description of itself at `session.json`. */
interface SessionInfo {
  /** Null when an authority signed the certificate. */
  certificate_sha256: string | null;
  /** Null where WebTransport has the same port as the page. Servers of earlier versions leave it out. */
  webtransport_port?: number | null;
}

/** The server's end of sessions over WebTransport. */
export interface WebTransportEnd {
  /** Hash of the only certificate that is accepted; null when an authority vouches for it. A session's proofs name it. */
  certificate: string | null;
  /** UDP port at the page's host; null for the page's own, behind no proxy. */
  port: number | null;
}

/** Returns the server's end of sessions. `pinned` is the certificate that the link names: another is refused. */
export async function webTransportEndOf(origin: string, token: string, pinned: string | null, limit: AbortSignal): Promise<WebTransportEnd> {
  // A server on this machine asks for no token here. Others are reached over HTTPS, where the page itself came from.
  const headers: HeadersInit = origin.startsWith("https:") ? tokenHeader(token) : {};
  const answer = await request(new URL("session.json", origin), { cache: "no-store", headers, signal: limit });
  const refusedByProxy = proxyRefusal(answer);
  if (refusedByProxy) throw new SessionRefused("proxy", refusedByProxy);
  if (answer.status === 401) throw new SessionRefused("token", await answer.text());
  if (answer.status === 429) throw new SessionRefused("too_many_attempts", await answer.text());
  if (!answer.ok) throw new Error(`the server answers ${answer.status} to the request for session.json`);
  if (!answer.headers.get("content-type")?.startsWith("application/json")) {
    throw new SessionRefused("proxy", "The answer to the page's request for session.json is not the server's: something in front of it answers, such as a proxy's login page.");
  }
  const { certificate_sha256: shown, webtransport_port: port = null } = (await answer.json()) as SessionInfo;
  if (pinned && shown && shown !== pinned) throw new SessionRefused("certificate", `The link names ${pinned}, the server shows ${shown}.`);
  return { certificate: pinned ?? shown, port };
}
