// Something a page does: one at a time, what went wrong kept to be said.
import { ref, shallowRef } from "vue";
import type { Ref, ShallowRef } from "vue";
import { Refused } from "@/api/client";

export interface Doing {
  busy: Ref<boolean>;
  refused: ShallowRef<Refused | null>;
  run: (work: () => Promise<void>) => Promise<boolean>;
}

export function useDoing(): Doing {
  const busy = ref(false);
  const refused: ShallowRef<Refused | null> = shallowRef(null);
  async function run(work: () => Promise<void>): Promise<boolean> {
    busy.value = true;
    refused.value = null;
    try {
      await work();
      return true;
    } catch (error) {
      refused.value = error instanceof Refused ? error : new Refused(-1, String(error));
      return false;
    } finally {
      busy.value = false;
    }
  }
  return { busy, refused, run };
}
