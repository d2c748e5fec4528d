// The page's address: the link's token and certificate, the front that it came by, and the state that it takes along to another server.

import type { Vec3 } from "./math.ts";
import type { Volume } from "./volume.ts";

/** The contents of the link's fragment, which no browser sends to a server. */
export interface Pairing {
  token: string;
  certificate: string | null;
}

/** The state that a page takes along to another server of its fleet. Browsers store data separately for each server. */
export interface MovedPage {
  /** Number of moves in a row without a lasting session, this one included. */
  moves: number;
  name: string;
  /** Proves the right to a seat in the room: 32 hexadecimal digits, or null without a seat. */
  seat: string | null;
  position: Vec3;
  yaw: number;
  pitch: number;
  /** The user has stepped inside. */
  inside: boolean;
  sound: Volume;
}

/** The fragment's parameter with a `MovedPage`. */
const MOVED_PARAMETER = "moved";

/** What a link has lost: its token, or a part of its certificate's hash. */
export type LinkDamage = "token" | "certificate";

/** Returns the link's token and certificate, or what is damaged. `device`: this device's own token, for an address without one. */
export function pairingOf(hash: string, device: string | null = null): Pairing | LinkDamage {
  const fragment = new URLSearchParams(hash.slice(1));
  const token = fragment.get("token") ?? device;
  const certificate = fragment.get("certificate")?.replaceAll(":", "").toLowerCase() ?? null;
  if (!token) return "token";
  return certificate === null || /^[0-9a-f]{64}$/.test(certificate) ? { token, certificate } : "certificate";
}

/** Returns whether a page may ask or open this address: over TLS or on this machine, which browsers consider equally safe. */
export function isSafe({ protocol, hostname, username, password }: URL): boolean {
  return username === "" && password === "" && (protocol === "https:" || (protocol === "http:" && isThisMachine(hostname)));
}

function isThisMachine(hostname: string): boolean {
  return hostname === "localhost" || hostname.endsWith(".localhost") || hostname === "[::1]" || /^127(\.\d+){3}$/.test(hostname);
}

/** Returns the page's address for other machines, without options and token: this one, unless it is this machine's and the server knows `another`. */
export function addressForOthers(another: string | null): URL {
  const own = new URL(document.baseURI);
  own.search = "";
  own.hash = "";
  return (isThisMachine(own.hostname) && another !== null && urlOf(another)) || own;
}

/** Returns the origin in `?front=`, by which the page came: null without one, `unsafe` for one that is not used. */
export function frontOf(search: string): URL | "unsafe" | null {
  const named = new URLSearchParams(search).get("front");
  if (named === null) return null;
  const front = urlOf(named);
  return front && front.origin === named && isSafe(front) ? front : "unsafe";
}

/** Returns the address at which a front is asked for another server, with the page's options and without the link's token. */
export function questionTo(front: URL, search: string): URL {
  const question = new URL("page.json", front);
  const options = new URLSearchParams(search);
  options.delete("front");
  question.search = options.toString();
  return question;
}

/** Returns the front's own link to this page's room, for the user to open. */
export function linkBy(front: URL, search: string, hash: string): URL {
  const link = questionTo(front, search);
  const room = link.searchParams.get("room");
  link.searchParams.delete("room");
  link.pathname = room === null ? "/" : `/r/${room}`;
  return withFragment(link, hash);
}

/** Returns the address of another server's page, or null if it is none. The page's token goes there, so it must be over TLS. */
export function pageOf(address: unknown): URL | null {
  const page = typeof address === "string" ? urlOf(address) : null;
  return page && page.protocol === "https:" && isSafe(page) ? page : null;
}

/** Returns `page` with this page's token and the state that it takes along. The certificate stays behind, because it is another server's. */
export function withFragment(page: URL, hash: string, movedPage?: MovedPage): URL {
  const fragment = new URLSearchParams(hash.slice(1));
  fragment.delete("certificate");
  fragment.delete(MOVED_PARAMETER);
  if (movedPage) fragment.set(MOVED_PARAMETER, JSON.stringify(movedPage));
  const whole = new URL(page);
  whole.hash = fragment.toString();
  return whole;
}

/** Takes the page's state out of the fragment, so that a copied or reloaded address does not have it. */
export function takeMovedPage(hash: string): { movedPage: MovedPage | null; hash: string } {
  const fragment = new URLSearchParams(hash.slice(1));
  const text = fragment.get(MOVED_PARAMETER);
  if (text === null) return { movedPage: null, hash };
  fragment.delete(MOVED_PARAMETER);
  return { movedPage: parse(text), hash: `#${fragment.toString()}` };
}

/** Returns the state, or null when a field is missing or invalid. */
function parse(text: string): MovedPage | null {
  try {
    const { moves, name, seat, position, yaw, pitch, inside, sound } = JSON.parse(text) as MovedPage;
    const isGood =
      Number.isInteger(moves) && moves > 0 && typeof name === "string" && (seat === null || /^[0-9a-f]{32}$/.test(seat)) &&
      position.length === 3 && [...position, yaw, pitch].every(Number.isFinite) && typeof inside === "boolean" &&
      sound.volume >= 0 && sound.volume <= 1 && typeof sound.muted === "boolean";
    return isGood ? { moves, name, seat, position, yaw, pitch, inside, sound } : null;
  } catch {
    return null;
  }
}

function urlOf(text: string): URL | null {
  try {
    return new URL(text);
  } catch {
    return null;
  }
}
