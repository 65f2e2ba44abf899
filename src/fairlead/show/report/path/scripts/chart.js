// One time chart as inline SVG at the width it is given: axis, culprits' spans, a cursor all charts share.

const MARGIN = { left: 62, right: 8, top: 6, bottom: 18 };
const PLAIN_WIDTH = 680;
const cursors = [];

// options: label, height, top (largest value), tick(value) → text, time {window_s, count}, spans, paint(area) → nodes,
// describe(index) → [title, ...rows].
function chart(options) {
  const box = h("div", null);
  const { window_s: step, count } = options.time;
  const end = step * count;
  let cursor = null;
  let area = null;

  function draw(width) {
    const height = options.height;
    const scale = (width - MARGIN.left - MARGIN.right) / end;
    const bottom = height - MARGIN.bottom;
    const tall = bottom - MARGIN.top;
    const top = options.top > 0 ? options.top : 1;
    area = {
      left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top, bottom, step, count,
      x: (seconds) => MARGIN.left + seconds * scale,
      y: (value) => bottom - Math.min(value / top, 1) * tall,
      index: (x) => Math.floor((x - MARGIN.left) / scale / step),
    };
    cursor = svg("line", { class: "cursor", y1: MARGIN.top, y2: bottom, visibility: "hidden" });
    const levels = options.top > 0 ? [0, top / 2, top] : [0];
    replace(box, svg("svg", { class: "chart", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": options.label },
      (options.spans || []).map((one) => svg("rect", { class: "span", x: area.x(one.from_s), width: Math.max(2, area.x(one.to_s) - area.x(one.from_s)), y: MARGIN.top, height: tall })),
      levels.map((value) => [
        svg("line", { class: value ? "grid" : "axis", x1: area.left, x2: area.right, y1: area.y(value), y2: area.y(value) }),
        svg("text", { x: area.left - 6, y: area.y(value) + (value === top ? 8 : value ? 4 : 0), "text-anchor": "end" }, value || options.top > 0 ? options.tick(value) : "0"),
      ]),
      timeTicks(0, end, (area.right - area.left) / 80).map(([seconds, text]) => svg("text", {
        x: Math.min(area.x(seconds), area.right), y: height - 4, "text-anchor": seconds <= 0 ? "start" : seconds > end * 0.97 ? "end" : "middle",
      }, text)),
      options.paint(area), cursor));
  }

  function pointed(event) {
    const index = area.index(event.clientX - box.getBoundingClientRect().left);
    return index >= 0 && index < count ? index : null;
  }
  cursors.push((index) => {
    if (!area) return;
    if (index === null) cursor.setAttribute("visibility", "hidden");
    else {
      const x = area.x((index + 0.5) * step);
      cursor.setAttribute("x1", x);
      cursor.setAttribute("x2", x);
      cursor.setAttribute("visibility", "visible");
    }
  });
  box.addEventListener("pointermove", (event) => {
    const index = pointed(event);
    for (const move of cursors) move(index);
    const said = index === null ? null : options.describe(index);
    if (said) tip.show(event.clientX, event.clientY, said[0], said.slice(1));
    else tip.hide();
  });
  box.addEventListener("pointerleave", () => {
    for (const move of cursors) move(null);
    tip.hide();
  });
  let drawn = 0;
  new ResizeObserver(() => {
    const width = Math.round(box.clientWidth);
    if (width < 60 || width === drawn) return;
    drawn = width;
    draw(width);
  }).observe(box);
  addEventListener("beforeprint", () => draw(PLAIN_WIDTH));
  addEventListener("afterprint", () => draw(drawn || PLAIN_WIDTH));
  return box;
}

function moment(time, index) {
  const from = time.window_s * index;
  return `${formatDuration(from)} – ${formatDuration(from + time.window_s)}`;
}

// Bars, one a window, of values stacked: layers are [class, values, fill or null].
function stacked(area, layers) {
  const bars = [];
  const gap = (area.right - area.left) / area.count > 5 ? 1 : 0;
  for (let index = 0; index < area.count; index += 1) {
    let below = 0;
    for (const [kind, values, fill] of layers) {
      const value = (values || [])[index];
      if (!(value > 0)) continue;
      const x = area.x(index * area.step);
      const y = area.y(below + value);
      bars.push(svg("rect", { class: kind, fill, x: x + gap / 2, y, width: Math.max(0.5, area.x((index + 1) * area.step) - x - gap), height: Math.max(0, area.y(below) - y) }));
      below += value;
    }
  }
  return bars;
}

// A line over windows; a gap where nothing is known.
function line(area, values, stroke, width) {
  const parts = [];
  const dots = [];
  let pen = "M";
  (values || []).forEach((value, index) => {
    if (!known(value)) {
      pen = "M";
      return;
    }
    const x = area.x((index + 0.5) * area.step);
    const y = area.y(value);
    const alone = pen === "M" && !known(values[index + 1]);
    if (alone) dots.push(svg("circle", { class: "dot", cx: x, cy: y, r: 2.2, fill: stroke }));
    parts.push(`${pen}${x.toFixed(1)} ${y.toFixed(1)}`);
    pen = "L";
  });
  return [svg("path", { class: "line", d: parts.join(""), stroke, "stroke-width": width || null }), dots];
}

function largest(...series) {
  let top = 0;
  for (const values of series) for (const value of values || []) if (known(value) && value > top) top = value;
  return top;
}
