// The time charts that are lines and rows: bandwidth with its phases, and what each rank did when.

const KINDS = ["read", "write", "meta"];
const KIND_WORDS = { read: "read", write: "write", meta: "metadata", mixed: "read and write" };

function kindOf(phase) {
  return { read: "read", write: "write", metadata: "meta", meta: "meta" }[phase.kind] || "mixed";
}

// Phases with times in seconds since the job began.
function phasesOf(verdict, origin) {
  return (verdict.phases || []).filter((phase) => known(phase.start_ns) && known(phase.end_ns)).map((phase) => ({
    ...phase, from: (phase.start_ns - origin) / 1e9, to: (phase.end_ns - origin) / 1e9, colour: kindOf(phase),
  }));
}

function seriesOf(bandwidth, origin) {
  const bin = bandwidth.bin_ns / 1e9;
  const sums = {};
  for (const kind of ["read", "write"]) {
    const values = bandwidth[kind] || [];
    sums[kind] = new Float64Array(values.length + 1);
    values.forEach((value, index) => { sums[kind][index + 1] = sums[kind][index] + (value || 0); });
  }
  const bins = sums.read.length > sums.write.length ? sums.read.length - 1 : sums.write.length - 1;
  return { start: (bandwidth.start_ns - origin) / 1e9, bin, bins, sums, values: bandwidth };
}

// Bytes per second over [from, to) seconds: exact for whole bins, in proportion for parts of one.
function meanRate(series, kind, from, to) {
  const sums = series.sums[kind];
  const at = (time) => {
    const place = Math.max(0, Math.min((time - series.start) / series.bin, sums.length - 1));
    const index = Math.floor(place);
    return sums[index] + (place - index) * ((sums[index + 1] ?? sums[index]) - sums[index]);
  };
  return (at(to) - at(from)) / (to - from);
}

// Columns to draw: whole bins when they are wider than a pixel, else pixels. [[left, right, rate], ...]
function columnsOf(series, kind, area, view) {
  const columns = [];
  if (series.bin * area.scale >= 1) {
    const first = Math.max(0, Math.floor((view.from - series.start) / series.bin));
    const last = Math.min(series.bins - 1, Math.floor((view.to - series.start) / series.bin));
    for (let index = first; index <= last; index += 1) {
      const from = series.start + index * series.bin;
      const value = (series.values[kind] || [])[index];
      if (known(value)) columns.push([area.x(from), area.x(from + series.bin), value / series.bin]);
    }
    return columns;
  }
  for (let x = area.left; x < area.right; x += 1) columns.push([x, x + 1, meanRate(series, kind, area.time(x), area.time(x + 1))]);
  return columns;
}

function bandwidthPanel(view, series, phases, label, ceiling) {
  return timePanel(view, {
    label,
    height: (width) => (width < 500 ? 140 : 190),
    paint(context, area) {
      const columns = ["write", "read"].map((kind) => [kind, columnsOf(series, kind, area, view)]);
      let top = ceiling || 0;
      for (const [, list] of columns) for (const column of list) top = Math.max(top, column[2]);
      const y = (rate) => area.bottom - (top > 0 ? rate / (top * 1.04) : 0) * (area.height - (phases.length ? 24 : 4));
      paintBytesAxis(context, area, byteTicks(top), y);
      context.beginPath();
      context.rect(area.left, area.top, area.width, area.height + 1);
      context.clip();
      paintPhases(context, area, phases);
      for (const [kind, list] of columns) paintSteps(context, area, list, y, colour(kind));
    },
    describe(time) {
      const index = Math.floor((time - series.start) / series.bin);
      const from = series.start + index * series.bin;
      if (index < 0 || index >= series.bins) return null;
      const rows = ["read", "write"].map((kind) => [kind, KIND_WORDS[kind], formatBandwidth(known((series.values[kind] || [])[index]) ? series.values[kind][index] / series.bin : null)]);
      const phase = phases.find((one) => time >= one.from && time <= one.to);
      if (phase) rows.push([null, `${KIND_WORDS[phase.colour]} phase`, `${formatBytes(phase.bytes)} in ${formatDuration(phase.to - phase.from)}`]);
      return [rangeText(from, from + series.bin), ...rows];
    },
    press(time, y) {
      const phase = y < GUTTER.top + 18 && phases.find((one) => time >= one.from && time <= one.to);
      if (phase) zoomTo(view, phase.from, phase.to);
    },
  });
}

function zoomTo(view, from, to) {
  const margin = Math.max((to - from) * 0.08, 1e-6);
  view.show(from - margin, to + margin);
}

function paintBytesAxis(context, area, ticks, y) {
  context.textAlign = "right";
  for (const tick of ticks) {
    const line = Math.round(y(tick)) + 0.5;
    context.strokeStyle = colour(tick ? "grid" : "axis");
    context.beginPath();
    context.moveTo(area.left, line);
    context.lineTo(area.right, line);
    context.stroke();
    context.fillStyle = colour("muted");
    if (tick || ticks.length === 1) context.fillText(formatBandwidth(tick), area.left - 6, line);
  }
}

function paintPhases(context, area, phases) {
  context.textAlign = "left";
  let free = 0;
  const lanes = new Set(phases.map((phase) => phase.colour)).size > 1;
  for (const phase of phases) {
    const left = area.x(phase.from);
    const width = Math.max(2, area.x(phase.to) - left);
    if (left > area.right || left + width < area.left) continue;
    context.fillStyle = colour(phase.colour);
    context.globalAlpha = 0.1;
    context.fillRect(left, area.top, width, area.height);
    context.globalAlpha = 1;
    context.fillRect(left, area.top + (lanes && phase.colour !== "read" ? 4 : 0), width, 3);
    const label = known(phase.bandwidth_bytes_per_s) ? formatBandwidth(phase.bandwidth_bytes_per_s) : "";
    const start = Math.max(left, area.left) + 5;
    const length = context.measureText(label).width;
    if (label && start > free && length + 5 < Math.min(left + width, area.right) - start) {
      free = start + length + 4;
      context.fillStyle = colour("muted");
      context.fillText(label, start, area.top + 15);
    }
  }
}

function paintSteps(context, area, columns, y, stroke) {
  if (!columns.some((column) => column[2] > 0)) return;
  context.beginPath();
  context.moveTo(columns[0][0], area.bottom);
  for (const [left, right, rate] of columns) {
    context.lineTo(left, y(rate));
    context.lineTo(right, y(rate));
  }
  context.lineTo(columns[columns.length - 1][1], area.bottom);
  context.fillStyle = stroke;
  context.globalAlpha = 0.28;
  context.fill();
  context.globalAlpha = 1;
  context.beginPath();
  columns.forEach(([left, right, rate], index) => { // The line rests where nothing moves: no second colour on the zero line.
    const before = index ? columns[index - 1][2] : 0;
    if (!(rate > 0 || before > 0)) return;
    if (!(before > 0)) context.moveTo(left, area.bottom);
    context.lineTo(left, y(rate));
    if (rate > 0) context.lineTo(right, y(rate));
  });
  context.strokeStyle = stroke;
  context.lineWidth = 1.4;
  context.lineJoin = "round";
  context.stroke();
}

// The rows of the timeline: for each shown rank the indices of its segments, in the order given.
function rowsOf(timeline) {
  const { rank, start_s: start, dur_s: length } = timeline.segments;
  const rows = new Map((timeline.ranks || []).map((one) => [one, []]));
  for (let index = 0; index < rank.length; index += 1) {
    if (!known(start[index]) || !known(length[index])) continue;
    if (!rows.has(rank[index])) rows.set(rank[index], []);
    rows.get(rank[index]).push(index);
  }
  for (const indices of rows.values()) indices.sort((a, b) => start[a] - start[b]);
  return rows;
}

function rankSet(text) {
  const wanted = new Set();
  for (const part of text.split(/[\s,;]+/).filter(Boolean)) {
    const match = part.match(/^(\d+)(?:[-–](\d+))?$/);
    if (!match) return null;
    const last = Number(match[2] ?? match[1]);
    for (let rank = Number(match[1]); rank <= last && wanted.size < 1e6; rank += 1) wanted.add(rank);
  }
  return wanted;
}

function timelinePanel(view, timeline) {
  const rows = rowsOf(timeline);
  let shown = [...rows.keys()];
  const { start_s: start, dur_s: length, kind: kinds, bytes } = timeline.segments;
  const panel = timePanel(view, {
    label: `What each of ${plural(shown.length, "rank")} did over time: reads, writes and metadata operations.`,
    height: () => Math.max(40, Math.min(shown.length * 22, 420)),
    paint(context, area) {
      paintRowLabels(context, area, shown.map((rank) => `rank ${rank}`), (index) => focus.ranks && focus.ranks.has(shown[index]));
      context.beginPath();
      context.rect(area.left, area.top, area.width, area.height);
      context.clip();
      const step = area.height / shown.length;
      const gap = step > 8 ? 3 : step > 3 ? 1 : 0;
      shown.forEach((rank, index) => {
        context.globalAlpha = focus.ranks && !focus.ranks.has(rank) ? 0.18 : 1;
        paintRow(context, area, rows.get(rank), area.top + index * step + gap / 2, Math.max(1, step - gap));
      });
    },
    describe(time, y, area) {
      const rank = shown[Math.floor((y - area.top) / (area.height / shown.length))];
      if (rank === undefined) return null;
      const reach = 3 / area.scale;
      let near = -1;
      for (const index of rows.get(rank)) {
        if (start[index] - reach > time || start[index] + length[index] + reach < time) continue;
        if (near < 0 || length[index] < length[near]) near = index;
      }
      if (near < 0) return [`rank ${rank}`, [null, "at", formatDuration(time)], [null, "no I/O drawn here", ""]];
      const kind = KINDS[kinds[near]];
      const size = bytes && known(bytes[near]) ? bytes[near] : null;
      const spent = length[near] > 0 ? formatDuration(length[near]) : "under 1 µs";
      return [`rank ${rank}`, [kind, KIND_WORDS[kind], kind === "meta" ? "" : formatBytes(size)], [null, "from", formatDuration(start[near])], [null, "lasting", spent],
        ...(size && length[near] > 0 ? [[null, "at", formatBandwidth(size / length[near])]] : [])];
    },
  });

  function paintRow(context, area, indices, top, height) {
    const drawn = [-1, -1, -1];
    for (const kind of [2, 0, 1]) {
      context.fillStyle = colour(KINDS[kind]);
      for (const index of indices) {
        if (kinds[index] !== kind) continue;
        const left = area.x(start[index]);
        const right = left + length[index] * area.scale;
        if (right < area.left || left > area.right || right <= drawn[kind]) continue;
        const from = Math.max(left, drawn[kind]);
        const width = Math.max(1, right - from);
        context.fillRect(from, top, width, height);
        drawn[kind] = from + width;
      }
    }
  }

  panel.keep = (ranks) => {
    shown = [...rows.keys()].filter((rank) => !ranks || ranks.has(rank));
    if (!shown.length) shown = [...rows.keys()];
    panel.paint();
  };
  panel.count = rows.size;
  return panel;
}

// Labels beside rows, as many as fit, and a mark on the rows in focus.
function paintRowLabels(context, area, labels, lit) {
  const step = area.height / labels.length;
  const stride = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096].find((size) => size * step >= 17) || labels.length;
  context.textAlign = "right";
  labels.forEach((label, index) => {
    const middle = area.top + (index + 0.5) * step;
    if (index % stride === 0) {
      context.fillStyle = colour("muted");
      context.fillText(label.replace(/^ranks /, ""), area.left - 9, Math.max(middle, area.top + 5));
    }
    if (lit(index)) {
      context.fillStyle = colour("accent");
      context.fillRect(area.left - 6, area.top + index * step, 4, Math.max(2, step - 1));
    }
  });
  context.strokeStyle = colour("axis");
  context.strokeRect(area.left - 0.5, area.top - 0.5, area.width + 1, area.height + 1);
}

// Which ranks the timeline shows: a text field for many ranks, and what evidence has put in focus.
function rankBar(panel) {
  const wrong = h("span", { class: "wrong", role: "alert" });
  const field = h("input", {
    type: "search", id: "rank-filter", placeholder: "all, or 0-15, 40", "aria-label": "Show only these ranks", oninput() {
      const wanted = rankSet(field.value);
      wrong.textContent = wanted ? "" : "write ranks as 0-15, 40";
      if (wanted) panel.keep(wanted.size ? wanted : null);
    },
  });
  const lit = h("span", { class: "lit", hidden: true });
  focus.listen(() => {
    lit.hidden = !focus.ranks;
    if (focus.ranks) replace(lit, `Lit: ranks ${formatRanks(focus.ranks)} `, h("button", { type: "button", onclick: () => focus.set({ ranks: null }) }, "Clear"));
    panel.paint();
  });
  return h("div", { class: "bar" }, h("span", null, panel.count > 1 ? [h("label", { for: "rank-filter" }, "Ranks "), field, " ", wrong] : null, lit),
    legend(["read", "read"], ["write", "write"], ["meta", "metadata"]));
}

function phaseTable(view, phases) {
  const most = 8;
  const row = (phase, index) => h("tr", { hidden: index >= most },
    h("td", null, h("i", { class: `key ${phase.colour}` }), KIND_WORDS[phase.colour]),
    h("td", null, formatDuration(phase.from)), h("td", null, formatDuration(phase.to - phase.from)), h("td", null, formatBytes(phase.bytes)),
    h("td", null, formatBandwidth(phase.bandwidth_bytes_per_s)),
    h("td", null, view ? h("button", { type: "button", "aria-label": `Zoom to phase ${index + 1}`, onclick: () => zoomTo(view, phase.from, phase.to) }, "zoom") : null));
  const body = h("tbody", null, phases.map(row));
  const more = phases.length > most ? h("button", { type: "button", onclick() {
    for (const line of body.children) line.hidden = false;
    this.remove();
  } }, `Show all ${formatCount(phases.length)} phases`) : null;
  return h("div", { class: "scroll" }, h("table", { class: "plain phases" },
    h("thead", null, h("tr", null, ["Phase", "starts at", "lasts", "moves", "bandwidth", ""].map((name) => h("th", { scope: "col" }, name)))), body), more);
}
