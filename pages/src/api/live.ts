// Answers that keep coming: the server sends a question's answer again when it changes (text/event-stream over fetch,
// so that a share link's token can go along).
import { ROOT, Refused, headers, refusalOf } from "@/api/client";

interface Heard {
  event: string;
  data: string;
}

const AGAIN_MS = 3000;

/** Follows `path` until `signal` ends it. Begins again when the connection breaks. */
export async function follow<T>(
  path: string,
  everySeconds: number,
  signal: AbortSignal,
  onAnswer: (answer: T) => void,
  onTrouble: (trouble: Refused) => void,
): Promise<void> {
  const glue = path.includes("?") ? "&" : "?";
  while (!signal.aborted) {
    // A browser keeps six connections to one server: a page nobody looks at gives its own back.
    await visible(signal);
    if (signal.aborted) return;
    const turn = new AbortController();
    const stop = (): void => turn.abort();
    const hidden = (): void => {
      if (document.hidden) stop();
    };
    signal.addEventListener("abort", stop);
    document.addEventListener("visibilitychange", hidden);
    try {
      const response = await fetch(`${ROOT}/live/${path}${glue}every=${everySeconds}`, {
        headers: headers({ Accept: "text/event-stream" }),
        signal: turn.signal,
        credentials: "same-origin",
      });
      if (!response.ok || !response.body) throw await refusalOf(response);
      for await (const heard of events(response.body)) {
        if (heard.event === "answer") onAnswer(JSON.parse(heard.data) as T);
        if (heard.event === "refused") {
          const told = JSON.parse(heard.data) as { status?: number; error: string; remedy: string };
          onTrouble(new Refused(told.status ?? 500, told.error, told.remedy));
        }
      }
    } catch (error) {
      if (signal.aborted) return;
      if (turn.signal.aborted) continue;
      const trouble = error instanceof Refused ? error : new Refused(0, "The server does not respond.", "");
      onTrouble(trouble);
      if ([400, 401, 403, 404].includes(trouble.status)) return;
    } finally {
      signal.removeEventListener("abort", stop);
      document.removeEventListener("visibilitychange", hidden);
    }
    await pause(AGAIN_MS, signal);
  }
}

function visible(signal: AbortSignal): Promise<void> {
  if (!document.hidden) return Promise.resolve();
  return new Promise((resolve) => {
    const look = (): void => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look);
  });
}

async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<Heard> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  let held = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    held += value;
    let end = held.indexOf("\n\n");
    while (end >= 0) {
      const heard: Heard = { event: "message", data: "" };
      for (const line of held.slice(0, end).split("\n")) {
        if (line.startsWith("event: ")) heard.event = line.slice(7);
        if (line.startsWith("data: ")) heard.data += line.slice(6);
      }
      if (heard.data) yield heard;
      held = held.slice(end + 2);
      end = held.indexOf("\n\n");
    }
  }
}

function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
