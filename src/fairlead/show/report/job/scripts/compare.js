// Two runs side by side: what changed, in figures, in findings and in time. The main run is the first label.

function compareSection(compare, verdict, charts) {
  const [before, after] = compare.labels;
  const other = compare.other || {};
  const found = compare.findings || {};
  return section("compare", `Compared: ${before} and ${after}`, compare.verdict,
    h("div", { class: "scroll" }, h("table", { class: "plain versus" }, h("thead", null, h("tr", null, ["", before, after, "change"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", null, gradeRow(verdict, other.verdict), (compare.rows || []).map(versusRow)))),
    h("div", { class: "columns three" }, findingList("Gone", found.gone, "gone"), findingList("New", found.new, "new"), findingList("Still there", found.kept, "kept")),
    twoTimes(charts, other.charts, compare.labels), twoBandwidths(charts, other, verdict, compare.labels));
}

function gradeRow(first, second) {
  if (!first.grade && !(second || {}).grade) return null;
  const badge = (verdict) => h("td", null, verdict && verdict.grade ? h("span", { class: `badge small grade-${verdict.grade}` }, verdict.grade) : ABSENT);
  return h("tr", null, h("th", { scope: "row" }, "grade"), badge(first), badge(second), h("td"));
}

function withUnit(value, unit) {
  if (typeof value === "string") return value;
  if (!known(value)) return ABSENT;
  const formats = { s: formatDuration, B: formatBytes, bytes: formatBytes, "B/s": formatBandwidth, "bytes/s": formatBandwidth, bytes_per_s: formatBandwidth, fraction: formatPercent, share: formatPercent };
  if (unit in formats) return formats[unit](value);
  return `${formatCount(value)}${unit && unit !== "count" ? ` ${unit}` : ""}`;
}

function versusRow(row) {
  const top = Math.max(...[row.before, row.after].filter(known).map(Math.abs), 0);
  const cell = (value, side) => h("td", null, h("b", null, withUnit(value, row.unit)),
    known(value) && top > 0 ? h("span", { class: "track" }, h("i", { class: side, css: { width: `${Math.abs(value) / top * 100}%` } })) : null);
  const mark = row.better === true ? ["better", "▲ better"] : row.better === false ? ["worse", "▼ worse"] : ["same", ""];
  return h("tr", null, h("th", { scope: "row" }, row.name), cell(row.before, "before"), cell(row.after, "after"),
    h("td", { class: mark[0] }, known(row.ratio) ? formatTimes(row.ratio) : "", mark[1] ? h("span", null, ` ${mark[1]}`) : null));
}

function findingList(title, names, kind) {
  const listed = names || [];
  return h("div", { class: `changed ${kind}` }, h("h3", null, `${title} (${listed.length})`), listed.length ? h("ul", null, listed.map((name) => h("li", null, name))) : h("p", { class: "note" }, "none"));
}

function twoTimes(first, second, labels) {
  const pair = [first, second].map((charts) => (charts || {}).time);
  if (!pair.some(Boolean)) return null;
  return [h("h3", null, "Where the time went"), pair.map((time, index) => (time ? timeShare(time, labels[index]) : h("p", { class: "unknown" }, `${labels[index]}: not known.`)))];
}

// Both bandwidths over the same length of time and to the same height.
function twoBandwidths(first, other, verdict, labels) {
  const runs = [[verdict, first], [other.verdict || {}, other.charts]].map(([one, charts], index) => {
    const bandwidth = (charts || {}).bandwidth;
    if (!bandwidth) return null;
    const start = (one.job || {}).start_ns;
    const origin = known(start) ? start : bandwidth.start_ns;
    return { label: labels[index], series: seriesOf(bandwidth, origin), phases: phasesOf(one, origin) };
  });
  if (!runs.every(Boolean)) return null;
  const end = Math.max(...runs.map((run) => run.series.start + run.series.bin * run.series.bins));
  const view = timeView(Math.min(0, ...runs.map((run) => run.series.start)), end);
  const peak = Math.max(...runs.flatMap((run) => ["read", "write"].flatMap((kind) => (run.series.values[kind] || []).map((value) => (value || 0) / run.series.bin))));
  return [h("h3", null, "Bandwidth over time"), runs.map((run) => h("figure", null, h("figcaption", null, run.label),
    bandwidthPanel(view, run.series, run.phases, `Bandwidth over time, ${run.label}`, peak).node))];
}
