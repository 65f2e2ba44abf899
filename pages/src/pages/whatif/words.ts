// What a replay says, in words. Everything here is simulated, and the words say so.
import type { Check, HeldOut, Scenario, WhatIf } from "@/api/types";
import { UNKNOWN, count, percent, seconds } from "@/words/format";
import { exactly } from "@/words/time";

export const HOW =
  "Simulated: every job begins when it did and computes as long as it did; its I/O runs at the rate its program reaches alone and shares the components it uses. Waiting in the batch queue does not change.";

export const BASES: Record<string, [string, string]> = {
  own: ["own runs", "the program's own runs show what it reaches"],
  class: ["similar runs", "runs with the same mode and requests are used"],
  machine: ["machine defaults", "no similar run was seen: typical rates of a node and a forwarder"],
};
const PEAKS: Record<string, string> = { told: "stated in the site file", seen: "the highest rates seen", assumed: "assumed: neither stated nor counted" };
export const peakBasis = (basis: string): string => PEAKS[basis] ?? basis;

export function hours(value: number | null | undefined): string {
  if (value === null || value === undefined) return UNKNOWN;
  const size = Math.abs(value);
  const text = size >= 100 ? Math.round(value).toLocaleString("en") : size >= 1 ? value.toFixed(1) : value.toFixed(2);
  return text.replace("-", "−");
}

export function slowdown(value: number | null | undefined): string {
  return value === null || value === undefined ? UNKNOWN : `${value.toFixed(2)}\u202f×`;
}

/** A share: with one digit more below a tenth. */
const part = (share: number): string => percent(share, share < 0.0995 ? 1 : 0);

export function signed(share: number | null | undefined): string {
  if (share === null || share === undefined) return UNKNOWN;
  return `${share >= 0 ? "+" : "−"}${part(Math.abs(share))}`;
}

/** How `after` differs from `before`; less is better. */
export function differs(before: number | null, after: number | null): { text: string; kind: "good" | "bad" | "same" } {
  if (before === null || after === null) return { text: "not known", kind: "same" };
  if (before === after) return { text: "no difference", kind: "same" };
  if (before <= 0) return { text: "more than before", kind: "bad" };
  const share = (after - before) / before;
  if (Math.abs(share) < 0.005) return { text: "no difference", kind: "same" };
  return share < 0 ? { text: `${part(-share)} less`, kind: "good" } : { text: `${part(share)} more`, kind: "bad" };
}

export interface Measure {
  name: string;
  about: string;
  before: number | null;
  after: number | null;
  write: (value: number | null) => string;
  top: number;
}

/** What is compared before and after, each on a scale of its own. */
export function measures(before: Scenario, after: Scenario): Measure[] {
  const made = (name: string, about: string, of: (one: Scenario) => number | null | undefined, write: (value: number | null) => string, top?: number): Measure => {
    const [one, two] = [of(before) ?? null, of(after) ?? null];
    return { name, about, before: one, after: two, write, top: top ?? (Math.max(one ?? 0, two ?? 0) || 1) };
  };
  const found = [
    made("Core-hours in I/O", "cores waiting for I/O", (one) => one.io_core_hours, hours),
    made("Avoidable part", "beyond what each job needs alone with the best allocation", (one) => one.avoidable_core_hours, hours, Math.max(before.io_core_hours, after.io_core_hours) || 1),
    made("Mean slowdown", "I/O time relative to running alone; 1 is undisturbed", (one) => one.mean_slowdown, slowdown),
    made("Slowdown of the slowest tenth", "90th percentile over jobs", (one) => one.p90_slowdown, slowdown),
  ];
  if (before.forwarders || after.forwarders) {
    found.push(made("Forwarders busy, mean", "share of the time", (one) => one.busy_forwarders, (value) => percent(value), 1));
    found.push(made("Busiest forwarder", "share of the time", (one) => one.busiest_forwarder, (value) => percent(value), 1));
  }
  found.push(made("Targets busy, mean", "share of the time", (one) => one.busy_targets, (value) => percent(value), 1));
  found.push(made("Busiest target", "share of the time", (one) => one.busiest_target, (value) => percent(value), 1));
  return found;
}

export function ofJobs(answer: WhatIf): string {
  let line = `${answer.jobs.toLocaleString("en")} jobs with I/O replayed, ${hours(answer.core_hours)} core-hours`;
  if (answer.quiet_jobs) line += `; ${answer.quiet_jobs.toLocaleString("en")} without any`;
  if (answer.running_jobs) line += `; ${answer.running_jobs.toLocaleString("en")} not over yet`;
  return line;
}

/** How far to trust it: high, middling, low or unknown, with the reason in a sentence. */
export function trust(answer: WhatIf): { level: string; kind: "good" | "warning" | "bad" | "unknown"; text: string } {
  const check = answer.checks[0];
  if (!check || check.error_p50 === null || check.total_error === null) {
    return { level: "Not checked", kind: "unknown", text: "Nothing measured could be compared with the replay." };
  }
  const off = Math.abs(check.total_error);
  const sum = off < 0.005 ? "matches the measured core-hours" : `comes to ${part(off)} ${check.total_error > 0 ? "more" : "less"} core-hours than were measured`;
  const text = `The replay of the actual configuration ${sum}; half of the jobs are within ${part(check.error_p50)}.`;
  if (Math.abs(check.total_error) <= 0.1 && check.error_p50 <= 0.15) return { level: "Good", kind: "good", text };
  if (Math.abs(check.total_error) <= 0.3 && check.error_p50 <= 0.3) return { level: "Medium", kind: "warning", text: `${text} Rely on sums rather than single jobs.` };
  return { level: "Low", kind: "bad", text: `${text} Do not rely on figures of single jobs, and use sums with care.` };
}

export function checkLine(check: Check): string {
  return `${count(check.compared)} of ${count(check.jobs)} jobs compared: ${hours(check.measured_core_hours)} core-hours measured, ${hours(check.replayed_core_hours)} replayed (${signed(check.total_error)}). The median job is off by ${percent(check.error_p50)}, one in ten by more than ${percent(check.error_p90)}.`;
}

export function heldLine(held: HeldOut): string {
  const one = held.check;
  return `At ${exactly(held.at_ns)} ${held.nodes_changed.toLocaleString("en")} of ${held.nodes.toLocaleString("en")} nodes got another forwarder. From the ${held.learnt.toLocaleString("en")} jobs before it alone, ${hours(one.replayed_core_hours)} core-hours in I/O were predicted for the ${one.jobs.toLocaleString("en")} jobs after it; ${hours(one.measured_core_hours)} were measured. Under the old map it would have been ${hours(held.as_before_core_hours)}.`;
}

export const span = (before: number, after: number): string => `${seconds(before)} → ${seconds(after)}`;
