// What every figure of a report is made of: colours, numbers as text, a canvas, and its ways out. Charts are Chart.js's;
// heat maps are drawn here. A figure draws into a canvas, into an image of three times the size, or into the recorder
// below, which makes SVG of it. report.js follows in the same script.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const make = (tag, text, parent, name) => {
  const element = document.createElement(tag);
  if (text != null) element.textContent = text;
  if (name) element.className = name;
  if (parent) parent.append(element);
  return element;
};

// Colours: Okabe and Ito's, in the order of their contrast; lines differ in their dashes, too.
const LIGHT = { back: "#ffffff", text: "#1a1a1a", dim: "#666666", line: "#dddddd",
                colours: ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#a6761d", "#56b4e9", "#000000", "#8c6bb1"] };
const DARK = { back: "#16181b", text: "#e6e6e6", dim: "#9aa0a6", line: "#3a3e44",
               colours: ["#56b4e9", "#e69f00", "#2bc295", "#cc79a7", "#f0e442", "#6ea3ff", "#ffffff", "#b79fd8"] };
const DASHES = [[], [7, 3], [2, 2], [9, 3, 2, 3], [12, 4], [4, 4], [1, 3], [9, 2, 2, 2, 2, 2]];
const darkness = window.matchMedia("(prefers-color-scheme: dark)");
const theme = () => (darkness.matches ? DARK : LIGHT);
const faint = (colour, alpha) => colour + Math.round(alpha * 255).toString(16).padStart(2, "0");

// Viridis, in between its colours.
const VIRIDIS = [[68, 1, 84], [72, 40, 120], [62, 74, 137], [49, 104, 142], [38, 130, 142], [31, 158, 137], [53, 183, 121],
                 [109, 205, 89], [180, 222, 44], [253, 231, 37]];
const viridis = (share) => {
  const at = Math.max(0, Math.min(1, share)) * (VIRIDIS.length - 1), low = Math.min(Math.floor(at), VIRIDIS.length - 2);
  return `rgb(${VIRIDIS[low].map((value, i) => Math.round(value + (VIRIDIS[low + 1][i] - value) * (at - low))).join(",")})`;
};

const shown = (value, digits = 4) => value == null ? "" : Number(value).toLocaleString("en-US", { maximumSignificantDigits: digits });
const whole = (value) => value == null ? "" : Math.round(value).toLocaleString("en-US");
const percent = (value) => value == null ? "" : (100 * value).toFixed(2) + " %";
const shortened = (text, most = 70) => (text?.length > most ? [...text].slice(0, most - 1).join("") + "…" : text);
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
const deviation = (values) => {
  const middle = mean(values);
  return values.length > 1 ? Math.sqrt(values.reduce((sum, value) => sum + (value - middle) ** 2, 0) / (values.length - 1)) : 0;
};

// Axes: ticks at 1, 2 or 5 times a power of ten, as in the figures for papers (axis.c).
const niceStep = (span, wanted = 6) => {
  const power = 10 ** Math.floor(Math.log10(span / wanted));
  return power * ([1, 2, 5].find((factor) => span / (factor * power) <= wanted * (1 + 1e-9)) || 10);
};
const ticksBetween = (low, high, whole) => {
  const step = Math.max(niceStep(high - low || 1), whole ? 1 : 0), first = Math.ceil(low / step - 1e-9), ticks = [];
  for (let i = 0; i < 32 && (first + i) * step <= high + 1e-9 * (high - low); i++) ticks.push(+((first + i) * step).toPrecision(12));
  return ticks;
};
const logarithmicTicks = (low, high, wanted = 6) => {
  if (high / low < 4) return ticksBetween(low, high);
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high)), every = Math.ceil((last - first) / wanted), ticks = [];
  for (let power = first; power <= last; power += every)
    for (const factor of 3 * (last - first) > 2 * wanted ? [1] : [1, 2, 5]) ticks.push(+(factor * 10 ** power).toPrecision(12));
  return ticks.filter((tick) => tick >= low && tick <= high);
};
const withTicks = (ticks) => (axis) => { axis.ticks = ticks(axis.min, axis.max).map((value) => ({ value })); };
// From the tick below to the tick above, but not beyond least and most.
const around = (low, high, least, most) => {
  [low, high] = [Math.max(low, least), Math.min(high, most)];
  if (!(high > low)) [low, high] = [Math.max(low - (low ? Math.abs(low) / 10 : 0.5), least), Math.min(high + (high ? Math.abs(high) / 10 : 0.5), most)];
  const step = niceStep(high - low);
  return { min: Math.max(Math.floor(low / step + 1e-9) * step, least), max: Math.min(Math.ceil(high / step - 1e-9) * step, most),
           afterBuildTicks: withTicks(ticksBetween) };
};

// SVG -----------------------------------------------------------------------------------------------------------------

// As much of a canvas's context as Chart.js and the heat maps call; what is drawn becomes text.
class SvgContext {
  constructor(name, width, height) {
    Object.assign(this, { name, width, height, parts: [], definitions: [], stack: [], matrix: [1, 0, 0, 1, 0, 0], clipping: "", dash: [],
      path: "", fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, lineCap: "butt", lineJoin: "miter", lineDashOffset: 0,
      font: "12px sans-serif", textAlign: "start", textBaseline: "alphabetic", globalAlpha: 1, direction: "ltr" });
    this.ruler = document.createElement("canvas").getContext("2d");
  }
  save() {
    const { matrix, clipping, dash, fillStyle, strokeStyle, lineWidth, lineCap, lineJoin, lineDashOffset, font, textAlign,
            textBaseline, globalAlpha } = this;
    this.stack.push({ matrix, clipping, dash, fillStyle, strokeStyle, lineWidth, lineCap, lineJoin, lineDashOffset, font, textAlign,
                      textBaseline, globalAlpha });
  }
  restore() { Object.assign(this, this.stack.pop() || {}); }
  transform(a, b, c, d, e, f) {
    const [A, B, C, D, E, F] = this.matrix;
    this.matrix = [A * a + C * b, B * a + D * b, A * c + C * d, B * c + D * d, A * e + C * f + E, B * e + D * f + F];
  }
  translate(x, y) { this.transform(1, 0, 0, 1, x, y); }
  scale(x, y) { this.transform(x, 0, 0, y, 0, 0); }
  rotate(angle) { this.transform(Math.cos(angle), Math.sin(angle), -Math.sin(angle), Math.cos(angle), 0, 0); }
  setTransform(...values) { this.matrix = values; }
  resetTransform() { this.matrix = [1, 0, 0, 1, 0, 0]; }
  at(x, y) {
    const [a, b, c, d, e, f] = this.matrix;
    return `${+(a * x + c * y + e).toFixed(2)} ${+(b * x + d * y + f).toFixed(2)}`;
  }
  beginPath() { this.path = ""; }
  closePath() { this.path += "Z"; }
  moveTo(x, y) { this.path += `M${this.at(x, y)}`; }
  lineTo(x, y) { this.path += `${this.path ? "L" : "M"}${this.at(x, y)}`; }
  bezierCurveTo(a, b, c, d, x, y) { this.path += `C${this.at(a, b)} ${this.at(c, d)} ${this.at(x, y)}`; }
  quadraticCurveTo(a, b, x, y) { this.path += `Q${this.at(a, b)} ${this.at(x, y)}`; }
  arc(x, y, radius, from, to, backwards) { this.ellipse(x, y, radius, radius, 0, from, to, backwards); }
  ellipse(x, y, rx, ry, turn, from, to, backwards) {
    const point = (angle) => this.at(x + rx * Math.cos(angle), y + ry * Math.sin(angle));
    const span = Math.min(Math.abs(to - from), 2 * Math.PI), sign = backwards ? -1 : 1, sweep = backwards ? 0 : 1;
    this.path += `${this.path && !this.path.endsWith("Z") ? "L" : "M"}${point(from)}`;
    for (let part = 1; part <= 2; part++) // two halves: a whole turn in one arc would be none
      this.path += `A${rx} ${ry} 0 0 ${sweep} ${point(from + (sign * span * part) / 2)}`;
  }
  rect(x, y, w, h) {
    this.path += `M${this.at(x, y)}L${this.at(x + w, y)}L${this.at(x + w, y + h)}L${this.at(x, y + h)}Z`;
  }
  setLineDash(dash) { this.dash = dash; }
  getLineDash() { return this.dash; }
  put(text) { this.parts.push(this.clipping ? `<g clip-path="url(#${this.clipping})">${text}</g>` : text); }
  paint(path, kind) {
    const opacity = this.globalAlpha < 1 ? ` opacity="${this.globalAlpha}"` : "";
    const look = kind === "fill" ? `fill="${this.fillStyle}"` : `fill="none" stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}"` +
      ` stroke-linecap="${this.lineCap}" stroke-linejoin="${this.lineJoin}"` + (this.dash.length ? ` stroke-dasharray="${this.dash.join(" ")}"` : "");
    if (path) this.put(`<path d="${path}" ${look}${opacity}/>`);
  }
  fill() { this.paint(this.path, "fill"); }
  stroke() { this.paint(this.path, "stroke"); }
  clip() {
    const id = `${this.name}-${this.definitions.length}`;
    this.definitions.push(`<clipPath id="${id}"><path d="${this.path}"/></clipPath>`);
    this.clipping = id;
  }
  onRect(x, y, w, h, kind) {
    const path = this.path;
    this.path = "";
    this.rect(x, y, w, h);
    this.paint(this.path, kind);
    this.path = path;
  }
  fillRect(x, y, w, h) { this.onRect(x, y, w, h, "fill"); }
  strokeRect(x, y, w, h) { this.onRect(x, y, w, h, "stroke"); }
  clearRect() {}
  measureText(text) { this.ruler.font = this.font; return this.ruler.measureText(text); }
  strokeText() {}
  fillText(text, x, y) {
    const anchor = { center: "middle", right: "end", end: "end" }[this.textAlign] || "start";
    const base = { middle: "central", top: "hanging", hanging: "hanging", bottom: "text-after-edge" }[this.textBaseline] || "alphabetic";
    const parts = /(?:(bold|\d00) )?([\d.]+)px(?:\/\S+)? (.*)/.exec(this.font) || [0, "", 12, "sans-serif"];
    const safe = String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
    this.put(`<text transform="matrix(${this.matrix.map((value) => +value.toFixed(4)).join(" ")})" x="${+x.toFixed(2)}" y="${+y.toFixed(2)}" ` +
      `fill="${this.fillStyle}" font-size="${parts[2]}"${parts[1] ? ` font-weight="${parts[1]}"` : ""} text-anchor="${anchor}" dominant-baseline="${base}">${safe}</text>`);
  }
  text(back) {
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${this.width}" height="${this.height}" viewBox="0 0 ${this.width} ${this.height}" ` +
      `font-family="sans-serif"><defs>${this.definitions.join("")}</defs><rect width="100%" height="100%" fill="${back}"/>${this.parts.join("\n")}</svg>\n`;
  }
}

// Figures -------------------------------------------------------------------------------------------------------------

const save = (name, address) => {
  const link = make("a");
  link.href = address;
  link.download = name;
  link.click();
};
const csv = (rows) => rows.map((row) => row.map((cell) => {
  const text = cell == null ? "" : String(cell);
  return /[",\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}).join(",")).join("\n") + "\n";
const copy = async (text, button) => {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // a page from disk may not be trusted with the clipboard
    const area = make("textarea", null, document.body);
    area.value = text;
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  button.textContent = "copied";
  setTimeout(() => { button.textContent = "copy CSV"; }, 1500);
};

const figures = [];
// paint(context, width, height, colours): draws it; rows(): its numbers, the first row their names.
class Figure {
  constructor(parent, name, title, wide, note) {
    this.name = name;
    this.element = make("figure", null, parent, wide ? "wide" : "");
    this.element.id = name;
    const caption = make("figcaption", null, this.element);
    make("h2", title, caption);
    this.choices = make("div", null, caption, "screen");
    const buttons = make("span", null, caption, "screen");
    const button = (text, does) => { make("button", text, buttons).onclick = (event) => does(event.target); buttons.append(" "); };
    button("copy CSV", (target) => copy(csv(this.rows()), target));
    button("SVG", () => save(`${name}.svg`, URL.createObjectURL(new Blob([this.svg()], { type: "image/svg+xml" }))));
    button("PNG", () => save(`${name}.png`, this.png()));
    this.plot = make("div", null, this.element, "plot");
    this.canvas = make("canvas", null, this.plot);
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", title);
    if (note) make("p", note, this.element);
    figures.push(this);
  }
  size() { return [Math.round(this.plot.clientWidth) || 560, Math.round(this.plot.clientHeight) || 290]; }
  svg([width, height] = this.size()) {
    const recorder = new SvgContext(this.name, width, height);
    this.paint(recorder, width, height, LIGHT);
    return recorder.text(LIGHT.back);
  }
  png() {
    const [width, height] = this.size(), canvas = make("canvas"), context = canvas.getContext("2d");
    [canvas.width, canvas.height] = [3 * width, 3 * height];
    context.scale(3, 3);
    context.fillStyle = LIGHT.back;
    context.fillRect(0, 0, width, height);
    this.paint(context, width, height, LIGHT);
    return canvas.toDataURL("image/png");
  }
  show() {
    const [width, height] = this.size(), ratio = window.devicePixelRatio || 1, context = this.canvas.getContext("2d");
    [this.canvas.width, this.canvas.height] = [width * ratio, height * ratio];
    context.scale(ratio, ratio);
    this.paint(context, width, height, theme());
  }
  remove() {
    this.element.remove();
    figures.splice(figures.indexOf(this), 1);
  }
}

// config(colours): Chart.js's type, data and options.
class ChartFigure extends Figure {
  constructor(parent, name, title, wide, note, config, rows) {
    super(parent, name, title, wide, note);
    Object.assign(this, { config, rows });
  }
  complete(colours) {
    const config = this.config(colours), { options } = config;
    options.animation = false;
    options.maintainAspectRatio = false;
    for (const axis of Object.values(options.scales || {})) {
      axis.grid = { color: colours.line, borderColor: colours.dim, tickColor: colours.line };
      axis.ticks = { color: colours.dim, maxRotation: 0, autoSkipPadding: 12, ...axis.ticks };
      axis.title = { color: colours.dim, display: true, ...axis.title };
    }
    options.plugins = { ...options.plugins };
    options.plugins.legend = { position: "bottom", ...options.plugins.legend,
      labels: { color: colours.text, boxWidth: 26, boxHeight: 0, filter: (item) => item.text && !item.text.startsWith("_"),
        generateLabels: (chart) => Chart.defaults.plugins.legend.labels.generateLabels(chart).map((item) => ({ ...item, text: shortened(item.text) })),
        ...options.plugins.legend?.labels } };
    options.plugins.tooltip = { filter: (item) => !item.dataset.label.startsWith("_"), ...options.plugins.tooltip };
    return config;
  }
  show() {
    this.chart?.destroy();
    this.chart = new Chart(this.canvas, this.complete(theme()));
  }
  // A chart that draws once, into a canvas of its own.
  drawn(canvas, width, height, colours, ratio) {
    const config = this.complete(colours);
    Object.assign(config.options, { responsive: false, devicePixelRatio: ratio, events: [] });
    [canvas.width, canvas.height] = [width, height];
    return new Chart(canvas, config);
  }
  paint(context, width, height, colours) {
    const canvas = make("canvas");
    canvas.getContext = () => context;
    context.canvas = canvas;
    this.drawn(canvas, width, height, colours, 1).destroy();
  }
  png() {
    const [width, height] = this.size(), canvas = make("canvas"), chart = this.drawn(canvas, width, height, LIGHT, 3), context = canvas.getContext("2d");
    context.globalCompositeOperation = "destination-over";
    context.fillStyle = LIGHT.back;
    context.fillRect(0, 0, width, height);
    const address = canvas.toDataURL("image/png");
    chart.destroy();
    return address;
  }
  remove() {
    this.chart?.destroy();
    super.remove();
  }
}

// values: rows of numbers or nulls. labels: { x, y, columns, rows, value, show, columnName, rowName }
class HeatFigure extends Figure {
  constructor(parent, name, title, wide, note, values, labels) {
    super(parent, name, title, wide, note);
    Object.assign(this, { values, labels });
    this.most = values.reduce((most, row) => row.reduce((larger, value) => Math.max(larger, value || 0), most), 0) || 1;
    this.canvas.onmousemove = (event) => { this.canvas.title = this.told(event.offsetX, event.offsetY); };
  }
  frame(width, height) {
    const longest = this.values.reduce((most, _, row) => Math.max(most, this.labels.rowName(row).length), 0), left = Math.max(62, 24 + 6.5 * Math.min(longest, 20));
    return { left, top: 6, width: width - left - 84, height: height - 6 - 40 };
  }
  told(x, y) {
    const frame = this.frame(...this.size()), { labels } = this;
    const column = Math.floor((x - frame.left) / frame.width * this.values[0].length), row = Math.floor((y - frame.top) / frame.height * this.values.length);
    if (!(this.values[row]?.[column] >= 0)) return "";
    return `${labels.y} ${labels.rowName(row)}, ${labels.x} ${labels.columnName(column)}: ${labels.show(this.values[row][column])} ${labels.value}`;
  }
  paint(context, width, height, colours) {
    const frame = this.frame(width, height), rows = this.values.length, columns = this.values[0].length, { labels } = this;
    const cell = { width: frame.width / columns, height: frame.height / rows };
    context.clearRect(0, 0, width, height);
    context.font = "11px sans-serif";
    for (let row = 0; row < rows; row++)
      for (let column = 0; column < columns; column++) {
        const value = this.values[row][column];
        if (value == null) continue;
        context.fillStyle = viridis(value / this.most);
        context.fillRect(frame.left + column * cell.width, frame.top + row * cell.height, cell.width + (column + 1 < columns ? 1 : 0), cell.height + (row + 1 < rows ? 1 : 0)); // no hair line between
        if (cell.width < 34 || cell.height < 14 || !labels.written) continue;
        context.fillStyle = value / this.most > 0.6 ? "#000000" : "#ffffff";
        [context.textAlign, context.textBaseline] = ["center", "middle"];
        context.fillText(labels.show(value), frame.left + (column + 0.5) * cell.width, frame.top + (row + 0.5) * cell.height);
      }
    this.paintAxes(context, frame, cell, height, colours);
    this.paintScale(context, frame, width, colours);
  }
  paintAxes(context, frame, cell, height, colours) {
    const rows = this.values.length, columns = this.values[0].length, { labels } = this;
    context.fillStyle = colours.dim;
    [context.textAlign, context.textBaseline] = ["center", "top"];
    for (let column = 0, step = Math.ceil(34 / cell.width); column < columns; column += step)
      context.fillText(shortened(labels.columnName(column), Math.max(4, Math.floor(step * cell.width / 6.5))), frame.left + (column + 0.5) * cell.width, frame.top + frame.height + 5);
    context.fillText(labels.x, frame.left + frame.width / 2, height - 15);
    [context.textAlign, context.textBaseline] = ["right", "middle"];
    for (let row = 0, step = Math.ceil(14 / cell.height); row < rows; row += step)
      context.fillText(shortened(labels.rowName(row), 20), frame.left - 6, frame.top + (row + 0.5) * cell.height);
    context.save();
    context.translate(10, frame.top + frame.height / 2);
    context.rotate(-Math.PI / 2);
    context.textAlign = "center";
    context.fillText(labels.y, 0, 0);
    context.restore();
  }
  paintScale(context, frame, width, colours) {
    const STEPS = 40, left = width - 74;
    for (let step = 0; step < STEPS; step++) {
      context.fillStyle = viridis(1 - step / (STEPS - 1));
      context.fillRect(left, frame.top + step * frame.height / STEPS, 12, frame.height / STEPS + (step + 1 < STEPS ? 1 : 0));
    }
    context.fillStyle = colours.dim;
    context.textAlign = "left";
    [[0, "top"], [0.5, "middle"], [1, "bottom"]].forEach(([share, base]) => {
      context.textBaseline = base;
      context.fillText(this.labels.show(this.most * (1 - share)), left + 17, frame.top + share * frame.height);
    });
  }
  rows() {
    const { labels } = this;
    return [[labels.y, ...this.values[0].map((_, column) => `${labels.x} ${labels.columnName(column)}`)],
            ...this.values.map((row, index) => [labels.rowName(index), ...row])];
  }
}
