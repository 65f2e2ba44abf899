// The file table: sorted by any column, searched by path, cut to what a finding points at, one page of rows at a time.

const PAGE_ROWS = 25;
const FILE_COLUMNS = [
  ["path", "File", null], ["io_time_s", "I/O time", formatDuration], ["read_bytes", "Read", formatBytes], ["write_bytes", "Written", formatBytes],
  ["reads", "Reads", formatCount], ["writes", "Writes", formatCount], ["opens", "Opens", formatCount], ["processes", "Processes", formatCount],
  ["read_time_s", "Read time", formatDuration, "minor"], ["write_time_s", "Write time", formatDuration, "minor"], ["meta_time_s", "Metadata time", formatDuration, "minor"],
  ["small_share", "Small (≤ 1 MiB)", formatPercent], ["interface", "Interface", null], ["fs", "File system", null], ["layout", "Layout", null],
];

// The rows come as one list of names and a list of values a row.
function fileRows(files) {
  return files.rows.map((values) => Object.fromEntries(files.names.map((name, index) => [name, values[index]])));
}

function fileTable(files) {
  const rows = fileRows(files).map((row) => ({ ...row, io_time_s: fileTime(row), lower: String(row.path).toLowerCase() }));
  const columns = FILE_COLUMNS.filter(([name]) => rows.some((row) => row[name] !== null && row[name] !== undefined && row[name] !== ""));
  const unknown = FILE_COLUMNS.filter((column) => !columns.includes(column)).map(([, title]) => title.toLowerCase());
  const longest = Math.max(...rows.map((row) => row.io_time_s || 0), 1e-12);
  const state = { sort: columns.some(([name]) => name === "io_time_s") ? "io_time_s" : "read_bytes", down: true, words: [], only: null, page: 0 };
  const body = h("tbody");
  const said = h("p", { class: "note", role: "status" });
  const lit = h("span", { class: "lit", hidden: true });
  const back = h("button", { type: "button", onclick: () => turn(-1) }, "← Previous");
  const next = h("button", { type: "button", onclick: () => turn(1) }, "Next →");
  const heads = columns.map(([name, title, format, minor = ""]) => h("th", { scope: "col", class: `${format ? "number" : ""} ${minor}` },
    h("button", { type: "button", onclick: () => sortBy(name, format) }, title)));

  function sortBy(name, format) {
    state.down = state.sort === name ? !state.down : Boolean(format);
    Object.assign(state, { sort: name, page: 0 });
    draw();
  }

  function turn(pages) {
    state.page += pages;
    draw();
  }

  function draw() {
    const found = rows.filter((row) => state.words.every((word) => row.lower.includes(word)) && (!state.only || state.only.has(row.path)));
    found.sort((a, b) => compareCells(a[state.sort], b[state.sort], state.down));
    const pages = Math.max(1, Math.ceil(found.length / PAGE_ROWS));
    state.page = Math.max(0, Math.min(state.page, pages - 1));
    const first = state.page * PAGE_ROWS;
    const part = found.slice(first, first + PAGE_ROWS);
    replace(body, part.map((row) => h("tr", null, columns.map((column) => fileCell(row, column, longest)))));
    heads.forEach((head, index) => head.setAttribute("aria-sort", columns[index][0] === state.sort ? (state.down ? "descending" : "ascending") : "none"));
    back.disabled = state.page === 0;
    next.disabled = state.page >= pages - 1;
    replace(said, fileCount(files, rows.length, found.length, first, part.length));
    lit.hidden = !state.only;
    if (state.only) replace(lit, `Only the files of one finding${found.length < state.only.size ? ` (${found.length} of its ${state.only.size} are in this table)` : ""} `, h("button", { type: "button", onclick: () => focus.set({ files: null }) }, "Show all"));
  }

  focus.listen((change) => {
    if (!("files" in change)) return;
    Object.assign(state, { only: change.files, page: 0, words: [] });
    search.value = "";
    draw();
  });
  const search = h("input", { type: "search", id: "file-search", placeholder: "part of a path", oninput() {
    Object.assign(state, { words: search.value.toLowerCase().split(/\s+/).filter(Boolean), page: 0 });
    draw();
  } });
  draw();
  return h("div", null,
    h("div", { class: "bar" }, h("span", null, h("label", { for: "file-search" }, "Search "), search, " ", lit), h("span", { class: "buttons" }, back, next)),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "File table" }, h("table", { class: "files" }, h("thead", null, h("tr", null, heads)), body)),
    said, columns.some(([name]) => name === "io_time_s") ? h("p", { class: "note" }, "Times are sums over all processes, so they can exceed the run time of the job.") : null,
    unknown.length ? h("p", { class: "note" }, `Not recorded for these files: ${unknown.join(", ")}.`) : null);
}

function fileTime(row) {
  const parts = [row.read_time_s, row.write_time_s, row.meta_time_s].filter(known);
  return parts.length ? parts.reduce((sum, part) => sum + part, 0) : null;
}

// Missing values last, whichever way the rest is sorted.
function compareCells(a, b, down) {
  const [noA, noB] = [a === null || a === undefined, b === null || b === undefined];
  if (noA || noB) return noA - noB;
  const order = typeof a === "string" || typeof b === "string" ? String(a).localeCompare(String(b), "en", { numeric: true }) : a - b;
  return down ? -order : order;
}

function fileCell(row, [name, , format, minor = ""], longest) {
  const value = row[name];
  if (name === "path") return pathCell(String(value));
  if (!format) return h("td", null, value === null || value === undefined ? ABSENT : visibleLine(value));
  if (name !== "io_time_s" || !known(value)) return h("td", { class: `number ${minor} ${value === 0 ? "faint" : ""}` }, format(value));
  const parts = [["read", row.read_time_s], ["write", row.write_time_s], ["meta", row.meta_time_s]];
  return h("td", { class: "number timed" }, format(value), h("span", { class: "mini", "aria-hidden": "true" },
    parts.filter(([, part]) => part > 0).map(([kind, part]) => h("i", { class: kind, css: { width: `${part / longest * 100}%` } }))));
}

function pathCell(path) {
  const cut = path.replace(/\/+$/, "").lastIndexOf("/") + 1;
  return h("th", { scope: "row", class: "path", title: visibleLine(path) }, h("bdi", null, visibleLine(path.slice(cut))), h("bdi", { class: "folder" }, visibleLine(path.slice(0, cut))));
}

function fileCount(files, kept, found, first, shown) {
  const whole = files.total > kept ? ` The page holds the ${kept.toLocaleString("en-US")} of the job's ${files.total.toLocaleString("en-US")} files that matter most.` : "";
  if (!found) return `No file matches.${whole}`;
  const some = found < kept ? `${plural(found, "matching file")} of ${formatCount(kept)}` : plural(kept, "file");
  return (found > shown ? `${formatCount(first + 1)}–${formatCount(first + shown)} of ${some}.` : `${some}.`) + whole;
}
