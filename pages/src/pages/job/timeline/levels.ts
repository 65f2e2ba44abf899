// A job's timeline at several resolutions, kept so that zooming draws at once. Times are seconds since the run began.
import type { Gap, JobTimeline, Line, Neighbour, PhaseBand } from "@/api/types";

export interface Stretch {
  from: number;
  to: number;
}

export interface Curve {
  mean: Float64Array;
  low: Float64Array | null;
  high: Float64Array | null;
  /** Some of it is known. */
  told: boolean;
}

export interface LaneData {
  layer: string;
  read: Curve;
  write: Curve;
  meta: Curve;
  estimated: boolean;
  knownShare: number | null;
}

export interface Strip extends Omit<Neighbour, "bytes_per_s" | "ops_per_s"> {
  values: Float64Array;
  ofOps: boolean;
}

export interface Band extends PhaseBand, Stretch {}

export interface Level extends Stretch {
  step: number;
  points: number;
  finest: number;
  originNs: number;
  lanes: LaneData[];
  phases: Band[];
  strips: Strip[];
  gaps: Gap[];
}

const floats = (values: (number | null)[]): Float64Array => Float64Array.from(values, (value) => value ?? NaN);

function curve(line: Line): Curve {
  const mean = floats(line.mean);
  return { mean, low: line.low.length ? floats(line.low) : null, high: line.high.length ? floats(line.high) : null, told: mean.some((value) => !Number.isNaN(value)) };
}

export function levelOf(answer: JobTimeline, originNs: number): Level {
  const since = (ns: number): number => (ns - originNs) / 1e9;
  const from = since(answer.from_ns);
  const step = answer.step_ns / 1e9;
  return {
    from, to: from + step * answer.points, step, points: answer.points, finest: answer.finest_ns / 1e9, originNs,
    lanes: answer.lanes.map((lane) => ({ layer: lane.layer, read: curve(lane.read_bytes_per_s), write: curve(lane.write_bytes_per_s), meta: curve(lane.metadata_ops_per_s), estimated: lane.estimated, knownShare: lane.known_share })),
    phases: answer.phases.map((phase) => ({ ...phase, from: since(phase.start_ns), to: since(phase.end_ns) })),
    strips: answer.neighbours.map(stripOf),
    gaps: answer.gaps,
  };
}

function stripOf(one: Neighbour): Strip {
  const { bytes_per_s, ops_per_s, ...rest } = one;
  const ofOps = !bytes_per_s.some((value) => value !== null && value > 0) && ops_per_s.length > 0;
  return { ...rest, values: floats(ofOps ? ops_per_s : bytes_per_s), ofOps };
}

const MOST = 16;

/** The whole run and what was looked at more closely. */
export class Levels {
  whole: Level | null = null;
  private fine: Level[] = [];

  put(made: Level): void {
    const level = this.whole ? asWide(made, this.whole) : made;
    this.fine = [level, ...this.fine.filter((one) => one.from !== level.from || one.to !== level.to)].slice(0, MOST);
  }

  forget(): void {
    this.fine = [];
  }

  /** The finest that covers the stretch; the whole run where nothing finer does. */
  best(window: Stretch): Level | null {
    let found = this.whole;
    for (const level of this.fine) {
      const ends = Math.min(window.to, this.whole?.to ?? window.to);
      if (level.from <= window.from + level.step && level.to >= ends - level.step && level.step < (found?.step ?? Infinity)) found = level;
    }
    return found;
  }
}

/** A finer level with the lanes and neighbours the whole run has, in its order: zooming must not move the picture. What
 * the finer one does not tell is drawn as coarsely as it is known. */
function asWide(level: Level, whole: Level): Level {
  const sampled = (values: Float64Array): Float64Array => Float64Array.from({ length: level.points }, (_, k) => values[Math.floor((level.from + (k + 0.5) * level.step - whole.from) / whole.step)] ?? NaN);
  const curveOf = (one: Curve): Curve => ({ mean: sampled(one.mean), low: one.low && sampled(one.low), high: one.high && sampled(one.high), told: one.told });
  const same = (a: Strip, b: Strip): boolean => a.job_id === b.job_id && a.component === b.component;
  return {
    ...level,
    lanes: [
      ...whole.lanes.map((lane) => level.lanes.find((one) => one.layer === lane.layer) ?? { ...lane, read: curveOf(lane.read), write: curveOf(lane.write), meta: curveOf(lane.meta) }),
      ...level.lanes.filter((lane) => !whole.lanes.some((one) => one.layer === lane.layer)),
    ],
    strips: [
      ...whole.strips.map((strip) => level.strips.find((one) => same(one, strip)) ?? { ...strip, values: sampled(strip.values) }),
      ...level.strips.filter((strip) => !whole.strips.some((one) => same(one, strip))),
    ],
  };
}

/** First and last point of a level that the stretch touches. */
export function pointsIn(level: Level, window: Stretch): [number, number] {
  const first = Math.max(0, Math.floor((window.from - level.from) / level.step));
  const last = Math.min(level.points - 1, Math.ceil((window.to - level.from) / level.step));
  return [first, last];
}

/** The highest known value of curves within the stretch, 0 where there is none. */
export function highest(level: Level, window: Stretch, curves: Curve[]): number {
  const [first, last] = pointsIn(level, window);
  let top = 0;
  for (const one of curves) {
    const values = one.high ?? one.mean;
    for (let k = first; k <= last; k += 1) if (values[k]! > top) top = values[k]!;
  }
  return top;
}

export interface Course {
  mean: number | null;
  peak: number | null;
  peakAt: number | null;
  unknown: number;
}

/** A curve in figures: what a table says of it. */
export function figures(level: Level, window: Stretch, one: Curve): Course {
  const [first, last] = pointsIn(level, window);
  let sum = 0;
  let known = 0;
  let peak: number | null = null;
  let peakAt: number | null = null;
  for (let k = first; k <= last; k += 1) {
    const value = one.mean[k]!;
    if (Number.isNaN(value)) continue;
    known += 1;
    sum += value;
    const high = one.high?.[k] ?? value;
    if (peak === null || high > peak) [peak, peakAt] = [high, level.from + k * level.step];
  }
  const all = Math.max(1, last - first + 1);
  return { mean: known ? sum / known : null, peak, peakAt, unknown: 1 - known / all };
}
