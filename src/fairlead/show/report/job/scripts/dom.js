// Building the page from elements and text nodes only (never from markup), the tooltip, and what is in focus.

const SVG = "http://www.w3.org/2000/svg";

// Controls and direction marks in a file name are shown as what they are instead of acting on the page.
function visible(text) {
  return String(text).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function visibleLine(text) {
  return visible(text).replace(/\n/g, "\\n").replace(/\t/g, "\\t");
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "css") for (const [property, setting] of Object.entries(value)) node.style.setProperty(property, setting);
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : visible(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(visible(child)));
  }
  return node;
}

function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function replace(node, ...children) {
  node.replaceChildren();
  return fill(node, null, children);
}

function section(id, title, lead, ...children) {
  return h("section", { id, "aria-labelledby": `${id}-title`, class: "part" },
    h("h2", { id: `${id}-title` }, title), lead ? h("p", { class: "lead" }, lead) : null, children);
}

function legend(...entries) {
  return h("ul", { class: "legend" }, entries.map(([kind, text]) => h("li", null, h("i", { class: `key ${kind}` }), text)));
}

// A row of exclusive choices; `choose` is called with the chosen name.
function choices(label, names, first, choose) {
  const buttons = names.map(([name, text]) => h("button", {
    type: "button", "aria-pressed": String(name === first), onclick() {
      for (const button of buttons) button.setAttribute("aria-pressed", String(button === this));
      choose(name);
    },
  }, text));
  return h("div", { class: "choices", role: "group", "aria-label": label }, buttons);
}

function copyButton(text) {
  const button = h("button", {
    type: "button", class: "copy", async onclick() {
      let done = true;
      try {
        await navigator.clipboard.writeText(text);
      } catch {
        const area = h("textarea", { class: "offstage", "aria-hidden": "true" });
        area.value = text;
        document.body.append(area);
        area.select();
        done = document.execCommand("copy");
        area.remove();
        button.focus();
      }
      button.textContent = done ? "Copied" : "Select and copy";
      setTimeout(() => { button.textContent = "Copy"; }, 1600);
    },
  }, "Copy");
  return button;
}

function codeBlock(code, language) {
  return h("div", { class: "code" },
    h("div", { class: "code-head" }, h("span", null, language || ""), copyButton(code)),
    h("pre", { tabindex: 0 }, h("code", null, code)));
}

// The tooltip: a title and rows of [kind or null, label, value].
const tip = {
  node: document.getElementById("tip"),
  show(x, y, title, rows) {
    replace(this.node, h("strong", null, title), rows.length ? h("table", null, rows.map(([kind, label, value]) => h("tr", null,
      h("td", null, kind ? h("i", { class: `key ${kind}` }) : null, label), h("td", null, value)))) : null);
    this.node.hidden = false;
    const { offsetWidth: width, offsetHeight: height } = this.node;
    const left = x + 14 + width > innerWidth - 8 ? x - 14 - width : x + 14;
    this.node.style.left = `${Math.max(8, Math.min(left, innerWidth - width - 8))}px`;
    this.node.style.top = `${Math.max(8, Math.min(y + 14, innerHeight - height - 8))}px`;
  },
  hide() {
    this.node.hidden = true;
  },
};

function hovering(node, describe) {
  node.addEventListener("pointermove", (event) => {
    const said = describe(event);
    if (said) tip.show(event.clientX, event.clientY, said[0], said.slice(1));
    else tip.hide();
  });
  node.addEventListener("pointerleave", () => tip.hide());
  return node;
}

// What evidence points at: ranks lit in the charts, files kept in the table.
const focus = {
  ranks: null, files: null, listeners: [],
  listen(react) { this.listeners.push(react); },
  set(change) {
    Object.assign(this, change);
    for (const react of this.listeners) react(change);
  },
};

function jump(id) {
  const target = document.getElementById(id);
  if (!target) return;
  if (target instanceof HTMLDetailsElement) target.open = true;
  target.scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth", block: "start" });
}

// Colours of the style sheet, read once per theme (a canvas cannot use them by name).
let colourCache = null;

function colour(name) {
  if (!colourCache) colourCache = { style: getComputedStyle(document.documentElement) };
  if (!(name in colourCache)) colourCache[name] = colourCache.style.getPropertyValue(`--${name}`).trim();
  return colourCache[name];
}
