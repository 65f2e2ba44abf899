// Who is signed in, and what that person may do.
import { computed, ref } from "vue";
import { Refused, onNobody, request, useBearer, useCsrf } from "@/api/client";

export interface Session {
  name: string;
  role: "user" | "support" | "admin";
  projects: string[];
  scopes: string[];
  how: string;
  csrf: string;
  expires_ns: number | null;
  simulated: boolean;
  way?: string | null;
  has_password?: boolean | null;
  run?: { job: string; cluster: string | null; start_ns: number | null } | null;
}

export interface Way {
  kind: "local" | "ldap" | "oidc" | "header";
  title: string;
  url?: string | null;
}

export interface SignIn {
  ways: Way[];
  simulated: boolean;
  version: string;
  first_run: boolean;
}

export const me = ref<Session | null>(null);
export const asked = ref(false);
/** Sees all jobs and the machine as a whole. */
export const seesAll = computed(() => me.value !== null && me.value.role !== "user" && me.value.how !== "link");
export const may = (scope: string) => computed(() => me.value?.scopes.includes(scope) ?? false);

onNobody(() => {
  me.value = null;
});

export async function whoAmI(): Promise<Session | null> {
  try {
    accept(await request<Session>("GET", "session"));
  } catch (error) {
    if (!(error instanceof Refused) || error.status !== 401) throw error;
    me.value = null;
  } finally {
    asked.value = true;
  }
  return me.value;
}

export async function signIn(body: Record<string, string>): Promise<void> {
  useBearer(""); // who signs in after a share link was opened is no longer its reader
  accept(await request<Session>("POST", "session", body));
}

/** A share link: the token stays in this page's memory only. */
export async function openLink(token: string): Promise<Session | null> {
  useBearer(token);
  return whoAmI();
}

export async function signOut(): Promise<void> {
  await request("DELETE", "session");
  me.value = null;
  useCsrf("");
}

function accept(session: Session): void {
  me.value = session;
  useCsrf(session.csrf);
}
