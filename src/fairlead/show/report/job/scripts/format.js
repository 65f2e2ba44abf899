// Human formatting, digit for digit as fairlead.core.model.unit_formats writes it. A missing value is a dash, never a zero.

const ABSENT = "—";
const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
const COUNTS = ["", " k", " M", " G", " T"];

function known(value) {
  return typeof value === "number" && Number.isFinite(value);
}

// Decimals with ties to even, as Python rounds them (toFixed rounds them up).
function fixed(value, decimals) {
  const size = Math.abs(value);
  const scale = decimals === 1 ? 4 : 2;
  let text = size.toFixed(decimals);
  if (decimals === 1 && (size * scale) % 4 === 1) text = `${Math.floor(size)}.2`;
  if (decimals === 0 && (size * scale) % 4 === 1) text = String(Math.floor(size));
  return value < 0 ? `-${text}` : text;
}

function digits(value) {
  const text = Math.abs(value) < 100 ? fixed(value, 1) : fixed(value, 0);
  return text.endsWith(".0") ? text.slice(0, -2) : text;
}

function scaled(value, base, last) {
  const limit = base === 1000 ? base - 0.05 : base - 0.5;
  let power = 0;
  while (Math.abs(value) >= limit && power < last) {
    value /= base;
    power += 1;
  }
  return [value, power];
}

function formatBytes(value) {
  if (!known(value)) return ABSENT;
  const [part, power] = scaled(value, 1024, BINARY.length - 1);
  return `${digits(part)} ${BINARY[power]}`;
}

function formatBandwidth(value) {
  return known(value) ? `${formatBytes(value)}/s` : ABSENT;
}

function formatCount(value) {
  if (!known(value)) return ABSENT;
  if (Math.abs(value) < 10000 && Number.isInteger(value)) return value.toLocaleString("en-US");
  const [part, power] = scaled(value, 1000, COUNTS.length - 1);
  return `${digits(part)}${COUNTS[power]}`;
}

function formatPercent(fraction) {
  if (!known(fraction)) return ABSENT;
  const percent = fraction * 100;
  return `${Math.abs(percent) >= 10 || percent === 0 ? fixed(percent, 0) : fixed(percent, 1)} %`;
}

function formatDuration(seconds) {
  if (!known(seconds)) return ABSENT;
  if (seconds < 0) return `-${formatDuration(-seconds)}`;
  if (seconds === 0) return "0 s";
  if (seconds < 1e-6) return `${fixed(seconds * 1e9, 0)} ns`;
  if (seconds < 999.5e-6) return `${digits(seconds * 1e6)} µs`;
  if (seconds < 0.9995) return `${digits(seconds * 1e3)} ms`;
  if (seconds < 99.95) return `${digits(seconds)} s`;
  const whole = Number(fixed(seconds, 0));
  const two = (number) => String(number).padStart(2, "0");
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  const minutes = Math.floor(whole / 60);
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${two(minutes % 60)} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

function formatTime(ns) {
  if (!known(ns)) return ABSENT;
  const moment = new Date(Math.floor(ns / 1e9) * 1000);
  if (Number.isNaN(moment.getTime())) return `${ns} ns since 1970`;
  return `${moment.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

function formatTimes(ratio) {
  if (!known(ratio)) return ABSENT;
  return `${ratio > 0 && ratio < 0.95 ? Number(ratio.toPrecision(2)) : digits(ratio)}×`;
}

// A share of something drawn: what is there is never said to be 0.0 %.
function formatShare(fraction) {
  return fraction > 0 && fraction < 0.0005 ? "under 0.1 %" : formatPercent(fraction);
}

// 0,1,2,3,7 → "0–3, 7"
function formatRanks(ranks, most = 8) {
  const sorted = [...new Set(ranks)].sort((a, b) => a - b);
  const runs = [];
  for (const rank of sorted) {
    const last = runs[runs.length - 1];
    if (last && rank === last[1] + 1) last[1] = rank;
    else runs.push([rank, rank]);
  }
  const words = runs.slice(0, most).map(([a, b]) => (a === b ? `${a}` : `${a}–${b}`));
  return words.join(", ") + (runs.length > most ? ", …" : "");
}

function plural(count, one, many = `${one}s`) {
  return `${formatCount(count)} ${count === 1 ? one : many}`;
}

// Ticks for an axis of seconds from `from` to `to`, at most about `most` of them: [[seconds, label], ...].
function timeTicks(from, to, most) {
  const reach = Math.max(Math.abs(from), Math.abs(to));
  const [unit, name] = reach < 2e-3 ? [1e-6, "µs"] : reach < 2 ? [1e-3, "ms"] : [1, "s"];
  const clock = reach >= 180;
  const wanted = (to - from) / unit / Math.max(most, 1);
  const tens = 10 ** Math.floor(Math.log10(wanted));
  let step = [1, 2, 5, 10].find((factor) => factor * tens >= wanted) * tens;
  if (clock && step >= 2) step = [2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400].find((size) => size >= wanted) || step;
  const decimals = Math.min(9, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
  const ticks = [];
  for (let index = Math.ceil(from / unit / step - 1e-9); index * step * unit <= to + step * unit * 1e-9; index += 1) {
    const value = index * step;
    ticks.push([value * unit, clock ? clockText(value, decimals) : `${value.toFixed(decimals)} ${name}`]);
  }
  return ticks;
}

function clockText(seconds, decimals) {
  const sign = seconds < 0 ? "-" : "";
  const size = Math.abs(seconds);
  const hours = Math.floor(size / 3600);
  const minutes = Math.floor((size % 3600) / 60);
  const rest = (size % 60).toFixed(decimals).padStart(decimals ? decimals + 3 : 2, "0");
  return sign + (hours ? `${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`);
}

// Round values up to `top` for an axis of bytes (or bytes per second): three to five of them, zero first.
function byteTicks(top) {
  if (!(top > 0)) return [0];
  const unit = 1024 ** Math.max(0, Math.floor(Math.log(top) / Math.log(1024)));
  const wanted = top / unit / 4;
  const tens = 10 ** Math.floor(Math.log10(wanted));
  const step = [1, 2, 5, 10].find((factor) => factor * tens >= wanted) * tens * unit;
  const ticks = [];
  for (let index = 0; index * step <= top * 1.0001; index += 1) ticks.push(index * step);
  return ticks;
}
