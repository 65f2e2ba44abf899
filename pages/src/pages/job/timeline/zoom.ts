// Which stretch of a run is looked at: changed at once, kept in the address when it has settled, so that the browser's
// back button and a copied link both lead to it.
import { computed, onScopeDispose, ref, watch } from "vue";
import type { ComputedRef, Ref } from "vue";
import { useRoute, useRouter } from "vue-router";
import type { Stretch } from "@/pages/job/timeline/levels";

const SHORTEST_S = 1;
const SETTLED_MS = 350;

export interface Zoom {
  /** What is shown now. */
  window: ComputedRef<Stretch>;
  zoomed: ComputedRef<boolean>;
  /** Looked at until the end, so new points move it on. */
  atEnd: ComputedRef<boolean>;
  /** How many steps `back` can go. */
  depth: Ref<number>;
  set: (stretch: Stretch | null) => void;
  by: (factor: number, around?: number) => void;
  pan: (seconds: number) => void;
  back: () => void;
}

/** `whole`: the run in seconds since `originMs` (epoch ms); null: not known yet. */
export function useZoom(whole: ComputedRef<Stretch | null>, originMs: ComputedRef<number>): Zoom {
  const route = useRoute();
  const router = useRouter();
  const chosen = ref<Stretch | null>(null);
  const depth = ref(0);
  const past: (Stretch | null)[] = [];
  let timer = 0;
  let kept = "";
  let before: Stretch | null = null;

  const all = computed<Stretch>(() => whole.value ?? { from: 0, to: 60 });
  const window = computed<Stretch>(() => chosen.value ?? all.value);
  const zoomed = computed(() => chosen.value !== null);
  const atEnd = computed(() => chosen.value === null || chosen.value.to >= all.value.to - (all.value.to - all.value.from) * 0.002);
  const word = (name: string): string => (typeof route.query[name] === "string" ? (route.query[name] as string) : "");

  function fitted(stretch: Stretch): Stretch | null {
    const { from, to } = all.value;
    const length = Math.min(Math.max(stretch.to - stretch.from, SHORTEST_S), to - from);
    if (length >= (to - from) * 0.999) return null;
    const begin = Math.min(Math.max(stretch.from, from), to - length);
    return { from: begin, to: begin + length };
  }

  function set(stretch: Stretch | null): void {
    if (!timer) before = chosen.value;
    chosen.value = stretch ? fitted(stretch) : null;
    clearTimeout(timer);
    timer = globalThis.setTimeout(settle, SETTLED_MS) as unknown as number;
  }

  function settle(): void {
    timer = 0;
    const { from: _f, to: _t, ...rest } = route.query;
    const one = chosen.value;
    const ms = (seconds: number): string => String(Math.round(originMs.value + seconds * 1000));
    const query = one ? { ...rest, from: ms(one.from), to: ms(one.to) } : rest;
    const said = one ? `${query.from}-${query.to}` : "";
    if (said === kept) return;
    kept = said;
    past.push(before);
    depth.value = past.length;
    void router.push({ query, hash: route.hash });
  }

  function fromAddress(): void {
    const [from, to] = [Number(word("from")), Number(word("to"))];
    const said = from && to ? `${word("from")}-${word("to")}` : "";
    if (said === kept || !whole.value || timer) return;
    kept = said;
    chosen.value = said ? fitted({ from: (from - originMs.value) / 1000, to: (to - originMs.value) / 1000 }) : null;
    past.pop();
    depth.value = past.length;
  }

  function by(factor: number, around?: number): void {
    const { from, to } = window.value;
    const centre = around ?? (from + to) / 2;
    const length = Math.max((to - from) * factor, SHORTEST_S);
    const share = (centre - from) / (to - from);
    set({ from: centre - length * share, to: centre + length * (1 - share) });
  }

  watch([() => route.query.from, () => route.query.to, () => whole.value !== null], fromAddress, { immediate: true });
  // A running job grows: what is looked at up to its end goes on with it.
  watch(
    () => whole.value?.to,
    (now, was) => {
      const one = chosen.value;
      if (one && now !== undefined && was !== undefined && now > was && one.to >= was - 1) chosen.value = { from: one.from + now - was, to: now };
    },
  );
  onScopeDispose(() => clearTimeout(timer));

  return {
    window, zoomed, atEnd, depth, set, by,
    pan: (seconds) => set({ from: window.value.from + seconds, to: window.value.to + seconds }),
    back: () => router.back(),
  };
}
