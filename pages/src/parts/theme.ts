// Light or dark: the reader's choice, else the system's. Charts read their colours from here.
import { ref, watchEffect } from "vue";

export type Choice = "system" | "light" | "dark";
const KEPT = "fairlead.theme";
const system = matchMedia("(prefers-color-scheme: dark)");

function kept(): Choice {
  try {
    const word = localStorage.getItem(KEPT);
    return word === "light" || word === "dark" ? word : "system";
  } catch {
    return "system";
  }
}

export const choice = ref<Choice>(kept());
const systemDark = ref(system.matches);
system.addEventListener("change", (event) => (systemDark.value = event.matches));
export const dark = ref(false);

watchEffect(() => {
  dark.value = choice.value === "dark" || (choice.value === "system" && systemDark.value);
  document.documentElement.dataset.theme = dark.value ? "dark" : "light";
});

export function choose(one: Choice): void {
  choice.value = one;
  try {
    if (one === "system") localStorage.removeItem(KEPT);
    else localStorage.setItem(KEPT, one);
  } catch {
    // a browser that keeps nothing: the choice lasts as long as the page
  }
}

/** The value of a colour variable, for canvases. */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
