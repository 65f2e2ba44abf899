// Findings that say the same of the same are one line that opens.
import type { Subject, StoredFinding } from "@/api/types";
import { subjectSaid } from "@/pages/job/run";
import { count, seconds } from "@/words/format";

export interface Group {
  key: string;
  first: StoredFinding;
  rest: StoredFinding[];
  /** Seconds lost by all of them; null where none is known. */
  cost: number | null;
  from: number | null;
  to: number | null;
}

const named = (one: Subject): string => `${one.kind}:${one.id}`;

/** The component that is blamed, where no job is. */
const toBlame = ({ finding, job_id }: StoredFinding): Subject[] => (job_id !== null && finding.culprits.every((one) => one.kind !== "job") ? finding.culprits : []);

/** Jobs for which the same component is blamed, however grave for each; else the same rule, as grave, about the same
 *  component, or about one user's jobs at the same components. */
function keyOf(told: StoredFinding): string {
  const { finding } = told;
  const blamed = toBlame(told);
  if (blamed.length) return [finding.rule, told.cluster ?? "", ...blamed.map(named).sort()].join("|");
  const whose = told.job_id === null ? named(finding.subject) : `${told.user ?? told.job_id}|${told.components.map(named).sort().join()}|${finding.category}`;
  return [finding.severity, finding.rule, told.cluster ?? "", whose].join("|");
}

export function grouped(list: StoredFinding[]): Group[] {
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

/** What the line of a group says: of several jobs that one component slowed, all of them and what they lost. */
export function titleOf(group: Group): string {
  const blamed = toBlame(group.first);
  if (!group.rest.length || !blamed.length) return group.first.finding.title;
  const jobs = new Set([group.first, ...group.rest].map((one) => `${one.cluster}/${one.job_id}`)).size;
  return `${count(jobs)} job${jobs === 1 ? "" : "s"} lost ${group.cost === null ? "time" : seconds(group.cost)} to ${blamed.map(subjectSaid).join(", ")}`;
}
