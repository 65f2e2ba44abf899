// Names of components as short as they can be and still be told apart: what all of them begin with goes.

/** What every name of a list begins with, up to a mark between words; empty where too little would be left. */
export function prefixOf(names: string[]): string {
  const [first = "", ...rest] = names;
  if (!rest.length) return "";
  let long = first.length;
  for (const name of rest) while (!name.startsWith(first.slice(0, long))) long -= 1;
  const cut = Math.max(...["-", "_", "/", ".", ":"].map((mark) => first.slice(0, long).lastIndexOf(mark))) + 1;
  return cut >= 4 && names.every((name) => name.length >= cut + 4) ? first.slice(0, cut) : "";
}

/** A name without that beginning. */
export const shortOf = (name: string, prefix: string): string => (prefix && name.startsWith(prefix) ? name.slice(prefix.length) : name);
