// The heat map of rank and time: bytes per cell on a logarithmic scale. No bytes is blank, no record is grey.

// From what all but the weakest twentieth of the busy cells move, to the most.
function heatRange(heatmap, mode) {
  const cells = [];
  for (let row = 0; row < heatmap.rows.length; row += 1) {
    for (let bin = 0; bin < heatmap.bins; bin += 1) {
      const value = heatValue(heatmap, mode, row, bin);
      if (value > 0) cells.push(value);
    }
  }
  const sorted = Float64Array.from(cells).sort();
  return { low: sorted[Math.floor(sorted.length / 20)] || 0, high: sorted[sorted.length - 1] || 0 };
}

function heatValue(heatmap, mode, row, bin) {
  const read = ((heatmap.read || [])[row] || [])[bin];
  const write = ((heatmap.write || [])[row] || [])[bin];
  if (mode === "read") return read;
  if (mode === "write") return write;
  return known(read) || known(write) ? (read || 0) + (write || 0) : null;
}

function channels(text) {
  const value = Number.parseInt(text.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

// 64 colours from weak to strong, through the three stops of the style sheet.
function heatRamp(mode) {
  const stops = colour(`heat-${mode}`).split(/[\s,]+/).map(channels);
  return Array.from({ length: 64 }, (_, index) => {
    const place = index / 63 * (stops.length - 1);
    const at = Math.min(Math.floor(place), stops.length - 2);
    return stops[at].map((channel, i) => Math.round(channel + (place - at) * (stops[at + 1][i] - channel)));
  });
}

function heatPicture(heatmap, mode, range) {
  const picture = h("canvas", { width: heatmap.bins, height: heatmap.rows.length });
  const context = picture.getContext("2d");
  const image = context.createImageData(heatmap.bins, heatmap.rows.length);
  const ramp = heatRamp(mode);
  const unknown = channels(colour("unknown"));
  const depth = Math.log(range.high / range.low) || 1;
  for (let row = 0, at = 0; row < heatmap.rows.length; row += 1) {
    for (let bin = 0; bin < heatmap.bins; bin += 1, at += 4) {
      const value = heatValue(heatmap, mode, row, bin);
      if (value === 0) continue;
      const share = known(value) ? Math.max(0, Math.min(1, range.high > range.low ? Math.log(value / range.low) / depth : 1)) : 0;
      image.data.set(known(value) ? ramp[Math.round(share * 63)] : unknown, at);
      image.data[at + 3] = 255;
    }
  }
  context.putImageData(image, 0, 0);
  return picture;
}

function ranksOfLabel(label) {
  return rankSet(String(label).replace(/^\D+/, "")) || new Set();
}

function heatPanel(view, heatmap) {
  const labels = heatmap.rows.map((row) => row.label);
  const ranks = labels.map(ranksOfLabel);
  const scale = h("span", { class: "scale" });
  let mode = "both";
  let picture = null;
  let range = null;

  function draw() {
    range = heatRange(heatmap, mode);
    picture = heatPicture(heatmap, mode, range);
    const ends = range.high > 0 ? [formatBytes(range.low), formatBytes(range.high)] : ["nothing", ""];
    const bar = h("i", { class: "ramp", css: { background: `linear-gradient(90deg, ${colour(`heat-${mode}`)})` } });
    replace(scale, ends[0], range.high > 0 ? bar : null, ends[1], range.high > 0 ? h("small", null, ` per rank and ${formatDuration(heatmap.bin_s)}, log scale`) : null);
  }
  const panel = timePanel(view, {
    label: `Heat map of bytes moved per rank and time, ${labels.length} rows by ${heatmap.bins} bins of ${formatDuration(heatmap.bin_s)}.`,
    height: () => Math.max(40, Math.min(labels.length * 20, 360)),
    paint(context, area) {
      if (!picture || picture.theme !== colour("heat-both")) {
        draw();
        picture.theme = colour("heat-both");
      }
      paintRowLabels(context, area, labels, (index) => focus.ranks && [...ranks[index]].some((rank) => focus.ranks.has(rank)));
      context.beginPath();
      context.rect(area.left, area.top, area.width, area.height);
      context.clip();
      context.imageSmoothingEnabled = false;
      const left = area.x(heatmap.start_s);
      context.drawImage(picture, left, area.top, area.x(heatmap.start_s + heatmap.bins * heatmap.bin_s) - left, area.height);
    },
    describe(time, y, area) {
      const row = Math.floor((y - area.top) / (area.height / labels.length));
      const bin = Math.floor((time - heatmap.start_s) / heatmap.bin_s);
      if (row < 0 || row >= labels.length || bin < 0 || bin >= heatmap.bins) return null;
      const from = heatmap.start_s + bin * heatmap.bin_s;
      return [labels[row], [null, "time", rangeText(from, from + heatmap.bin_s)],
        ["read", "read", formatBytes(heatValue(heatmap, "read", row, bin))], ["write", "write", formatBytes(heatValue(heatmap, "write", row, bin))]];
    },
  });
  focus.listen(() => panel.paint());
  const bar = h("div", { class: "bar" }, choices("What the heat map shows", [["both", "Both"], ["read", "Read"], ["write", "Write"]], mode, (name) => {
    mode = name;
    picture = null;
    panel.paint();
  }), scale);
  return { node: [bar, panel.node] };
}
