// What the page's address says: the link's token and certificate, the front that it came by, and what it takes along to another server.

import type { Vec3 } from "./math.ts";
import type { Volume } from "./volume.ts";

/** The contents of the link's fragment, which no browser sends to a server. */
export interface Pairing {
  token: string;
  certificate: string | null;
}

/** What a page takes along when it goes to another server of its fleet: browsers keep what is stored for each server apart. */
export interface MovedPage {
  /** Moves in a row, this one included, between which no session has lasted. */
  moves: number;
  name: string;
  /** By which the member of a room claims its seat, as 32 hexadecimal digits; none: it had none. */
  seat: string | null;
  position: Vec3;
  yaw: number;
  pitch: number;
  /** The user has stepped inside. */
  inside: boolean;
  sound: Volume;
}

/** The fragment's parameter with what a page takes along. */
const MOVED = "moved";

/** None where the link has lost its token or half of the certificate's hash in transit. */
export function pairingOf(hash: string): Pairing | null {
  const fragment = new URLSearchParams(hash.slice(1));
  const token = fragment.get("token");
  const certificate = fragment.get("certificate")?.replaceAll(":", "").toLowerCase() ?? null;
  if (!token || (certificate !== null && !/^[0-9a-f]{64}$/.test(certificate))) return null;
  return { token, certificate };
}

/** Whether a page may ask or open this address: over TLS, or on this machine, which browsers take for as safe. */
export function isSafe({ protocol, hostname, username, password }: URL): boolean {
  const isHere = hostname === "localhost" || hostname.endsWith(".localhost") || hostname === "[::1]" || /^127(\.\d+){3}$/.test(hostname);
  return username === "" && password === "" && (protocol === "https:" || (protocol === "http:" && isHere));
}

/** `?front=`: the origin of the front that the page came by. None where the address names none; `unsafe` where it is not used. */
export function frontOf(search: string): URL | "unsafe" | null {
  const named = new URLSearchParams(search).get("front");
  if (named === null) return null;
  const front = urlOf(named);
  return front && front.origin === named && isSafe(front) ? front : "unsafe";
}

/** Where a front is asked for another server, with the page's options. Tells nothing of the link's token. */
export function questionTo(front: URL, search: string): URL {
  const question = new URL("page.json", front);
  const options = new URLSearchParams(search);
  options.delete("front");
  question.search = options.toString();
  return question;
}

/** The front's own link to where this page is, for the user to open. */
export function linkBy(front: URL, search: string, hash: string): URL {
  const link = questionTo(front, search);
  const room = link.searchParams.get("room");
  link.searchParams.delete("room");
  link.pathname = room === null ? "/" : `/r/${room}`;
  return withFragment(link, hash);
}

/** The address of another server's page, if it is one. */
export function pageOf(address: unknown): URL | null {
  const page = typeof address === "string" ? urlOf(address) : null;
  return page && isSafe(page) ? page : null;
}

/** `page` with this page's token and what it takes along. The certificate is another server's. */
export function withFragment(page: URL, hash: string, movedPage?: MovedPage): URL {
  const fragment = new URLSearchParams(hash.slice(1));
  fragment.delete("certificate");
  fragment.delete(MOVED);
  if (movedPage) fragment.set(MOVED, JSON.stringify(movedPage));
  const whole = new URL(page);
  whole.hash = fragment.toString();
  return whole;
}

/** Takes what the page brings out of the fragment: a copied or reloaded address has none of it. */
export function takeMovedPage(hash: string): { movedPage: MovedPage | null; hash: string } {
  const fragment = new URLSearchParams(hash.slice(1));
  const text = fragment.get(MOVED);
  if (text === null) return { movedPage: null, hash };
  fragment.delete(MOVED);
  return { movedPage: parse(text), hash: `#${fragment.toString()}` };
}

/** None where a field is missing or is nothing that a page takes along. */
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
