// Which stretch of time a page is about: kept in the address, so that a link shows the same.
import { computed } from "vue";
import type { ComputedRef } from "vue";
import { useRoute, useRouter } from "vue-router";

export interface SpanWords {
  last?: string;
  from?: string;
  to?: string;
}

export function useSpan(standard: string): { span: ComputedRef<SpanWords>; last: ComputedRef<string>; set: (words: SpanWords) => void } {
  const route = useRoute();
  const router = useRouter();
  const word = (name: string): string => (typeof route.query[name] === "string" ? (route.query[name] as string) : "");
  const span = computed<SpanWords>(() => {
    if (word("from")) return { from: word("from"), ...(word("to") ? { to: word("to") } : {}) };
    return { last: word("last") || standard, ...(word("to") ? { to: word("to") } : {}) };
  });
  const last = computed(() => (word("from") ? "" : word("last") || standard));
  function set(words: SpanWords): void {
    const { last: _l, from: _f, to: _t, ...rest } = route.query;
    void router.replace({ query: { ...rest, ...words }, hash: route.hash });
  }
  return { span, last, set };
}
