// The timeline's data: all of the run (followed while it runs), and finer levels asked for when a zoom has settled.
import { computed, onScopeDispose, ref, shallowRef, triggerRef, watch } from "vue";
import type { ComputedRef, Ref, ShallowRef } from "vue";
import type { Answering } from "@/api/answer";
import { useAnswer } from "@/api/answer";
import { Refused, ask } from "@/api/client";
import type { JobTimeline } from "@/api/types";
import type { RunWords } from "@/pages/job/run";
import { momentOf } from "@/pages/job/run";
import type { Stretch } from "@/pages/job/timeline/levels";
import { Levels, levelOf } from "@/pages/job/timeline/levels";

const QUIET_MS = 140;
const LIVE_S = 3;
const MOST_POINTS = 5000;

export interface TimelineData extends Answering<JobTimeline> {
  levels: ShallowRef<Levels>;
  originNs: Ref<number>;
  whole: ComputedRef<Stretch | null>;
  refining: Ref<boolean>;
  refineTrouble: ShallowRef<Refused | null>;
  refine: (window: Stretch, pixels: number) => void;
}

export function useTimeline(asked: () => RunWords | null, pixels: () => number): TimelineData {
  const running = ref(false);
  const told = useAnswer("job_timeline", () => {
    const words = asked();
    return words ? { ...words, points: Math.min(MOST_POINTS, Math.max(200, Math.round(pixels()))) } : null;
  }, () => (running.value ? LIVE_S : 0));
  const levels = shallowRef(new Levels());
  const originNs = ref(0);
  const refining = ref(false);
  const refineTrouble = shallowRef<Refused | null>(null);
  const done = new Set<string>();
  let timer = 0;
  let stop = new AbortController();

  watch(told.answer, (answer) => {
    if (!answer) {
      levels.value = new Levels();
      done.clear();
      return;
    }
    if (answer.job_from_ns !== originNs.value) {
      originNs.value = answer.job_from_ns;
      levels.value.forget();
      done.clear();
    }
    running.value = answer.running;
    levels.value.whole = levelOf(answer, originNs.value);
    if (answer.running) done.clear();
    triggerRef(levels);
  });

  const whole = computed<Stretch | null>(() => {
    const answer = told.answer.value;
    return answer ? { from: 0, to: Math.max(1, (answer.job_to_ns - answer.job_from_ns) / 1e9) } : null;
  });

  /** Asks for what is shown as finely as it can be drawn, with as much again beside it for panning. */
  function refine(window: Stretch, pixelsWide: number): void {
    clearTimeout(timer);
    const best = levels.value.best(window);
    const words = asked();
    const all = whole.value;
    if (!best || !words || !all) return;
    const length = window.to - window.from;
    if (best.step <= (length / pixelsWide) * 1.05) return;
    const from = Math.max(all.from, window.from - length / 2);
    const to = Math.min(all.to, window.to + length / 2);
    const key = `${from.toFixed(2)} ${to.toFixed(2)}`;
    if (done.has(key)) return;
    timer = globalThis.setTimeout(() => void fetchOne(words, from, to, pixelsWide * ((to - from) / length), key), QUIET_MS) as unknown as number;
  }

  async function fetchOne(words: RunWords, from: number, to: number, points: number, key: string): Promise<void> {
    stop.abort();
    stop = new AbortController();
    const mine = stop.signal;
    const origin = originNs.value;
    refining.value = true;
    try {
      const at = (seconds: number): string => momentOf(origin / 1e6 + seconds * 1000);
      const answer = await ask("job_timeline", { ...words, from: at(from), to: at(to), points: Math.min(MOST_POINTS, Math.max(100, Math.round(points))) }, mine);
      if (mine.aborted || origin !== originNs.value) return;
      done.add(key);
      levels.value.put(levelOf(answer, origin));
      refineTrouble.value = null;
      triggerRef(levels);
    } catch (error) {
      if (!mine.aborted) refineTrouble.value = error instanceof Refused ? error : new Refused(-1, `The page failed: ${String(error)}`);
    } finally {
      if (!mine.aborted) refining.value = false;
    }
  }

  onScopeDispose(() => {
    clearTimeout(timer);
    stop.abort();
  });
  return { ...told, levels, originNs, whole, refining, refineTrouble, refine };
}
