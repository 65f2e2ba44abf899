// One stretch of time shared by all time charts, and the canvas panel they are drawn on: zoom, move, cursor, axis.

const GUTTER = { left: 72, right: 12, top: 8, bottom: 22 };
const PRINT_WIDTH = 680;
const allViews = [];

function timeView(start, end) {
  const listeners = [];
  let waiting = false;
  const whole = end - start;
  const view = {
    start, end, from: start, to: end, panels: [],
    get zoomed() { return view.to - view.from < whole * 0.9999; },
    show(from, to) {
      const span = Math.min(Math.max(to - from, whole / 1e6, 1e-7), whole);
      view.from = Math.max(start, Math.min((from + to - span) / 2, end - span));
      view.to = view.from + span;
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => {
        waiting = false;
        for (const react of listeners) react();
      });
    },
    zoom(centre, factor) { view.show(centre - (centre - view.from) * factor, centre + (view.to - centre) * factor); },
    move(seconds) { view.show(view.from + seconds, view.to + seconds); },
    reset() { view.show(start, end); },
    listen(react) { listeners.push(react); },
    point(time) { for (const panel of view.panels) panel.point(time); },
    repaint() { for (const panel of view.panels) panel.paint(); },
  };
  allViews.push(view);
  return view;
}

// options: label, height(width), paint(context, area), describe(time, y, area) → [title, ...rows] or null, press(time).
function timePanel(view, options) {
  const canvas = h("canvas", { tabindex: 0, role: "img", "aria-label": options.label });
  const line = h("div", { class: "cursor", hidden: true });
  const brush = h("div", { class: "brush", hidden: true });
  const box = h("div", { class: "panel" }, canvas, line, brush);
  let area = null;

  const panel = {
    node: box,
    paint() {
      const width = document.documentElement.classList.contains("printing") ? PRINT_WIDTH : box.clientWidth;
      if (width < 50) return;
      const height = options.height(width) + GUTTER.top + GUTTER.bottom;
      area = areaOf(view, width, height);
      const context = sharpContext(canvas, width, height);
      paintAxis(context, area, view);
      context.save();
      options.paint(context, area);
      context.restore();
    },
    point(time) {
      const inside = area && time !== null && time >= view.from && time <= view.to;
      line.hidden = !inside;
      if (inside) line.style.transform = `translateX(${area.x(time)}px)`;
    },
  };
  steer(canvas, brush, view, () => area, options);
  view.panels.push(panel);
  view.listen(panel.paint);
  new ResizeObserver(panel.paint).observe(box);
  return panel;
}

function areaOf(view, width, height) {
  const { left, top } = GUTTER;
  const right = width - GUTTER.right;
  const bottom = height - GUTTER.bottom;
  const scale = (right - left) / (view.to - view.from);
  return {
    left, top, right, bottom, width: right - left, height: bottom - top, scale,
    x: (time) => left + (time - view.from) * scale,
    time: (x) => view.from + (x - left) / scale,
  };
}

function sharpContext(canvas, width, height) {
  const ratio = document.documentElement.classList.contains("printing") ? 2 : Math.min(devicePixelRatio || 1, 3);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  context.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  context.textBaseline = "middle";
  return context;
}

function paintAxis(context, area, view) {
  context.fillStyle = colour("muted");
  context.strokeStyle = colour("grid");
  context.lineWidth = 1;
  for (const [time, label] of timeTicks(view.from, view.to, area.width / 90)) {
    const x = Math.round(area.x(time)) + 0.5;
    context.beginPath();
    context.moveTo(x, area.top);
    context.lineTo(x, area.bottom + 4);
    context.stroke();
    const half = context.measureText(label).width / 2;
    context.textAlign = "center";
    context.fillText(label, Math.min(x, area.right + GUTTER.right - half - 1), area.bottom + 13);
  }
}

function steer(canvas, brush, view, getArea, options) {
  const pointers = new Map();
  let drag = null;
  let settled = false; // Whether the pointer moved here since the page last scrolled: only then the wheel zooms.
  addEventListener("scroll", () => { settled = false; }, { passive: true });
  const at = (event) => event.clientX - canvas.getBoundingClientRect().left;

  canvas.addEventListener("wheel", (event) => {
    const outward = event.deltaY > 0;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      if (!view.zoomed) return;
      event.preventDefault();
      view.move((event.deltaX || event.deltaY) / getArea().scale);
    } else if ((settled || event.ctrlKey) && !(outward && !view.zoomed)) {
      event.preventDefault();
      view.zoom(getArea().time(at(event)), Math.exp(Math.max(-120, Math.min(120, event.deltaY)) * 0.0025));
    }
  }, { passive: false });

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    pointers.set(event.pointerId, at(event));
    canvas.setPointerCapture(event.pointerId);
    const select = event.pointerType !== "touch" && (event.shiftKey || !view.zoomed);
    drag = { x: at(event), from: view.from, to: view.to, select, moved: false };
    if (pointers.size === 2) drag.pinch = [...pointers.values()];
  });

  canvas.addEventListener("pointermove", (event) => {
    settled = true;
    const area = getArea();
    if (!area) return;
    const x = at(event);
    if (pointers.has(event.pointerId)) pointers.set(event.pointerId, x);
    if (drag && pointers.size) {
      dragTo(x, area);
      return;
    }
    const time = area.time(x);
    const y = event.clientY - canvas.getBoundingClientRect().top;
    const inside = x >= area.left && x <= area.right;
    view.point(inside ? time : null);
    const said = inside && options.describe ? options.describe(time, y, area) : null;
    if (said) tip.show(event.clientX, event.clientY, said[0], said.slice(1));
    else tip.hide();
  });

  function dragTo(x, area) {
    if (Math.abs(x - drag.x) > 4) drag.moved = true;
    if (drag.pinch && pointers.size === 2) {
      const [a, b] = [...pointers.values()];
      const [c, d] = drag.pinch;
      const factor = Math.max(10, Math.abs(c - d)) / Math.max(10, Math.abs(a - b));
      const centre = drag.from + ((c + d) / 2 - area.left) * (drag.to - drag.from) / area.width;
      view.show(centre - (centre - drag.from) * factor, centre + (drag.to - centre) * factor);
    } else if (drag.moved && drag.select) {
      const [a, b] = [drag.x, x].map((edge) => Math.max(area.left, Math.min(edge, area.right))).sort((p, q) => p - q);
      brush.hidden = false;
      brush.style.left = `${a}px`;
      brush.style.width = `${b - a}px`;
    } else if (drag.moved) {
      const shift = (drag.x - x) / area.scale;
      view.show(drag.from + shift, drag.to + shift);
    }
    tip.hide();
  }

  function release(event) {
    pointers.delete(event.pointerId);
    if (!drag || pointers.size) return;
    const area = getArea();
    const x = at(event);
    if (event.type === "pointerup" && drag.select && drag.moved && Math.abs(x - drag.x) > 6) {
      view.show(...[area.time(drag.x), area.time(x)].sort((p, q) => p - q));
    } else if (event.type === "pointerup" && !drag.moved && options.press) {
      options.press(area.time(x), event.clientY - canvas.getBoundingClientRect().top, area);
    }
    brush.hidden = true;
    drag = null;
  }
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => {
    view.point(null);
    tip.hide();
  });
  canvas.addEventListener("dblclick", () => view.reset());
  canvas.addEventListener("keydown", (event) => {
    const span = view.to - view.from;
    const middle = (view.from + view.to) / 2;
    const acts = {
      ArrowLeft: () => view.move(-span / 5), ArrowRight: () => view.move(span / 5),
      "+": () => view.zoom(middle, 0.6), "=": () => view.zoom(middle, 0.6), "-": () => view.zoom(middle, 1 / 0.6),
      0: () => view.reset(), Home: () => view.reset(), Escape: () => view.reset(),
    };
    if (event.ctrlKey || event.metaKey || event.altKey || !acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
  });
}

// The bar above the time charts: what stretch is shown, and buttons for those who do not use a wheel.
function timeBar(view) {
  const shown = h("output", { id: "range", "aria-live": "polite" });
  const middle = () => (view.from + view.to) / 2;
  const button = (text, label, act) => h("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);
  const all = button("Show all", "Show the whole job", () => view.reset());
  const react = () => {
    shown.textContent = view.zoomed
      ? `${rangeText(view.from, view.to)} (${formatDuration(view.to - view.from)} of ${formatDuration(view.end - view.start)})`
      : `the whole job, ${formatDuration(view.end - view.start)}`;
    all.disabled = !view.zoomed;
  };
  view.listen(react);
  react();
  return h("div", { class: "bar" }, h("span", null, "Shown: ", shown), h("span", { class: "buttons" },
    button("−", "Zoom out", () => view.zoom(middle(), 1 / 0.6)), button("+", "Zoom in", () => view.zoom(middle(), 0.6)), all));
}

function rangeText(from, to) {
  const decimals = Math.min(6, Math.max(0, 2 - Math.floor(Math.log10(to - from))));
  return to >= 180 ? `${clockText(from, Math.max(0, decimals - 1))} to ${clockText(to, Math.max(0, decimals - 1))}`
    : `${from.toFixed(decimals)} s to ${to.toFixed(decimals)} s`;
}
