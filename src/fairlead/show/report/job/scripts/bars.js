// Charts that are bars: where the time went, costs, request sizes, access patterns, and the ranks from slow to fast.

function stackedBar(parts, label) {
  const total = parts.reduce((sum, part) => sum + (part.value || 0), 0);
  return h("div", { class: "stack", role: "img", "aria-label": label }, parts.filter((part) => part.value > 0).map((part) =>
    hovering(h("span", { class: part.kind, css: { "flex-grow": part.value / total } }),
      () => [part.name, [null, part.text, formatShare(part.value / total)]])));
}

function timeShare(time, caption) {
  const parts = [["compute", "compute_s", "not in I/O"], ["read", "read_s", "read"], ["write", "write_s", "write"], ["meta", "meta_s", "metadata"]]
    .map(([kind, field, name]) => ({ kind, name, value: time[field], text: formatDuration(time[field]) }));
  const whole = known(time.run_time_s) ? time.run_time_s : parts.reduce((sum, part) => sum + (part.value || 0), 0);
  const words = parts.map((part) => `${part.name} ${part.text}`).join(", ");
  return h("figure", { class: "share" }, caption ? h("figcaption", null, caption) : null,
    stackedBar(parts, `Of ${formatDuration(whole)} per process on average: ${words}`),
    h("ul", { class: "legend" }, parts.map((part) => h("li", null, h("i", { class: `key ${part.kind}` }), `${part.name} `, h("b", null, part.text),
      known(part.value) && whole > 0 ? ` ${formatShare(part.value / whole)}` : ""))));
}

function costBars(costs, runTime) {
  const listed = costs.filter((cost) => known(cost.cost_s)).sort((a, b) => b.cost_s - a.cost_s).slice(0, 8);
  const top = Math.max(...listed.map((cost) => cost.cost_s), 1e-12);
  return h("div", null, h("h3", null, "Time lost, by cause"),
    h("ol", { class: "costs" }, listed.map((cost) => h("li", null, h("span", { class: "name" }, cost.cause),
      h("span", { class: "track" }, h("i", { css: { width: `${cost.cost_s / top * 100}%` } })), h("b", null, `≈ ${formatDuration(cost.cost_s)}`)))),
    h("p", { class: "note" }, `Causes can overlap: one second may be counted under two of them, so they do not add up${known(runTime) ? ` to the ${formatDuration(runTime)} of the job` : ""}.`));
}

function sizeBars(sizes) {
  const sum = (list) => (list || []).reduce((total, count) => total + (count || 0), 0);
  const totals = { read: sum(sizes.read), write: sum(sizes.write) };
  const kinds = ["read", "write"].filter((kind) => totals[kind] > 0);
  const top = Math.max(1, ...kinds.flatMap((kind) => sizes[kind]));
  const rows = sizes.bins.map((bin, index) => h("tr", null, h("th", { scope: "row" }, bin), h("td", null, kinds.some((kind) => sizes[kind][index] > 0) ? kinds.map((kind) => {
    const count = sizes[kind][index];
    const share = count / totals[kind];
    return h("div", { class: "hbar" }, h("i", { class: count ? kind : "none", css: { width: `${count / top * 100}%` } }),
      h("span", { class: count ? "" : "faint" }, count ? [formatCount(count), h("small", null, ` ${formatShare(share)}`)] : "0"));
  }) : h("div", { class: "hbar faint" }, "0"))));
  return h("div", null, h("h3", null, "Request sizes"), legend(...kinds.map((kind) => [kind, `${plural(totals[kind], kind)}`])),
    h("table", { class: "histogram", "aria-label": "Requests by size" }, h("tbody", null, rows)),
    sizes.common && sizes.common.length ? h("p", { class: "note" }, "Most common: ", sizes.common.slice(0, 6).map((entry, index) =>
      [index ? ", " : "", h("b", null, formatBytes(entry.size)), ` (${formatCount(entry.count)}×)`]), ".") : null);
}

const PATTERNS = [["consecutive", "right behind the last"], ["sequential", "further forward"], ["strided", "at a constant distance"], ["random", "backward, no constant step"]];

function patternBars(patterns) {
  const row = (kind) => {
    const shares = patterns[kind];
    if (!shares) return null;
    const said = PATTERNS.map(([name]) => `${name} ${formatShare(shares[name])}`).join(", ");
    const total = PATTERNS.reduce((sum, [name]) => sum + (shares[name] || 0), 0);
    return h("div", { class: "pattern" }, h("h4", null, kind === "read" ? "Reads" : "Writes"),
      total > 0 ? h("div", { class: `stack ${kind}s`, role: "img", "aria-label": said }, PATTERNS.filter(([name]) => shares[name] > 0).map(([name, words]) =>
        hovering(h("span", { class: name, css: { "flex-grow": shares[name] } }), () => [name, [null, words, formatShare(shares[name])]]))) : null,
      h("dl", { class: `shares ${kind}s` }, PATTERNS.map(([name, words]) => [h("dt", null, h("i", { class: `key ${name}` }), name, h("small", null, ` ${words}`)), h("dd", null, formatShare(shares[name]))])));
  };
  return h("div", null, h("h3", null, "Access pattern"), row("read"), row("write"));
}

const RANK_VIEWS = {
  time: { text: "I/O time", format: formatDuration, parts: ["io_time_s"] },
  read: { text: "Read", format: formatBytes, parts: ["read_bytes"] },
  write: { text: "Written", format: formatBytes, parts: ["write_bytes"] },
};

function rankChart(ranks) {
  const chart = h("div", { class: "ranks" });
  let [metric, order] = ["time", "sorted"];
  const draw = () => replace(chart, rankBars(ranks, RANK_VIEWS[metric], order));
  const usable = Object.entries(RANK_VIEWS).filter(([, one]) => (ranks[one.parts[0]] || []).some((value) => value > 0));
  if (usable.length && !usable.some(([name]) => name === metric)) metric = usable[0][0];
  focus.listen(draw);
  draw();
  return h("div", null, h("div", { class: "bar" }, usable.length > 1 && choices("What the bars show", usable.map(([name, one]) => [name, one.text]), metric, (name) => { metric = name; draw(); }),
    choices("Order of the ranks", [["sorted", "Largest first"], ["rank", "By rank"]], order, (name) => { order = name; draw(); })), chart);
}

function rankBars(ranks, shown, order) {
  const values = (ranks[shown.parts[0]] || []).map((value) => value || 0);
  const places = values.map((_, index) => index);
  if (order === "sorted") places.sort((a, b) => values[b] - values[a]);
  const count = places.length;
  const top = Math.max(...values, 1e-12);
  const { mean, active } = usual(values);
  const slow = new Set(places.filter((place) => values[place] >= mean * 1.5));
  const group = (place) => (focus.ranks && focus.ranks.has(ranks.rank[place]) ? "lit" : slow.has(place) ? "slow" : "usual");
  const paths = { usual: "", slow: "", lit: "" };
  const width = count > 120 ? 1 : 0.8;
  places.forEach((place, index) => {
    const height = values[place] / top * 100;
    paths[group(place)] += `M${(index + (1 - width) / 2).toFixed(2)} 100v-${height.toFixed(2)}h${width}v${height.toFixed(2)}z`;
  });
  const picture = svg("svg", { viewBox: `0 0 ${count} 100`, preserveAspectRatio: "none", role: "img", "aria-label": rankWords(ranks) },
    ["usual", "slow", "lit"].map((name) => svg("path", { class: name, d: paths[name] })));
  const under = (event) => {
    const edges = picture.getBoundingClientRect();
    return places[Math.max(0, Math.min(count - 1, Math.floor((event.clientX - edges.left) / edges.width * count)))];
  };
  hovering(picture, (event) => {
    const place = under(event);
    const field = (name, format) => (ranks[name] ? format(ranks[name][place]) : ABSENT);
    return [`rank ${ranks.rank[place]}${ranks.node && ranks.node[place] ? ` on ${ranks.node[place]}` : ""}`, [null, "I/O time", field("io_time_s", formatDuration)],
      ["read", "read", field("read_bytes", formatBytes)], ["write", "written", field("write_bytes", formatBytes)]];
  });
  picture.addEventListener("click", (event) => focus.set({ ranks: new Set([ranks.rank[under(event)]]) }));
  const line = h("div", { class: "mean", css: { bottom: `${mean / top * 100}%` } }, h("span", null, `mean ${active < count ? `of ${formatCount(active)} ` : ""}${shown.format(mean)}`));
  return [h("div", { class: "frame" }, h("span", { class: "top" }, shown.format(top)), h("div", { class: "plot" }, picture, line)),
    h("p", { class: "under" }, order === "sorted" ? `${plural(count, "rank")}, largest first` : `rank ${ranks.rank[0]} to ${ranks.rank[count - 1]}`,
      slow.size ? [" · ", h("i", { class: "key slow" }), `${slow.size} at 1.5 times the mean or more (${slow.size === 1 ? "rank" : "ranks"} ${formatRanks([...slow].map((place) => ranks.rank[place]), 6)})`] : null)];
}

function rankWords(ranks) {
  const times = ranks.io_time_s || [];
  const { mean, active } = usual(times);
  if (!(mean > 0)) return "";
  const place = times.reduce((best, value, index) => ((value || 0) > (times[best] || 0) ? index : best), 0);
  const ratio = times[place] / mean;
  const node = ranks.node && ranks.node[place] ? ` on ${ranks.node[place]}` : "";
  if (times.length === 1) return `The one process spent ${formatDuration(mean)} in I/O; there is nothing to compare it with.`;
  const few = active < times.length * 0.9 ? `${formatCount(active)} of ${formatCount(times.length)} ranks spend nearly all the I/O time. ` : "";
  return few + (ratio < 1.2
    ? `${few ? "They" : "The ranks"} are even: the slowest (rank ${ranks.rank[place]}${node}) spent ${formatDuration(times[place])} in I/O, ${formatTimes(ratio)} the mean.`
    : `Rank ${ranks.rank[place]}${node} spent ${formatDuration(times[place])} in I/O, ${formatTimes(ratio)} ${few ? "their" : "the"} mean of ${formatDuration(mean)}.`);
}

// The mean of the ranks that count: those with a hundredth of the largest value or more. Idle ranks would lower it.
function usual(values) {
  const top = Math.max(...values.map((value) => value || 0), 0);
  const counted = values.filter((value) => value > 0 && value >= top / 100);
  return { mean: counted.reduce((sum, value) => sum + value, 0) / (counted.length || 1), active: counted.length };
}
