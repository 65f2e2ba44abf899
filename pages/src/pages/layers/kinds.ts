// The layers of the path: what they and their components are called, what they are measured in, where their pages are.
import type { RouteLocationRaw } from "vue-router";
import type { Subject, Sums } from "@/api/types";
import { bytes, count, perSecond, rate } from "@/words/format";

export type Kind = "forwarder" | "target" | "mds" | "network" | "device";

export interface Layer {
  kind: Kind;
  title: string;
  one: string;
  many: string;
  /** The layer's word in incidents, findings and daily volumes. */
  inHealth: string;
  inVolumes: string;
  /** What it does is counted in bytes, or in operations. */
  moves: "bytes" | "operations";
  about: string;
}

export const LAYERS: Record<Kind, Layer> = {
  forwarder: { kind: "forwarder", title: "Forwarders", one: "forwarder", many: "forwarders", inHealth: "forwarder", inVolumes: "forwarder", moves: "bytes", about: "Servers that carry requests of many nodes to the file system." },
  target: { kind: "target", title: "Targets", one: "target", many: "targets", inHealth: "target", inVolumes: "target", moves: "bytes", about: "Storage targets that hold the data of files." },
  mds: { kind: "mds", title: "Metadata", one: "metadata server", many: "metadata servers", inHealth: "mds", inVolumes: "metadata", moves: "operations", about: "Servers for open, create, stat, remove." },
  network: { kind: "network", title: "Network", one: "port", many: "ports", inHealth: "port", inVolumes: "port", moves: "bytes", about: "Ports of switches and adapters between nodes and servers." },
  device: { kind: "device", title: "Devices", one: "device", many: "devices", inHealth: "device", inVolumes: "device", moves: "bytes", about: "Burst-buffer and node-local devices." },
};

export const layerOf = (kind: string): Layer | null => (Object.hasOwn(LAYERS, kind) ? LAYERS[kind as Kind] : null);

const KIND_OF: Record<string, Kind> = { forwarder: "forwarder", target: "target", mds: "mds", metadata: "mds", port: "network", network: "network", device: "device" };

/** The layer's page for a word of incidents, findings or rollups; null: it has none. */
export const kindOf = (word: string): Kind | null => (Object.hasOwn(KIND_OF, word) ? (KIND_OF[word] as Kind) : null);

const part = (name: string): string => name.split("/").map(encodeURIComponent).join("/");

type Query = Record<string, string>;

/** Where one reads about a component, a node or a job; null: nowhere. */
export function placeOf(word: string, id: string, query: Query = {}): RouteLocationRaw | null {
  if (word === "job") return { path: `/jobs/${encodeURIComponent(id)}`, query };
  if (word === "client" || word === "node") return { path: `/nodes/${encodeURIComponent(id)}`, query };
  const kind = kindOf(word);
  return kind ? { path: `/layers/${kind}/${part(id)}`, query } : null;
}

export const placeOfSubject = (subject: Subject): RouteLocationRaw | null => placeOf(subject.kind, subject.id);

export const jobPlace = (job: string, cluster?: string | null): RouteLocationRaw => ({ path: `/jobs/${encodeURIComponent(job)}`, query: cluster ? { cluster } : {} });

/** Read and written, as far as known. */
export function moved(sums: Sums): number | null {
  return sums.read_bytes === null && sums.write_bytes === null ? null : (sums.read_bytes ?? 0) + (sums.write_bytes ?? 0);
}

/** What a component did in the layer's own measure. */
export const did = (layer: Layer, sums: Sums): number | null => (layer.moves === "bytes" ? moved(sums) : sums.metadata_ops);
export const amountOf = (layer: Layer, value: number | null): string => (layer.moves === "bytes" ? bytes(value) : count(value));
export const speedOf = (layer: Layer, value: number | null): string => (layer.moves === "bytes" ? rate(value) : perSecond(value));

/** Beacon's four levels of load (TOS 2023, section 7). */
export const LEVELS = [
  { level: 0, word: "idle", said: "below 10 %" },
  { level: 1, word: "low", said: "10 to 50 %" },
  { level: 2, word: "mid", said: "50 to 90 %" },
  { level: 3, word: "high", said: "90 % or more" },
] as const;

export function levelOf(load: number | null): number | null {
  return load === null ? null : load < 0.1 ? 0 : load < 0.5 ? 1 : load < 0.9 ? 2 : 3;
}

