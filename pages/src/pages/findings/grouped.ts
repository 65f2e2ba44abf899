// Findings that say the same of the same are one line that opens.
import type { Subject, Told } from "@/api/types";

export interface Group {
  key: string;
  first: Told;
  rest: Told[];
  /** Seconds lost by all of them; null where none is known. */
  cost: number | null;
  from: number | null;
  to: number | null;
}

const named = (one: Subject): string => `${one.kind}:${one.id}`;

/** The same rule, as grave, about the same component, or about jobs for which the same component is blamed, or about
 *  one user's jobs at the same components. */
function keyOf(told: Told): string {
  const { finding } = told;
  const blamed = finding.culprits.length > 0 && finding.culprits.every((one) => one.kind !== "job");
  const whose = blamed && told.job_id !== null ? finding.culprits.map(named).sort().join() : told.job_id === null ? named(finding.subject) : `${told.user ?? told.job_id}|${told.components.map(named).sort().join()}|${finding.category}`;
  return [finding.severity, finding.rule, told.cluster ?? "", whose].join("|");
}

export function grouped(list: Told[]): Group[] {
  const groups = new Map<string, Group>();
  for (const told of list) {
    const key = keyOf(told);
    const { cost_s, from_ns, to_ns } = told.finding;
    const group = groups.get(key);
    if (!group) {
      groups.set(key, { key, first: told, rest: [], cost: cost_s, from: from_ns, to: to_ns });
      continue;
    }
    group.rest.push(told);
    if (cost_s !== null) group.cost = (group.cost ?? 0) + cost_s;
    if (from_ns !== null) group.from = group.from === null ? from_ns : Math.min(group.from, from_ns);
    if (to_ns !== null) group.to = group.to === null ? null : Math.max(group.to, to_ns);
  }
  return [...groups.values()];
}
