// The addresses of the pages. Each page is loaded when it is first opened.
import { createRouter, createWebHistory } from "vue-router";
import { asked, me, whoAmI } from "@/api/session";

declare module "vue-router" {
  interface RouteMeta {
    title: string;
    open?: boolean;
  }
}

export const router = createRouter({
  history: createWebHistory(),
  scrollBehavior: (to, from, kept) => kept ?? (to.path === from.path ? false : { top: 0 }),
  routes: [
    { path: "/", component: () => import("@/pages/home/Home.vue"), meta: { title: "Home" } },
    { path: "/signin", component: () => import("@/pages/signin/SignIn.vue"), meta: { title: "Sign in", open: true } },
    { path: "/welcome", component: () => import("@/pages/signin/Welcome.vue"), meta: { title: "Welcome", open: true } },
    { path: "/shared", component: () => import("@/pages/signin/Shared.vue"), meta: { title: "Shared job", open: true } },
    { path: "/jobs", component: () => import("@/pages/job/Jobs.vue"), meta: { title: "Jobs" } },
    { path: "/jobs/:name", component: () => import("@/pages/job/Job.vue"), meta: { title: "Job" } },
    { path: "/compare", component: () => import("@/pages/job/Compare.vue"), meta: { title: "Compare runs" } },
    { path: "/layers/:kind", component: () => import("@/pages/layers/Layer.vue"), meta: { title: "Layer" } },
    { path: "/layers/:kind/:name(.*)", component: () => import("@/pages/layers/Component.vue"), meta: { title: "Component" } },
    { path: "/nodes/:name", component: () => import("@/pages/layers/Node.vue"), meta: { title: "Node" } },
    { path: "/findings", component: () => import("@/pages/findings/Findings.vue"), meta: { title: "Findings" } },
    { path: "/findings/:name", component: () => import("@/pages/findings/Finding.vue"), meta: { title: "Finding" } },
    { path: "/behaviour", component: () => import("@/pages/behaviour/Behaviour.vue"), meta: { title: "Behaviour" } },
    { path: "/whatif", component: () => import("@/pages/whatif/WhatIf.vue"), meta: { title: "What if" } },
    { path: "/health", component: () => import("@/pages/health/Health.vue"), meta: { title: "Health of fairlead" } },
    { path: "/setup", component: () => import("@/pages/health/Setup.vue"), meta: { title: "Connections" } },
    { path: "/account", component: () => import("@/pages/people/Account.vue"), meta: { title: "My account" } },
    { path: "/people", component: () => import("@/pages/people/People.vue"), meta: { title: "Accounts" } },
    { path: "/:rest(.*)", component: () => import("@/pages/Nothing.vue"), meta: { title: "No such page", open: true } },
  ],
});

router.beforeEach(async (to) => {
  if (to.meta.open) return true;
  if (!asked.value) await whoAmI().catch(() => null);
  return me.value ? true : { path: "/signin", query: to.path === "/" ? {} : { next: to.fullPath } };
});

router.afterEach((to) => {
  const name = typeof to.params.name === "string" ? ` ${to.params.name}` : "";
  document.title = `${to.meta.title}${name} · fairlead`;
});
