// Asks the server: one function, one kind of error, the token of a share link where there is one.
import type { Answers, Parameters } from "@/api/types";
import { PATHS } from "@/api/types";

export type Question = keyof Answers;
export type Words = Record<string, string | number | boolean | undefined>;
type Known<Q extends Question> = Partial<Record<keyof Parameters[Q], string | number | boolean | undefined>>;
export type Asked<Q extends Question> = Known<Q> & { name?: string };

export const ROOT = "/api/v1";

/** A request that was not answered. Status 0: nothing was heard of the server. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly what: string,
    readonly remedy = "",
  ) {
    super(what);
  }
}

let bearer = "";
let csrf = "";
let whenNobody: () => void = () => undefined;

/** A share link's token goes with every request of this page. */
export function useBearer(token: string): void {
  bearer = token;
}

export function useCsrf(token: string): void {
  csrf = token;
}

/** Called when the server says that nobody is signed in (any more). */
export function onNobody(call: () => void): void {
  whenNobody = call;
}

export function headers(more: Record<string, string> = {}): Record<string, string> {
  const made: Record<string, string> = { Accept: "application/json", ...more };
  if (bearer) made.Authorization = `Bearer ${bearer}`;
  return made;
}

/** Path and query of a question: `{name}` filled in, what is empty left out. */
export function pathOf<Q extends Question>(question: Q, asked: Asked<Q>): string {
  const { name, ...words } = asked as Words;
  const path = PATHS[question].replace("{name}", encodeURIComponent(String(name ?? "")));
  return path + queryOf(words);
}

export function queryOf(words: Words): string {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(words)) {
    if (value !== undefined && value !== "" && value !== false) query.set(key, String(value));
  }
  const text = query.toString();
  return text ? `?${text}` : "";
}

export async function ask<Q extends Question>(question: Q, asked: Asked<Q>, signal?: AbortSignal): Promise<Answers[Q]> {
  return request<Answers[Q]>("GET", pathOf(question, asked), undefined, signal);
}

/** The server gives one reader few places: this page's questions wait here for their turn rather than be refused. */
const AT_ONCE = 2;
let asking = 0;
const waiting: (() => void)[] = [];

async function turn(signal?: AbortSignal): Promise<void> {
  if (asking >= AT_ONCE) await new Promise<void>((go) => waiting.push(go));
  else asking += 1;
  if (!signal?.aborted) return;
  done();
  throw new DOMException("no longer wanted", "AbortError");
}

function done(): void {
  const next = waiting.shift();
  if (next) next();
  else asking -= 1;
}

/** Any request below /api/v1. Throws Refused. */
export async function request<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  if (method !== "GET") return send<T>(method, path, body, signal);
  await turn(signal);
  try {
    return await send<T>(method, path, body, signal);
  } finally {
    done();
  }
}

async function send<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const more: Record<string, string> = {};
  if (body !== undefined) more["Content-Type"] = "application/json";
  if (method !== "GET" && csrf) more["X-CSRF-Token"] = csrf;
  let answer: Response;
  try {
    answer = await fetch(`${ROOT}/${path}`, {
      method,
      headers: headers(more),
      body: body === undefined ? null : JSON.stringify(body),
      signal: signal ?? null,
      credentials: "same-origin",
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Refused(0, "The server does not respond.", "Retrying every few seconds.");
  }
  if (!answer.ok) throw await refusalOf(answer);
  return (answer.status === 204 ? undefined : await answer.json()) as T;
}

export async function refusalOf(answer: Response): Promise<Refused> {
  let what = `The server returned ${answer.status}.`;
  let remedy = "";
  try {
    const told = (await answer.json()) as { error?: string; remedy?: string };
    what = told.error ?? what;
    remedy = told.remedy ?? "";
  } catch {
    // no JSON: the status is all there is
  }
  if (answer.status === 401) whenNobody();
  return new Refused(answer.status, what, remedy);
}
