// Numbers as people read them. Null is "not known", written as an en dash, never as zero.
export const UNKNOWN = "–";

const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
const DECIMAL = ["", "k", "M", "G", "T"];

function scaled(value: number, base: number, units: string[]): string {
  let size = Math.abs(value);
  let at = 0;
  while (size >= base * 0.9995 && at < units.length - 1) {
    size /= base;
    at += 1;
  }
  const digits = size >= 100 || at === 0 ? 0 : size >= 10 ? 1 : 2;
  const unit = units[at] ?? "";
  const shown = at === 0 && !Number.isInteger(size) && size < 10 ? size.toPrecision(2) : size.toFixed(digits);
  return `${value < 0 ? "−" : ""}${shown}${unit ? `\u202f${unit}` : ""}`;
}

export function bytes(value: number | null | undefined): string {
  return value === null || value === undefined ? UNKNOWN : scaled(value, 1024, BINARY);
}

export function rate(value: number | null | undefined): string {
  return value === null || value === undefined ? UNKNOWN : `${scaled(value, 1024, BINARY)}/s`;
}

export function count(value: number | null | undefined): string {
  if (value === null || value === undefined) return UNKNOWN;
  return Math.abs(value) < 10_000 && Number.isInteger(value) ? value.toLocaleString("en") : scaled(value, 1000, DECIMAL);
}

export function perSecond(value: number | null | undefined): string {
  return value === null || value === undefined ? UNKNOWN : `${scaled(value, 1000, DECIMAL)}/s`;
}

export function percent(share: number | null | undefined, digits = 0): string {
  if (share === null || share === undefined) return UNKNOWN;
  return `${(share * 100).toFixed(share > 0 && share < 0.01 && digits === 0 ? 1 : digits)}\u202f%`;
}

export function times(value: number | null | undefined): string {
  return value === null || value === undefined ? UNKNOWN : `${value.toFixed(value < 10 ? 1 : 0)}\u202f×`;
}

export function seconds(value: number | null | undefined): string {
  if (value === null || value === undefined) return UNKNOWN;
  const size = Math.abs(value);
  if (size < 1e-6) return size === 0 ? "0\u202fs" : `${(value * 1e9).toFixed(0)}\u202fns`;
  if (size < 1e-3) return `${(value * 1e6).toFixed(0)}\u202fµs`;
  if (size < 1) return `${(value * 1e3).toFixed(size < 0.01 ? 1 : 0)}\u202fms`;
  if (size < 59.5) return `${value.toFixed(size < 9.95 ? 1 : 0)}\u202fs`;
  const sign = value < 0 ? "−" : "";
  const [s, m, h] = [Math.round(size), Math.round(size / 60), Math.round(size / 3600)];
  if (s < 3600) return `${sign}${Math.floor(s / 60)}\u202fmin ${s % 60}\u202fs`;
  if (m < 1440) return `${sign}${Math.floor(m / 60)}\u202fh ${m % 60}\u202fmin`;
  return `${sign}${Math.floor(h / 24)}\u202fd ${h % 24}\u202fh`;
}

export function nanoseconds(value: number | null | undefined): string {
  return value === null || value === undefined ? UNKNOWN : seconds(value / 1e9);
}

export function text(value: string | null | undefined): string {
  return value === null || value === undefined || value === "" ? UNKNOWN : value;
}
