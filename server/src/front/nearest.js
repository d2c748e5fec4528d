// Finds the server with the shortest round trip, and goes there by way of the front.

/** Of each server, after the first request, whose time has the handshakes of its connection in it. */
const MEASUREMENTS = 3;
const LIMIT_MS = 2_000;
/** Servers that are so much farther than the nearest count as near as that one: what a browser measures is no better. */
const ALIKE_MS = 5;

const room = /^\/r\/([a-z0-9-]+)$/.exec(location.pathname)?.[1];
const options = location.search.slice(1);
const joined = (...parts) => parts.filter(Boolean).join("&");

/** In milliseconds; infinite where the server does not answer, or has a certificate that the browser does not trust. */
async function roundTrip(origin) {
  let shortest = Infinity;
  for (let turn = 0; turn <= MEASUREMENTS; turn += 1) {
    const began = performance.now();
    try {
      await fetch(`${origin}/healthz`, { cache: "no-store", credentials: "omit", signal: AbortSignal.timeout(LIMIT_MS) });
    } catch {
      return shortest;
    }
    if (turn > 0) shortest = Math.min(shortest, performance.now() - began);
  }
  return shortest;
}

/** The least loaded of the nearest ones; none if none answers. The list begins with the least loaded. */
async function nearest() {
  const answer = await fetch(`/origins.json?${joined(room && `room=${room}`, options)}`, { cache: "no-store" });
  if (!answer.ok) return "";
  const { servers } = await answer.json();
  const roundTrips = await Promise.all(servers.map(({ origin }) => roundTrip(origin)));
  const shortest = Math.min(...roundTrips);
  return servers.find((_, index) => Number.isFinite(roundTrips[index]) && roundTrips[index] <= shortest + ALIKE_MS)?.server ?? "";
}

// The fragment has the link's token and goes along; without a server the front takes the least loaded one, or says why there is none.
const server = await nearest().catch(() => "");
location.replace(`${location.pathname}?${joined(options, `server=${encodeURIComponent(server)}`)}${location.hash}`);
