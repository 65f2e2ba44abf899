// One of two runs that are compared: which it is by the address, what is known of it.
import { computed } from "vue";
import type { ComputedRef } from "vue";
import { useRoute } from "vue-router";
import type { Answering } from "@/api/answer";
import { useAnswer } from "@/api/answer";
import type { JobPage, JobRequests, JobTimeline, Why } from "@/api/types";
import type { RunWords } from "@/pages/job/run";
import { wholeOf, wordsOf } from "@/pages/job/run";

export interface Side {
  id: ComputedRef<string>;
  why: Answering<Why>;
  page: Answering<JobPage>;
  timeline: Answering<JobTimeline>;
  requests: Answering<JobRequests>;
}

/** `key` is `a` or `b`: parameters `a`, `a_cluster`, `a_run` of the address. */
export function useSide(key: "a" | "b"): Side {
  const route = useRoute();
  const word = (name: string): string => (typeof route.query[name] === "string" ? (route.query[name] as string) : "");
  const id = computed(() => word(key));
  const run = computed(() => (/^\d{9,16}$/.test(word(`${key}_run`)) ? word(`${key}_run`) : ""));
  const asked = computed<RunWords | null>(() => (id.value ? wordsOf(id.value, word(`${key}_cluster`), run.value) : null));
  const why = useAnswer("why", () => asked.value);
  const whole = computed(() => (asked.value ? wholeOf(asked.value, why.answer.value?.job ?? null) : null));
  return {
    id, why,
    page: useAnswer("job", () => (whole.value ? { ...whole.value, points: 10 } : null)),
    timeline: useAnswer("job_timeline", () => (whole.value ? { ...whole.value, points: 600, neighbours: 0 } : null)),
    requests: useAnswer("job_requests", () => whole.value),
  };
}
