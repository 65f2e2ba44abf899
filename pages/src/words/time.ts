// Times: epoch nanoseconds in, words out, in the reader's own zone (named where it matters).
import { UNKNOWN } from "@/words/format";

export const NS = 1e9;
export const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

const DAY = new Intl.DateTimeFormat("en-GB", { day: "2-digit", month: "short" });
const YEAR = new Intl.DateTimeFormat("en-GB", { day: "2-digit", month: "short", year: "numeric" });
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const CLOCK_S = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

export const dateOf = (ns: number): Date => new Date(ns / 1e6);

/** `21 Nov 08:00`; only the clock for today, the year where it is another. */
export function moment(ns: number | null | undefined, nowMs = Date.now()): string {
  if (ns === null || ns === undefined) return UNKNOWN;
  const at = dateOf(ns);
  const now = new Date(nowMs);
  if (at.toDateString() === now.toDateString()) return CLOCK.format(at);
  if (at.getFullYear() !== now.getFullYear()) return `${YEAR.format(at)} ${CLOCK.format(at)}`;
  return `${DAY.format(at)} ${CLOCK.format(at)}`;
}

/** In full, to the second. */
export function exactly(ns: number | null | undefined): string {
  if (ns === null || ns === undefined) return UNKNOWN;
  return `${YEAR.format(dateOf(ns))} ${CLOCK_S.format(dateOf(ns))}`;
}

/** The clock as finely as an axis of this length needs it. */
export function onAxis(ns: number, lengthNs: number): string {
  const at = dateOf(ns);
  if (lengthNs <= 10 * NS) return `${CLOCK_S.format(at)}.${String(Math.floor((ns / 1e6) % 1000)).padStart(3, "0")}`;
  if (lengthNs <= 900 * NS) return CLOCK_S.format(at);
  if (lengthNs <= 2 * 86_400 * NS) return CLOCK.format(at);
  if (lengthNs <= 20 * 86_400 * NS) return `${DAY.format(at)} ${CLOCK.format(at)}`;
  return DAY.format(at);
}

/** How long ago: `3 min ago`. */
export function ago(ns: number | null | undefined, nowMs = Date.now()): string {
  if (ns === null || ns === undefined) return UNKNOWN;
  const s = Math.round(nowMs / 1000 - ns / NS);
  if (s < 0) return "just now";
  if (s < 60) return `${s}\u202fs ago`;
  if (s < 3600) return `${Math.round(s / 60)}\u202fmin ago`;
  if (s < 2 * 86_400) return `${Math.round(s / 3600)}\u202fh ago`;
  return `${Math.round(s / 86_400)}\u202fd ago`;
}
