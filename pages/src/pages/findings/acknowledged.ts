// Who has taken on what: fetched for a stretch of time, changed by the reader, shown at once.
import { computed, ref, watch } from "vue";
import type { ComputedRef } from "vue";
import { usePath } from "@/api/answer";
import { Refused, queryOf, request } from "@/api/client";
import type { Words } from "@/api/client";
import { may, seesAll } from "@/api/session";
import type { Acknowledgement, Acknowledgements, StoredFinding } from "@/api/types";

export interface Takings {
  of: (id: string) => Acknowledgement | null;
  take: (id: string, text: string) => Promise<void>;
  giveBack: (id: string) => Promise<void>;
  trouble: ComputedRef<Refused | null>;
  /** Counts changes, for lists that are filtered by them. */
  changes: ComputedRef<number>;
}

const place = (id: string): string => `findings/${encodeURIComponent(id)}/acknowledgement`;

/** `words`: the stretch of time, or `{ id }`; null: not yet. */
export function useTakings(words: () => Words | null): Takings {
  const { answer, trouble, again } = usePath<Acknowledgements>(() => {
    const given = words();
    return given === null ? null : `acknowledgements${queryOf(given)}`;
  });
  const found = computed(() => new Map((answer.value?.acknowledgements ?? []).map((one) => [one.id, one])));
  const mine = ref(new Map<string, Acknowledgement | null>());
  const changed = ref(0);
  watch(answer, () => (mine.value = new Map()));
  async function take(id: string, text: string): Promise<void> {
    const made = await request<Acknowledgements>("POST", place(id), { text });
    for (const one of made.acknowledgements) mine.value.set(one.id, one);
    changed.value += 1;
  }
  async function giveBack(id: string): Promise<void> {
    await request<Acknowledgements>("DELETE", place(id));
    mine.value.set(id, null);
    changed.value += 1;
    again(); // an incident and its finding are one: both are free again
  }
  return {
    of: (id) => (mine.value.has(id) ? (mine.value.get(id) ?? null) : (found.value.get(id) ?? null)),
    take, giveBack, trouble: computed(() => trouble.value), changes: computed(() => changed.value),
  };
}

const acts = may("act");

/** Whether the reader may take this on: support any, a user what is about a job. */
export const mayTake = (about: StoredFinding | null): boolean => acts.value && (seesAll.value || (about?.job_id ?? null) !== null);
export const maySilence = computed(() => acts.value && seesAll.value);

export const AGES: { word: string; said: string }[] = [
  { word: "1h", said: "1 hour" }, { word: "8h", said: "8 hours" }, { word: "1d", said: "1 day" }, { word: "3d", said: "3 days" }, { word: "7d", said: "1 week" }, { word: "30d", said: "30 days" },
];

export const troubleOf = (error: unknown): Refused => (error instanceof Refused ? error : new Refused(-1, `The page failed: ${String(error)}`));
