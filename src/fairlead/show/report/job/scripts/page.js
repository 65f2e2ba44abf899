// The page, from top to bottom: verdict, what to change, figures, charts, files, findings, and what cannot be known.

const ABSENCES = {
  time: [["no_times"], "The trace holds no times spent in I/O.", null],
  bandwidth: [["timeline"], "The trace says how much was moved, but not when.", "timeline"],
  timeline: [["segments"], "The trace holds no times of single operations.", "timeline"],
  heatmap: [["heatmap", "timeline"], "The trace holds no bytes per rank and time.", "timeline"],
  sizes: [["sizes"], "The trace holds no request sizes.", null],
  patterns: [["offsets"], "The trace does not hold where in the file each request began.", null],
  ranks: [["no_ranks"], "The trace holds sums over all ranks, not what each of them did.", "ranks"],
  files: [["unknown_files"], "The trace names no files.", null],
};
const REMEDIES = {
  timeline: "With Darshan, run again with DXT on: export DXT_ENABLE_IO_TRACE=1",
  ranks: "With Darshan, keep one record per rank: export DARSHAN_DISABLE_SHARED_REDUCTION=1",
};
const MODES = {
  "N-N": "each process its own file", "N-M": "processes share a few files", "N-1": "all processes, one file", "1-1": "one process does the I/O", none: "none",
};

function absence(name, verdict) {
  const [words, why, remedy] = ABSENCES[name];
  if (still(verdict) && ["bandwidth", "heatmap", "sizes", "patterns"].includes(name)) return h("p", { class: "calm" }, "No file bytes were read or written.");
  const missing = verdict.missing || [];
  const said = words.map((word) => missing.find((one) => one.kind === word) || missing.find((one) => String(one.kind).includes(word))).find(Boolean);
  const step = said ? said.remedy : REMEDIES[remedy];
  return h("p", { class: "unknown" }, h("b", null, said ? `Not known: ${said.what}. ` : "Not known. "), sentence(said ? said.why : why), step ? h("span", { class: "remedy" }, step) : null);
}

function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
}

// Whether the job is known to have moved nothing: then there is nothing to draw, which is not the same as not knowing.
function idle(verdict) {
  return still(verdict) && verdict.totals.metadata_ops === 0;
}

function still(verdict) {
  const totals = verdict.totals || {};
  return totals.read_bytes === 0 && totals.write_bytes === 0;
}

function header(verdict) {
  const job = verdict.job || {};
  const facts = [
    known(job.processes) ? `${plural(job.processes, "process", "processes")}${known(job.nodes) ? ` on ${plural(job.nodes, "node")}` : Array.isArray(job.nodes) && job.nodes.length ? ` on ${plural(job.nodes.length, "node")}` : ""}` : null,
    known(job.run_time_s) ? `ran ${formatDuration(job.run_time_s)}` : null,
    known(job.start_ns) ? formatTime(job.start_ns) : null, job.id ? `job ${job.id}` : null, job.user ? `user ${job.user}` : null, verdict.source,
  ];
  const grade = verdict.grade;
  return h("header", null,
    h("div", { class: grade ? `badge grade-${grade}` : "badge grade-none", role: "img", "aria-label": grade ? `Grade ${grade}` : "No grade" }, grade || "?"),
    h("div", null, h("p", { class: "brand" }, "fairlead report"), h("h1", null, verdict.headline || "I/O report"), verdict.grade_reason ? h("p", { class: "reason" }, sentence(verdict.grade_reason)) : null,
      job.program ? h("p", { class: "program", title: visibleLine(job.program) }, visibleLine(job.program)) : null,
      h("p", { class: "facts" }, facts.filter(Boolean).map((fact) => h("span", null, fact)))));
}

function single(verdict) {
  return (verdict.job || {}).processes === 1;
}

function contents(present) {
  const names = [["compare", "Compared"], ["change", "Change"], ["figures", "Figures"], ["time", "Time"], ["requests", "Requests"], ["ranks", "Ranks"], ["files", "Files"], ["findings", "Findings"], ["unknown", "Not known"], ["method", "Method"]];
  return h("nav", { "aria-label": "On this page" }, names.filter(([id]) => present.has(id)).map(([id, text]) => h("a", { href: `#${id}` }, text)));
}

function tile(name, value, ...notes) {
  return h("div", { class: "tile" }, h("dt", null, name), h("dd", null, value === ABSENT ? h("span", { class: "faint" }, "not known") : value,
    notes.flat().filter(Boolean).map((note) => h("small", null, note))));
}

function dataTile(name, kind, verdict) {
  const totals = verdict.totals || {};
  const summary = verdict.summary || {};
  const [average, peak] = [summary[`${kind}_bandwidth_bytes_per_s`], summary[`${kind}_peak_bytes_per_s`]];
  const bytes = totals[`${kind}_bytes`];
  const speed = known(average) && bytes > 0 ? `${formatBandwidth(average)} on average` : null;
  return tile([h("i", { class: `key ${kind}` }), name], formatBytes(bytes), known(totals[`${kind}_ops`]) ? plural(totals[`${kind}_ops`], "operation") : null, speed,
    known(peak) && bytes > 0 ? `${formatBandwidth(peak)} at peak` : null);
}

function modeTile(verdict) {
  const mode = verdict.io_mode;
  if (!mode) return tile("I/O mode", ABSENT);
  const upper = verdict.io_mode_mpiio;
  const doing = verdict.io_processes || {};
  const all = (verdict.job || {}).processes;
  const line = (kind) => h("span", { class: "mode" }, h("i", { class: `key ${kind}` }), mode[kind] || ABSENT);
  const words = ["read", "write"].filter((kind) => (mode[kind] || "none") !== "none").map((kind) =>
    `${kind}: ${MODES[mode[kind]] || mode[kind]}${known(doing[kind]) && known(all) && doing[kind] < all ? ` (${formatCount(doing[kind])} of ${formatCount(all)} do it)` : ""}`);
  const differs = upper && (upper.read !== mode.read || upper.write !== mode.write);
  return tile("I/O mode", h("span", null, line("read"), line("write")), words, differs ? `through MPI-IO: ${upper.read} and ${upper.write}` : null);
}

function figures(verdict, charts) {
  const summary = verdict.summary || {};
  const totals = verdict.totals || {};
  const several = (verdict.job || {}).processes > 1;
  const judged = summary.io_time_share > 0 ? `${formatPercent(summary.io_time_share)} of the run time${several ? ", slowest process" : ""}` : null;
  const mean = several && summary.io_time_mean_s > 0 ? `${formatDuration(summary.io_time_mean_s)} on average` : null;
  const costs = (charts.costs || []).filter((cost) => known(cost.cost_s));
  return section("figures", "Key figures", null,
    h("dl", { class: "tiles" }, tile("Run time", formatDuration((verdict.job || {}).run_time_s)), tile("Time in I/O", formatDuration(summary.io_time_s), judged, mean),
      dataTile("Read", "read", verdict), dataTile("Written", "write", verdict),
      tile([h("i", { class: "key meta" }), "Metadata operations"], formatCount(totals.metadata_ops), known(summary.metadata_ops_per_s) ? `${formatCount(summary.metadata_ops_per_s)} per second` : null),
      still(verdict) ? null : tile("Requests per second", formatCount(summary.average_iops), known(summary.average_iops) ? "average while in I/O" : null), modeTile(verdict),
      ["read", "write"].map((kind) => [kind, summary[`${kind}_period`]]).filter(([, period]) => period).map(([kind, period]) =>
        tile([h("i", { class: `key ${kind}` }), `${kind === "read" ? "Reads" : "Writes"} repeat every`], formatDuration(period.period_s), `confidence ${formatPercent(period.confidence)}`))),
    h("h3", null, "Where the time went"), charts.time ? timeShare(charts.time, "average per process that does I/O") : summary.io_time_s === 0 ? h("p", { class: "calm" }, "No time was spent in I/O.") : absence("time", verdict), costs.length ? costBars(costs, (verdict.job || {}).run_time_s) : null);
}

// The stretch of time all time charts share: the job, and whatever was recorded outside it (clocks are coarse).
function wholeTime(verdict, charts, origin) {
  const edges = [0];
  const runTime = (verdict.job || {}).run_time_s;
  if (known(runTime)) edges.push(runTime);
  const { bandwidth, timeline, heatmap } = charts;
  if (bandwidth && known(bandwidth.start_ns)) {
    const series = seriesOf(bandwidth, origin);
    let last = series.bins;
    while (last > 0 && series.sums.read[last] === series.sums.read[last - 1] && series.sums.write[last] === series.sums.write[last - 1]) last -= 1;
    edges.push(series.start, series.start + last * series.bin);
  }
  if (heatmap) edges.push(heatmap.start_s, known(runTime) ? Math.min(heatmap.start_s + heatmap.bins * heatmap.bin_s, Math.max(runTime, 1e-9) * 1.1) : heatmap.start_s + heatmap.bins * heatmap.bin_s);
  if (timeline) timeline.segments.start_s.forEach((start, index) => { if (known(start)) edges.push(start, start + (timeline.segments.dur_s[index] || 0)); });
  const [from, to] = edges.reduce(([low, high], edge) => (known(edge) ? [Math.min(low, edge), Math.max(high, edge)] : [low, high]), [0, 0]);
  return to > from ? timeView(from, to) : null;
}

const SOURCES = { operations: "from the single operations recorded", heatmap: "from the heat map in the trace" };

function timeSection(verdict, charts, view, origin) {
  const { bandwidth, timeline, heatmap } = charts;
  const phases = phasesOf(verdict, origin);
  const drawn = view && (bandwidth || timeline || heatmap);
  if (!drawn) return section("time", "When it happened", null, absence(still(verdict) ? "timeline" : "bandwidth", verdict), phases.length ? phaseTable(null, phases) : null);
  const parts = [h("h3", null, "Bandwidth", phases.length ? h("small", null, ` and ${plural(phases.length, "I/O phase")}`) : null)];
  if (bandwidth) {
    const series = seriesOf(bandwidth, origin);
    parts.push(legend(["read", "read"], ["write", "write"], ...(phases.length ? [["band", "an I/O phase (shaded)"]] : [])),
      bandwidthPanel(view, series, phases, "Bandwidth over time, reads and writes.").node,
      h("p", { class: "note" }, `Bins of ${formatDuration(series.bin)}, ${SOURCES[charts.source] || "from the trace"}.`));
  } else parts.push(absence("bandwidth", verdict));
  if (phases.length) parts.push(phaseTable(view, phases));
  parts.push(h("h3", { id: "timeline" }, "What each rank did"));
  if (timeline && timeline.segments.rank.length) {
    const panel = timelinePanel(view, timeline);
    const merged = known(timeline.merged_gap_s) && timeline.merged_gap_s > 0 ? ` Operations of one kind less than ${formatDuration(timeline.merged_gap_s)} apart are drawn as one.` : "";
    parts.push(rankBar(panel), panel.node, h("p", { class: "note" }, `${plural(timeline.segments.rank.length, "stretch", "stretches")} of I/O by ${plural(panel.count, "rank")}.${merged}`));
  } else parts.push(absence("timeline", verdict));
  parts.push(h("h3", null, "Heat map of ranks and time"));
  if (heatmap && heatmap.rows.length && heatmap.bins > 0) parts.push(heatPanel(view, heatmap).node);
  else parts.push(single(verdict) ? h("p", { class: "calm" }, "There is one process: its bandwidth is drawn above.") : absence("heatmap", verdict));
  const lead = "All charts here share one time axis, in seconds since the job began. Turn the wheel over a chart to zoom, drag to pick a stretch (or to move once zoomed), double click to see everything; on the keyboard + − ← → and 0.";
  return section("time", "When it happened", lead, timeBar(view), parts);
}

function requestSection(verdict, charts) {
  return section("requests", "How it was asked for", null, h("div", { class: "columns" },
    charts.sizes ? sizeBars(charts.sizes) : h("div", null, h("h3", null, "Request sizes"), absence("sizes", verdict)),
    charts.patterns ? patternBars(charts.patterns) : h("div", null, h("h3", null, "Access pattern"), absence("patterns", verdict))));
}

function unknownSection(verdict) {
  const missing = verdict.missing || [];
  return section("unknown", "What cannot be known", missing.length ? "No data is not zero: these are left out of the verdict, not counted as nothing." : null, missing.length
    ? h("ul", { class: "missing" }, missing.map((one) => h("li", null, h("b", null, one.what), h("p", null, sentence(one.why)), one.remedy ? h("p", { class: "remedy" }, one.remedy) : null, one.where ? h("p", { class: "note" }, visibleLine(one.where)) : null)))
    : h("p", { class: "calm" }, "No part of the trace was missing or could not be read."), undecided(verdict));
}

function undecided(verdict) {
  const rules = verdict.undecided || [];
  return rules.length ? h("details", { class: "finding" }, h("summary", null, h("span", { class: "severity" }, "open"), h("span", { class: "title" }, `${plural(rules.length, "rule")} could not be decided on this trace`)),
    h("ul", { class: "inside plain-list" }, rules.map((rule) => h("li", null, rule.title, h("small", { class: "faint" }, ` needs ${rule.unknown.join(", ")}`))))) : null;
}

function methodSection(verdict) {
  const inputs = verdict.inputs || [];
  const rows = [
    ["Read from", [visibleLine(inputs.slice(0, 5).join(", ")), inputs.length > 5 ? ` and ${formatCount(inputs.length - 5)} more` : "", verdict.source ? ` (${verdict.source})` : ""]],
    ["Bytes and operations", ["counted once, at the lowest interface that saw them (POSIX and STDIO); MPI-IO and HDF5 bytes are never added on top, and the standard streams are kept apart", known((verdict.totals || {}).stream_bytes) ? ` (${formatBytes(verdict.totals.stream_bytes)})` : "", "."]],
    ["I/O mode", "from who touches which file, N being all processes of the job: one process doing the I/O is 1-1; if one file carries 95 % of the bytes N-1, if fewer files than processes do N-M, else N-N."],
    ["Phases", "stretches of sustained I/O, found in the bandwidth with a discrete wavelet transform."],
    ["Costs", "wall-clock seconds of the job lost to a cause, estimated as each finding says. Causes may overlap, so costs are not a sum."],
    ["Units", "binary (1 KiB is 1,024 bytes); times in UTC, and within the charts in seconds since the job began."],
    ["Made by", `fairlead ${verdict.fairlead_version || ""}${verdict.analysis_version ? `, analysis ${verdict.analysis_version}` : ""}; data as ${verdict.schema || "fairlead.report/1"}. This page is complete: it fetches nothing and sends nothing.`],
  ];
  return section("method", "How it was computed", null, h("dl", { class: "method" }, rows.map(([name, text]) => [h("dt", null, name), h("dd", null, text)])));
}

function build(data) {
  const verdict = data.verdict || {};
  const charts = data.charts || {};
  const job = verdict.job || {};
  const origin = known(job.start_ns) ? job.start_ns : (charts.bandwidth || {}).start_ns || 0;
  const view = wholeTime(verdict, charts, origin);
  const ranks = charts.ranks && (charts.ranks.rank || []).length ? charts.ranks : null;
  const files = charts.files && (charts.files.rows || []).length ? charts.files : null;
  const anything = !idle(verdict) || charts.timeline || charts.bandwidth || files;
  const parts = [
    data.compare ? compareSection(data.compare, verdict, charts) : null, changeSection(verdict), figures(verdict, charts),
    ...(anything ? [
      timeSection(verdict, charts, view, origin), requestSection(verdict, charts),
      section("ranks", "Ranks, from slow to fast", ranks ? rankWords(ranks) : null, ranks ? (ranks.rank.length > 1 ? rankChart(ranks) : null)
        : single(verdict) ? h("p", { class: "calm" }, "There is one process, and nothing to compare it with.") : absence("ranks", verdict)),
      section("files", "Files", null, files ? fileTable(files) : absence("files", verdict)),
    ] : [section("idle", "Nothing to draw", null, h("p", { class: "calm" }, "This job read and wrote no file bytes: there are no times, requests, ranks or files to show."))]),
    findingsSection(verdict, view, origin), unknownSection(verdict), methodSection(verdict),
  ].filter(Boolean);
  replace(document.getElementById("report"), header(verdict), contents(new Set(parts.map((part) => part.id))), parts);
}

function watchTheme() {
  const repaint = () => {
    colourCache = null;
    for (const view of allViews) view.repaint();
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const one of closed) one.open = true;
    document.documentElement.classList.add("printing");
    repaint();
  });
  addEventListener("afterprint", () => {
    for (const one of closed) one.open = false;
    document.documentElement.classList.remove("printing");
    repaint();
  });
}

build(JSON.parse(document.getElementById("data").textContent));
watchTheme();
