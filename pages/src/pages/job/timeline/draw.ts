// Draws the lanes of a job on one time axis. Everything on the canvas is made here; nothing is kept.
import { bytes, perSecond, rate } from "@/words/format";
import { onAxis } from "@/words/time";
import type { Curve, LaneData, Level, Stretch, Strip } from "@/pages/job/timeline/levels";
import { highest, pointsIn } from "@/pages/job/timeline/levels";
import { rounded } from "@/parts/axis";

export const PHASES_HIGH = 24;
export const TITLE_HIGH = 22;
export const STRIP_HIGH = 34;
export const AXIS_HIGH = 24;

export interface Place {
  left: number;
  right: number;
  width: number;
  laneHigh: number;
}

export interface Scene {
  level: Level;
  window: Stretch;
  place: Place;
  colour: (name: string) => string;
}

export const plotWidth = (place: Place): number => Math.max(10, place.width - place.left - place.right);
export const heightOf = (lanes: number, strips: number, place: Place): number => PHASES_HIGH + lanes * (TITLE_HIGH + place.laneHigh) + (strips ? TITLE_HIGH + strips * STRIP_HIGH : 0) + AXIS_HIGH;
export const laneTop = (at: number, place: Place): number => PHASES_HIGH + at * (TITLE_HIGH + place.laneHigh);
export const stripsTop = (lanes: number, place: Place): number => PHASES_HIGH + lanes * (TITLE_HIGH + place.laneHigh);
export const xOf = (time: number, window: Stretch, place: Place): number => place.left + ((time - window.from) / (window.to - window.from)) * plotWidth(place);
export const timeOf = (x: number, window: Stretch, place: Place): number => window.from + ((x - place.left) / plotWidth(place)) * (window.to - window.from);

export function draw(context: CanvasRenderingContext2D, scene: Scene): void {
  const { level, place } = scene;
  context.clearRect(0, 0, place.width, context.canvas.height);
  context.font = "11px system-ui, 'Noto Sans', 'DejaVu Sans', sans-serif";
  context.textBaseline = "middle";
  const high = heightOf(level.lanes.length, level.strips.length, place);
  phases(context, scene, high - AXIS_HIGH);
  const hatch = hatching(context, scene.colour("unknown"));
  level.lanes.forEach((lane, at) => drawLane(context, scene, lane, laneTop(at, place) + TITLE_HIGH, hatch));
  const top = Math.max(1e-9, ...level.strips.filter((one) => !one.ofOps).map((one) => highestOf(one, level, scene.window)));
  const topOps = Math.max(1e-9, ...level.strips.filter((one) => one.ofOps).map((one) => highestOf(one, level, scene.window)));
  level.strips.forEach((strip, at) => drawStrip(context, scene, strip, stripsTop(level.lanes.length, place) + TITLE_HIGH + at * STRIP_HIGH, strip.ofOps ? topOps : top));
  axis(context, scene, high - AXIS_HIGH);
}

function inPlot(context: CanvasRenderingContext2D, place: Place, top: number, high: number, what: () => void): void {
  context.save();
  context.beginPath();
  context.rect(place.left, top, plotWidth(place), high);
  context.clip();
  what();
  context.restore();
}

function phases(context: CanvasRenderingContext2D, scene: Scene, bottom: number): void {
  const { level, window, place, colour } = scene;
  inPlot(context, place, 0, bottom, () => {
    for (const phase of level.phases) {
      if (phase.to < window.from || phase.from > window.to) continue;
      const from = xOf(phase.from, window, place);
      const wide = Math.max(1, xOf(phase.to, window, place) - from);
      const bad = isBad(phase);
      context.fillStyle = colour(bad ? "phase-bad" : `phase-${phase.kind}`) || colour("phase-metadata");
      context.fillRect(from, 0, wide, bottom);
      context.fillStyle = colour(bad ? "bad" : phase.kind === "read" ? "read" : phase.kind === "write" ? "write" : "meta");
      context.fillRect(from, 0, wide, 3);
      const shown = Math.max(from, place.left);
      const room = Math.min(from + wide, place.left + plotWidth(place)) - shown - 8;
      const long = `${phase.kind} ${phase.number + 1}${bad ? " · slow" : ""}${bad && phase.lost_s ? `, ${phase.lost_s.toFixed(phase.lost_s < 10 ? 1 : 0)} s lost` : ""}`;
      const text = [long, `${phase.kind} ${phase.number + 1}`, `${phase.number + 1}`].find((one) => context.measureText(one).width <= room);
      if (text) {
        context.fillStyle = colour(bad ? "bad" : "muted");
        context.fillText(text, shown + 4, PHASES_HIGH / 2 + 1);
      }
    }
  });
}

/** A phase that probably took longer than chance makes it, by what is worth a word: as the analysis judges. */
export const isBad = (phase: { abnormal: number | null; lost_s: number | null }): boolean => (phase.abnormal ?? 0) >= 0.5 && (phase.lost_s ?? 0) >= 1;

function drawLane(context: CanvasRenderingContext2D, scene: Scene, lane: LaneData, top: number, hatch: CanvasPattern | null): void {
  const { level, window, place, colour } = scene;
  const high = place.laneHigh - 6;
  const onlyMeta = !lane.read.told && !lane.write.told && lane.meta.told;
  const most = onlyMeta ? 0 : rounded(highest(level, window, [lane.read, lane.write]), 1024);
  const mostOps = lane.meta.told ? rounded(highest(level, window, [lane.meta]), 1000) : 0;
  context.strokeStyle = colour("grid");
  context.lineWidth = 1;
  for (const share of [0, 0.5, 1]) {
    const y = Math.round(top + high * (1 - share)) + 0.5;
    context.beginPath();
    context.moveTo(place.left, y);
    context.lineTo(place.left + plotWidth(place), y);
    context.stroke();
    context.fillStyle = colour("muted");
    context.textAlign = "right";
    const said = onlyMeta ? perSecond(mostOps * share) : share ? rate(most * share).replace("/s", "") : "0";
    if (share !== 0.5 || high > 60) context.fillText(share === 0 ? "0" : said, place.left - 6, y);
    context.textAlign = "left";
  }
  inPlot(context, place, top - 1, high + 2, () => {
    if (hatch) unknownParts(context, scene, lane, top, high, hatch);
    if (lane.meta.told) trace(context, scene, lane.meta, top, high, mostOps, colour("meta"), true);
    if (lane.read.told) trace(context, scene, lane.read, top, high, most, colour("read"), false);
    if (lane.write.told) trace(context, scene, lane.write, top, high, most, colour("write"), false);
  });
  if (lane.meta.told && !onlyMeta) {
    context.textAlign = "right";
    context.fillStyle = colour("meta");
    context.fillText(`${perSecond(mostOps)} ops`, place.left + plotWidth(place) - 4, top + 7);
    context.textAlign = "left";
  }
}

function unknownParts(context: CanvasRenderingContext2D, scene: Scene, lane: LaneData, top: number, high: number, hatch: CanvasPattern): void {
  const { level, window, place } = scene;
  const [first, last] = pointsIn(level, window);
  const nothing = (k: number): boolean => Number.isNaN(lane.read.mean[k]!) && Number.isNaN(lane.write.mean[k]!) && Number.isNaN(lane.meta.mean[k]!);
  context.fillStyle = hatch;
  for (let k = first; k <= last; k += 1) {
    if (!nothing(k)) continue;
    let end = k;
    while (end < last && nothing(end + 1)) end += 1;
    const from = xOf(level.from + k * level.step, window, place);
    context.fillRect(from, top, xOf(level.from + (end + 1) * level.step, window, place) - from, high);
    k = end;
  }
}

function hatching(context: CanvasRenderingContext2D, tone: string): CanvasPattern | null {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const pen = tile.getContext("2d")!;
  pen.strokeStyle = tone;
  pen.lineWidth = 1;
  pen.beginPath();
  for (const shift of [-6, 0, 6]) {
    pen.moveTo(shift, 6);
    pen.lineTo(shift + 6, 0);
  }
  pen.stroke();
  return context.createPattern(tile, "repeat");
}

/** The mean as a line over a light area, the range of the finer values within each point as a band around it. */
function trace(context: CanvasRenderingContext2D, scene: Scene, one: Curve, top: number, high: number, most: number, tone: string, dashed: boolean): void {
  const { level, window, place } = scene;
  const [first, last] = pointsIn(level, window);
  const stepped = (level.step / (window.to - window.from)) * plotWidth(place) > 3;
  const x = (k: number): number => xOf(level.from + k * level.step, window, place);
  const y = (value: number): number => top + high * (1 - Math.min(value / most, 1));
  const base = top + high;
  for (let k = first; k <= last; k += 1) {
    if (Number.isNaN(one.mean[k]!)) continue;
    let end = k;
    while (end < last && !Number.isNaN(one.mean[end + 1]!)) end += 1;
    if (one.low && one.high && !dashed) {
      context.globalAlpha = 0.25;
      shape(context, k, end, x, (at) => y(one.high![at]!), (at) => y(one.low![at]!), stepped);
      context.fillStyle = tone;
      context.fill();
    }
    if (!dashed) {
      context.globalAlpha = 0.1;
      shape(context, k, end, x, (at) => y(one.mean[at]!), () => base, stepped);
      context.fillStyle = tone;
      context.fill();
    }
    context.globalAlpha = 1;
    context.strokeStyle = tone;
    context.lineWidth = 1.4;
    context.setLineDash(dashed ? [4, 2] : []);
    context.beginPath();
    along(context, k, end, x, (at) => y(one.mean[at]!), stepped, true);
    context.stroke();
    context.setLineDash([]);
    k = end;
  }
}

function along(context: CanvasRenderingContext2D, first: number, last: number, x: (k: number) => number, y: (k: number) => number, stepped: boolean, begin: boolean): void {
  for (let k = first; k <= last; k += 1) {
    if (k === first && begin) context.moveTo(x(k), y(k));
    else context.lineTo(stepped || k === first ? x(k) : (x(k) + x(k + 1)) / 2, y(k));
    if (stepped || k === last) context.lineTo(x(k + 1), y(k));
  }
}

function shape(context: CanvasRenderingContext2D, first: number, last: number, x: (k: number) => number, upper: (k: number) => number, lower: (k: number) => number, stepped: boolean): void {
  context.beginPath();
  along(context, first, last, x, upper, stepped, true);
  for (let k = last; k >= first; k -= 1) {
    context.lineTo(x(k + 1), lower(k));
    if (stepped || k === first) context.lineTo(x(k), lower(k));
  }
  context.closePath();
}

function highestOf(strip: Strip, level: Level, window: Stretch): number {
  return highest(level, window, [{ mean: strip.values, low: null, high: null, told: true }]);
}

function drawStrip(context: CanvasRenderingContext2D, scene: Scene, strip: Strip, top: number, most: number): void {
  const { level, window, place, colour } = scene;
  const [first, last] = pointsIn(level, window);
  const begin = top + 17;
  const high = STRIP_HIGH - 20;
  context.fillStyle = colour("grid");
  context.fillRect(place.left, begin + high, plotWidth(place), 1);
  inPlot(context, place, begin, high, () => {
    context.fillStyle = colour(strip.blamed ? "culprit" : "other");
    for (let k = first; k <= last; k += 1) {
      const value = strip.values[k]!;
      if (!(value > 0)) continue;
      const from = Math.floor(xOf(level.from + k * level.step, window, place));
      const wide = Math.ceil(xOf(level.from + (k + 1) * level.step, window, place)) - from;
      const tall = Math.max(1.5, high * Math.min(1, value / most));
      context.fillRect(from, begin + high - tall, Math.max(1, wide), tall);
    }
  });
}

const STEPS_S = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400, 172_800, 604_800];

function axis(context: CanvasRenderingContext2D, scene: Scene, top: number): void {
  const { level, window, place, colour } = scene;
  const length = window.to - window.from;
  const most = Math.max(2, Math.floor(plotWidth(place) / 92));
  const step = STEPS_S.find((one) => length / one <= most) ?? 604_800;
  const zone = new Date(level.originNs / 1e6).getTimezoneOffset() * 60;
  const origin = level.originNs / 1e9 - zone;
  const first = Math.ceil((origin + window.from) / step) * step - origin;
  context.textAlign = "center";
  for (let at = first; at <= window.to; at += step) {
    const x = Math.round(xOf(at, window, place)) + 0.5;
    context.strokeStyle = colour("axis");
    context.beginPath();
    context.moveTo(x, top);
    context.lineTo(x, top + 5);
    context.stroke();
    const text = onAxis(level.originNs + at * 1e9, length * 1e9);
    const half = context.measureText(text).width / 2;
    context.fillStyle = colour("muted");
    context.fillText(text, Math.min(Math.max(x, place.left + half - 20), place.width - half - 2), top + 15);
  }
  context.textAlign = "left";
  context.strokeStyle = colour("axis");
  context.beginPath();
  context.moveTo(place.left, top + 0.5);
  context.lineTo(place.left + plotWidth(place), top + 0.5);
  context.stroke();
}

/** What a point of a lane says, in words. */
export function told(lane: LaneData, k: number): string[] {
  const words: string[] = [];
  const range = (one: Curve, said: (value: number) => string): string => {
    const mean = one.mean[k]!;
    if (Number.isNaN(mean)) return "not known";
    const low = one.low?.[k];
    const high = one.high?.[k];
    return low !== undefined && high !== undefined && !Number.isNaN(high) && high - low > mean * 0.01 ? `${said(mean)} (${said(low)} to ${said(high)})` : said(mean);
  };
  if (lane.read.told) words.push(`read ${range(lane.read, rate)}`);
  if (lane.write.told) words.push(`write ${range(lane.write, rate)}`);
  if (lane.meta.told) words.push(`metadata ${range(lane.meta, perSecond)}`);
  return words.length ? words : ["not known"];
}

export const stripSaid = (strip: Strip): string => (strip.ofOps ? `${perSecond(strip.metadata_ops).replace("/s", "")} metadata operations` : bytes(strip.bytes));
