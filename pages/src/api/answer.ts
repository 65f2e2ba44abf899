// A question as a component uses it: asked when its parameters change, followed live where wanted, never both answered
// out of order. What was known stays on the page while it is asked again or the server is away.
import { onScopeDispose, ref, shallowRef, toValue, watch } from "vue";
import type { MaybeRefOrGetter, Ref, ShallowRef } from "vue";
import type { Asked, Question } from "@/api/client";
import { Refused, ask, pathOf, request } from "@/api/client";
import { follow } from "@/api/live";
import type { Answers } from "@/api/types";

export interface Answering<T> {
  answer: ShallowRef<T | null>;
  trouble: ShallowRef<Refused | null>;
  busy: Ref<boolean>;
  again: () => void;
}

const AGAIN_MS = 4000;
const BUSY_MS = 1200;

/** `asked` null: not yet. `live`: seconds between looks, 0 for a single answer. */
export function useAnswer<Q extends Question>(
  question: Q,
  asked: MaybeRefOrGetter<Asked<Q> | null>,
  live: MaybeRefOrGetter<number> = 0,
): Answering<Answers[Q]> {
  return usePath<Answers[Q]>(
    () => {
      const words = toValue(asked);
      return words === null ? null : pathOf(question, words);
    },
    live,
    (_, signal) => ask(question, toValue(asked) as Asked<Q>, signal),
  );
}

/** The same for any path below /api/v1. */
export function usePath<T>(
  path: MaybeRefOrGetter<string | null>,
  live: MaybeRefOrGetter<number> = 0,
  fetching: (path: string, signal: AbortSignal) => Promise<T> = (one, signal) => request<T>("GET", one, undefined, signal),
): Answering<T> {
  const answer: ShallowRef<T | null> = shallowRef(null);
  const trouble: ShallowRef<Refused | null> = shallowRef(null);
  const busy = ref(false);
  const turn = ref(0);
  let stop = new AbortController();

  async function once(one: string, signal: AbortSignal): Promise<void> {
    busy.value = true;
    try {
      answer.value = await fetching(one, signal);
      trouble.value = null;
    } catch (error) {
      if (signal.aborted) return;
      trouble.value = error instanceof Refused ? error : new Refused(-1, `The page failed: ${String(error)}`, "");
      if ([0, 429, 503].includes(trouble.value.status)) {
        const timer = setTimeout(() => (turn.value += 1), trouble.value.status === 429 ? BUSY_MS : AGAIN_MS);
        signal.addEventListener("abort", () => clearTimeout(timer));
      }
    } finally {
      if (!signal.aborted) busy.value = false;
    }
  }

  watch(
    [() => toValue(path), () => toValue(live), turn],
    ([one, every], before) => {
      stop.abort();
      stop = new AbortController();
      if (before[0] !== undefined && before[0]?.split("?")[0] !== one?.split("?")[0]) answer.value = null;
      if (one === null) return;
      if (!every) {
        void once(one, stop.signal);
        return;
      }
      busy.value = answer.value === null;
      void follow<T>(
        one,
        every,
        stop.signal,
        (heard) => {
          answer.value = heard;
          trouble.value = null;
          busy.value = false;
        },
        (refused) => {
          trouble.value = refused;
          busy.value = false;
        },
      );
    },
    { immediate: true },
  );
  onScopeDispose(() => stop.abort());
  return { answer, trouble, busy, again: () => (turn.value += 1) };
}
