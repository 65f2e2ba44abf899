// Which run a page is about, as its address says it: number, cluster, and where a number had several runs, its start.
import { computed } from "vue";
import type { ComputedRef } from "vue";
import type { LocationQuery, RouteLocationRaw } from "vue-router";
import { useRoute } from "vue-router";
import { me } from "@/api/session";
import type { Bound, JobRow, Subject } from "@/api/types";
import { bytes, percent } from "@/words/format";

export interface RunWords {
  name: string;
  cluster?: string;
  from?: string;
  to?: string;
}

/** Epoch milliseconds as the server takes a moment. */
export const momentOf = (ms: number): string => `${Math.round(ms)}000000`;
const word = (query: LocationQuery, name: string): string => (typeof query[name] === "string" ? (query[name] as string) : "");

/** `asked` names the run; `latest` is true when the address names no start. */
export function useRun(): { name: ComputedRef<string>; cluster: ComputedRef<string>; latest: ComputedRef<boolean>; asked: ComputedRef<RunWords> } {
  const route = useRoute();
  const name = computed(() => String(route.params.name ?? ""));
  const cluster = computed(() => word(route.query, "cluster"));
  const run = computed(() => word(route.query, "run"));
  const latest = computed(() => !/^\d{9,16}$/.test(run.value));
  const asked = computed(() => wordsOf(name.value, cluster.value, latest.value ? "" : run.value));
  return { name, cluster, latest, asked };
}

/** A run by number, cluster and start (ms); without a start the latest. */
export function wordsOf(name: string, cluster: string, startMs: string): RunWords {
  const words: RunWords = { name, ...(cluster ? { cluster } : {}) };
  return startMs ? { ...words, from: momentOf(Number(startMs)), to: momentOf(Number(startMs) + 1000) } : words;
}

/** The words for all of a run whose account is known. */
export function wholeOf(asked: RunWords, job: JobRow | null): RunWords | null {
  if (!asked.from) return asked;
  if (!job || job.start_ns === null) return null;
  const { from: _from, to: _to, ...rest } = asked;
  const whole: RunWords = { ...rest, from: momentOf(job.start_ns / 1e6) };
  return job.end_ns === null ? whole : { ...whole, to: momentOf(Math.max(job.end_ns / 1e6, job.start_ns / 1e6 + 1000)) };
}

/** The page of a job; of that run of its number where its start is told. */
export function jobLink(id: string, cluster: string | null = null, startNs: number | null = null): RouteLocationRaw {
  const query: Record<string, string> = {};
  if (cluster) query.cluster = cluster;
  if (startNs !== null) query.run = String(Math.round(startNs / 1e6));
  return { path: `/jobs/${encodeURIComponent(id)}`, query };
}

const LAYERS = ["forwarder", "target", "mds", "network", "port", "device"];

/** Where a subject has a page this reader may open. */
export function subjectLink(subject: Subject): RouteLocationRaw | null {
  if (me.value?.how === "link" || subject.id.startsWith("another") || !subject.id) return null;
  if (subject.kind === "job") return jobLink(subject.id);
  if (subject.kind === "node" || subject.kind === "client") return { path: `/nodes/${encodeURIComponent(subject.id)}` };
  if (!LAYERS.includes(subject.kind)) return null;
  const kind = subject.kind === "port" ? "network" : subject.kind;
  return { path: `/layers/${kind}/${encodeURIComponent(subject.id)}` };
}

export const subjectSaid = (subject: Subject): string => (subject.id.startsWith("another") ? subject.id : `${subject.kind} ${subject.id}`);

/** Seconds a run took, or takes so far. */
export function runSeconds(job: JobRow, nowMs = Date.now()): number | null {
  if (job.start_ns === null) return null;
  const end = job.end_ns ?? (job.running ? nowMs * 1e6 : null);
  return end === null ? null : (end - job.start_ns) / 1e9;
}

export function moved(sums: { read_bytes: number | null; write_bytes: number | null }): number | null {
  return sums.read_bytes === null && sums.write_bytes === null ? null : (sums.read_bytes ?? 0) + (sums.write_bytes ?? 0);
}

export const VERDICTS: Record<string, { said: string; tone: string }> = {
  slowed: { said: "slowed by others", tone: "bad" },
  slow: { said: "slow, cause unknown", tone: "bad" },
  changed: { said: "different I/O than usual", tone: "warning" },
  usual: { said: "as usual", tone: "good" },
  unknown: { said: "nothing to compare with", tone: "muted" },
  running: { said: "still running", tone: "muted" },
};

export const LAYER_SAID: Record<string, string> = {
  client: "Client", agent: "Client (agent)", forwarder: "Forwarder", target: "Storage targets", mds: "Metadata servers", metadata: "Metadata servers", trace: "Trace", node: "Nodes", server: "Servers",
  network: "Network", pfs_client: "File system clients of its nodes", port: "Network links of its nodes", device: "Devices",
};
export const layerSaid = (layer: string): string => LAYER_SAID[layer] ?? layer.charAt(0).toUpperCase() + layer.slice(1);

/** How far figures of a job may be off, and why; empty where they were counted by job. */
export function boundOf(bound: Bound | null): string {
  if (!bound) return "";
  if (bound.share !== null && bound.share < 0.0005) return "alone on its nodes";
  const why = bound.shared ? "shared node" : "next job at once";
  return bound.share === null ? `up to ${bytes(moved(bound.high))}, ${why}` : `± ${percent(bound.share)}, ${why}`;
}
