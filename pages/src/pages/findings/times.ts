// The stretch of time of a finding as a page's address says it: with a quarter of it, ten minutes at least, around.
const LEAST_NS = 600e9;
const iso = (ns: number): string => new Date(ns / 1e6).toISOString();

export function atThatTime(from: number | null, to: number | null, nowMs = Date.now()): Record<string, string> {
  if (from === null) return {};
  const now = nowMs * 1e6;
  const end = to ?? now;
  const around = Math.max((end - from) / 4, LEAST_NS);
  return { from: iso(from - around), ...(end + around < now ? { to: iso(end + around) } : {}) };
}
