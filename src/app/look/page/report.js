// The page of `sounder report`: figures from the data that stand in it. Charts are Chart.js's; heat maps are drawn here.
// A figure draws into a canvas, into an image of three times the size, or into the recorder below, which makes SVG of it.
"use strict";
(() => {
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
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
const deviation = (values) => {
  const middle = mean(values);
  return values.length > 1 ? Math.sqrt(values.reduce((sum, value) => sum + (value - middle) ** 2, 0) / (values.length - 1)) : 0;
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
      labels: { color: colours.text, boxWidth: 26, boxHeight: 0, filter: (item) => item.text && !item.text.startsWith("_"), ...options.plugins.legend?.labels } };
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
  frame(width, height) { return { left: 62, top: 6, width: width - 62 - 84, height: height - 6 - 40 }; }
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
        context.fillRect(frame.left + column * cell.width, frame.top + row * cell.height, cell.width + 0.4, cell.height + 0.4);
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
      context.fillText(labels.columnName(column), frame.left + (column + 0.5) * cell.width, frame.top + frame.height + 5);
    context.fillText(labels.x, frame.left + frame.width / 2, height - 15);
    [context.textAlign, context.textBaseline] = ["right", "middle"];
    for (let row = 0, step = Math.ceil(14 / cell.height); row < rows; row += step)
      context.fillText(labels.rowName(row), frame.left - 6, frame.top + (row + 0.5) * cell.height);
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
      context.fillRect(left, frame.top + step * frame.height / STEPS, 12, frame.height / STEPS + 0.4);
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

// Curves over all runs ------------------------------------------------------------------------------------------------

const AXES = {
  round: { title: "round", of: (run) => run.rounds.round },
  seconds: { title: "seconds of training and tests", of: (run) => sums(run.rounds.seconds.map((value, i) => value + (run.rounds.eval_seconds[i] || 0))) },
  simulated: { title: "simulated seconds", of: (run) => run.rounds.simulated_seconds_total },
  megabytes: { title: "MB sent, both ways", of: (run) => run.rounds.up_bytes_total?.map((value, i) => (value + run.rounds.down_bytes_total[i]) / 1e6) },
};
let axis = "round";
const sums = (values) => { let sum = 0; return values.map((value) => (sum += value || 0)); };

const groups = new Map();
for (const run of data.runs) {
  if (!groups.has(run.group)) groups.set(run.group, []);
  groups.get(run.group).push(run);
}

// Points of a group, round by round: x, mean, deviation, how many runs. Where a run has not come, it does not count.
const averaged = (runs, key) => {
  const points = new Map();
  for (const run of runs) {
    const xs = AXES[axis].of(run), ys = run.rounds[key] || [];
    ys.forEach((y, i) => {
      if (y == null || !xs || xs[i] == null) return;
      const round = run.rounds.round[i];
      if (!points.has(round)) points.set(round, { round, xs: [], ys: [] });
      points.get(round).xs.push(xs[i]);
      points.get(round).ys.push(y);
    });
  }
  return [...points.values()].sort((a, b) => a.round - b.round)
    .map(({ round, xs, ys }) => ({ round, x: mean(xs), y: mean(ys), deviation: deviation(ys), runs: ys.length }));
};

const line = (label, points, colours, index, more) => ({ label, data: points, borderColor: colours.colours[index % 8], backgroundColor: colours.colours[index % 8],
  borderDash: DASHES[index % 8], borderWidth: 2, pointRadius: points.length < 2 ? 3 : 0, pointHitRadius: 8, tension: 0, ...more });
const band = (label, points, colours, index) => [
  { label: `_${label} high`, data: points.map((p) => ({ x: p.x, y: p.high })), borderWidth: 0, pointRadius: 0, pointHitRadius: 0, fill: false },
  { label: `_${label} low`, data: points.map((p) => ({ x: p.x, y: p.low })), borderWidth: 0, pointRadius: 0, pointHitRadius: 0, fill: "-1",
    backgroundColor: faint(colours.colours[index % 8], 0.18) }];
const spread = (points, scale) => points.map((p) => ({ x: p.x, low: scale * (p.y - p.deviation), high: scale * (p.y + p.deviation) }));
const linear = (title, more) => ({ type: "linear", title: { text: title }, ...more });

const along = () => linear(AXES[axis].title, { bounds: "data", ticks: axis === "round" ? { precision: 0 } : {} });

const curves = (key, scale, colours, name) => [...groups].flatMap(([group, runs], index) => {
  const points = averaged(runs, key), label = name || group || "all runs";
  if (!points.length) return [];
  return [line(label, points.map((p) => ({ x: p.x, y: scale * p.y })), colours, index), ...(runs.length > 1 ? band(label, spread(points, scale), colours, index) : [])];
});
const curveRows = (key) => [["group", "round", AXES[axis].title, "mean", "standard deviation", "runs"],
  ...[...groups].flatMap(([group, runs]) => averaged(runs, key).map((p) => [group, p.round, p.x, p.y, p.deviation, p.runs]))];

const accuracyConfig = (colours) => {
  const datasets = curves("test_accuracy", 100, colours, groups.size > 1 ? null : "test accuracy");
  const all = datasets.flatMap((dataset) => dataset.data), target = data.runs[0].target;
  if (data.runs.length === 1 && all.length) {
    const best = all.reduce((a, b) => (b.y > a.y ? b : a));
    datasets.push({ label: `best: ${best.y.toFixed(2)} %`, data: [best], showLine: false, pointRadius: 5, pointStyle: "rectRot", backgroundColor: colours.colours[1], borderColor: colours.colours[1] });
  }
  if (target && all.length) {
    const ends = [all[0].x, Math.max(...all.map((p) => p.x))];
    datasets.push({ label: `target: ${shown(100 * target)} %`, data: ends.map((x) => ({ x, y: 100 * target })), borderColor: colours.dim, borderDash: [6, 4], borderWidth: 1, pointRadius: 0 });
  }
  return { type: "line", data: { datasets }, options: { scales: { x: along(), y: linear("accuracy, %") } } };
};

const lossConfig = (colours) => {
  let datasets;
  if (data.runs.length > 1) {
    datasets = curves("test_loss", 1, colours);
  } else {
    const [run] = data.runs, xs = AXES[axis].of(run), of = (key) => (run.rounds[key] || []).map((y, i) => ({ x: xs[i], y })).filter((p) => p.y != null);
    datasets = [line("training", of("train_loss"), colours, 0), line("test", of("test_loss"), colours, 1)].filter((set) => set.data.length);
    const spreads = run.loss_spread?.low.map((low, i) => ({ x: xs[i], low, high: run.loss_spread.high[i] })).filter((p) => p.low != null) || [];
    if (spreads.length) datasets.push(...band("clients", spreads, colours, 0));
  }
  return { type: "line", data: { datasets }, options: { scales: { x: along(), y: { type: "logarithmic", title: { text: "loss" }, ticks: { callback: (value) => shown(value, 2) } } } } };
};
const lossRows = () => {
  if (data.runs.length > 1) return curveRows("test_loss");
  const [run] = data.runs, xs = AXES[axis].of(run);
  return [["round", AXES[axis].title, "training", "test", "clients, 10 %", "clients, 90 %"],
          ...run.rounds.round.map((round, i) => [round, xs[i], run.rounds.train_loss?.[i], run.rounds.test_loss?.[i], run.loss_spread?.low[i], run.loss_spread?.high[i]])];
};

// One run -------------------------------------------------------------------------------------------------------------

const missing = (parent, what, why) => make("p", `${what}: ${why}`, parent, "missing");

const showClasses = (parent, run) => {
  const { classes } = run;
  if (!classes?.counts) return missing(parent, "Who has which data", classes?.why || "not known");
  const order = classes.counts.map((row, i) => [row.indexOf(Math.max(...row)), -Math.max(...row), i]).sort((a, b) => a[0] - b[0] || a[1] - b[1]).map((entry) => entry[2]);
  new HeatFigure(parent, "classes", "Who has which data", true,
    `Samples of each class with ${classes.clients.length < classes.of ? `${classes.clients.length} of ${classes.of}` : "the"} clients, ordered by the class that each has most of. ` +
    `Samples a client: ${whole(classes.smallest)} to ${whole(classes.largest)}; classes a client: ${shown(classes.distinct, 3)}; ` +
    `distance to equal shares (total variation, mean): ${shown(classes.distance, 3)}.`,
    order.map((i) => classes.counts[i]), { x: "class", y: "client", value: "samples", show: whole, columnName: String, rowName: (row) => String(classes.clients[order[row]]) });
};

const showClients = (parent, run) => {
  const { clients } = run;
  if (!clients?.client.length) return missing(parent, "Clients", "the run has no records of clients");
  const most = Math.max(...clients.times);
  const points = clients.client.map((client, i) => ({ x: clients.samples[i], y: clients.loss[i], client, times: clients.times[i] }));
  const worst = [...points].sort((a, b) => b.y - a.y).slice(0, 10).map((p) => p.client).join(", ");
  new ChartFigure(parent, "clients", "Clients: last loss in training by samples", false, `Colour: how often a client was trained (up to ${most} times). Highest losses: clients ${worst}.`,
    (colours) => ({ type: "scatter", data: { datasets: [{ label: "clients", data: points, pointRadius: points.length > 500 ? 2 : 3.5, borderWidth: 0.5, borderColor: colours.dim,
        backgroundColor: points.map((p) => viridis(p.times / most)) }] },
      options: { scales: { x: linear("samples"), y: linear("loss", { min: 0 }) }, plugins: { legend: { display: false },
        tooltip: { callbacks: { label: ({ raw }) => `client ${raw.client}: ${raw.x} samples, loss ${shown(raw.y)}, trained ${raw.times} times` } } } } }),
    () => [["client", "samples", "loss", "times trained"], ...points.map((p) => [p.client, p.x, p.y, p.times])]);
};

const showFairness = (parent, run) => {
  if (!run.fairness?.length) return missing(parent, "Fairness", "train with --eval-clients-every N to have the model tested on every client's own samples");
  const BINS = 20, bins = (values) => values.reduce((counts, value) => { counts[Math.min(BINS - 1, Math.floor(value * BINS))]++; return counts; }, new Array(BINS).fill(0));
  const note = run.fairness.map((of) => `${of.model}, round ${of.round}: mean ${percent(of.mean)}, worst tenth ${percent(of.worst)}, best tenth ${percent(of.best)}, Jain ${shown(of.jain, 3)}`).join("; ");
  new ChartFigure(parent, "fairness", "Fairness: accuracy on each client's own samples", false, note,
    (colours) => ({ type: "bar", data: { labels: new Array(BINS).fill(0).map((_, i) => `${100 * i / BINS}`), datasets: run.fairness.map((of, index) => ({ label: of.model, data: bins(of.accuracies),
        backgroundColor: faint(colours.colours[index], 0.75), barPercentage: 1, categoryPercentage: 0.95 })) },
      options: { scales: { x: { title: { text: "accuracy, % (from)" } }, y: linear("clients", { beginAtZero: true, ticks: { precision: 0 } }) }, plugins: { legend: { display: run.fairness.length > 1, labels: { boxHeight: 8 } } } } }),
    () => [["model", "accuracy"], ...run.fairness.flatMap((of) => of.accuracies.map((value) => [of.model, value]))]);
};

const showConfusion = (parent, run) => {
  if (!run.confusion) return missing(parent, "Confusion", `sounder eval ${run.path} --confusion --json > ${run.path}/eval.json, and the report again`);
  const shares = run.confusion.map((row) => { const all = row.reduce((a, b) => a + b, 0) || 1; return row.map((value) => 100 * value / all); });
  new HeatFigure(parent, "confusion", "Confusion: what samples of a class were taken for", false, `% of each class's test samples. Recall: ${shares.map((row, i) => `${i}: ${row[i].toFixed(1)}`).join(", ")}.`,
    shares, { x: "taken for", y: "class", value: "%", written: true, show: (value) => value.toFixed(0), columnName: String, rowName: String });
};

const showTime = (parent, run) => {
  const { rounds } = run, waits = rounds.round.map((_, i) => (run.waits?.[i]?.length ? mean(run.waits[i]) : 0));
  const parts = [["training and averaging", rounds.seconds.map((value, i) => Math.max(0, value - waits[i]))], ["waiting at the barrier", waits], ["tests", rounds.eval_seconds.map((value) => value || 0)]];
  new ChartFigure(parent, "time", "Where the time went", false, "Waiting is the mean of the workers.",
    (colours) => ({ type: "bar", data: { labels: rounds.round, datasets: parts.map(([label, values], index) => ({ label, data: values, backgroundColor: colours.colours[index], stack: "s", barPercentage: 1, categoryPercentage: rounds.round.length > 60 ? 1 : 0.9 })) },
      options: { scales: { x: { stacked: true, title: { text: "round" } }, y: linear("seconds", { stacked: true }) }, plugins: { legend: { labels: { boxHeight: 8 } } } } }),
    () => [["round", ...parts.map(([label]) => label)], ...rounds.round.map((round, i) => [round, ...parts.map(([, values]) => values[i])])]);
};

const showWaits = (parent, run) => {
  const ranks = Math.max(0, ...(run.waits || []).map((row) => row.length));
  if (ranks < 2) return missing(parent, "Waiting at the barrier", "with one worker nobody waits");
  const matrix = new Array(ranks).fill(0).map((_, rank) => run.waits.map((row) => (row[rank] == null ? null : 1000 * row[rank])));
  new HeatFigure(parent, "waits", "Waiting at the barrier, ms", false, null, matrix,
    { x: "round", y: "rank", value: "ms", show: (value) => shown(value, 3), columnName: (i) => String(run.rounds.round[i]), rowName: String });
};

const showStaleness = (parent, run) => {
  if (!run.staleness?.length) return;
  const all = run.staleness.reduce((a, b) => a + b, 0), average = run.staleness.reduce((sum, count, i) => sum + count * i, 0) / all;
  new ChartFigure(parent, "staleness", "Staleness of updates", false, `${whole(all)} updates, mean ${shown(average, 3)}: how many others came between reading the weights and writing.`,
    (colours) => ({ type: "bar", data: { labels: run.staleness.map((_, i) => i), datasets: [{ label: "updates", data: run.staleness, backgroundColor: colours.colours[0] }] },
      options: { scales: { x: { title: { text: "staleness" } }, y: { type: "logarithmic", title: { text: "updates" } } }, plugins: { legend: { display: false } } } }),
    () => [["staleness", "updates"], ...run.staleness.map((count, i) => [i, count])]);
};

const showPrivacy = (parent, run) => {
  const spent = run.rounds.epsilon;
  if (!spent?.some((value) => value != null)) return;
  const last = spent.findLast((value) => value != null);
  new ChartFigure(parent, "privacy", "Privacy: epsilon spent", false, `After round ${run.rounds.round.at(-1)}: ${shown(last, 4)}. What delta goes with it stands in the run's options.`,
    (colours) => ({ type: "line", data: { datasets: [line("epsilon", run.rounds.round.map((x, i) => ({ x, y: spent[i] })).filter((p) => p.y != null), colours, 3)] },
      options: { scales: { x: linear("round"), y: linear("epsilon", { beginAtZero: true }) }, plugins: { legend: { display: false } } } }),
    () => [["round", "epsilon"], ...run.rounds.round.map((round, i) => [round, spent[i]])]);
};

const showRepeat = (parent, run) => {
  make("h2", "How to repeat it", parent);
  make("pre", run.repeat, parent);
  const details = make("div", null, parent, "dim");
  make("p", run.facts, details);
  make("p", "config.yaml:", details);
  make("pre", run.config, parent, "long");
};

const chosen = byId("run-figures"), repeat = byId("repeat");
let ofRun = [];
const showRun = (run) => {
  const before = figures.length;
  ofRun.forEach((figure) => figure.remove());
  chosen.replaceChildren();
  repeat.replaceChildren();
  const first = before - ofRun.length;
  [showClasses, showClients, showFairness, showConfusion, showTime, showWaits, showStaleness, showPrivacy].forEach((show) => show(chosen, run));
  chosen.append(...chosen.querySelectorAll(".missing"));
  showRepeat(repeat, run);
  ofRun = figures.slice(first);
  ofRun.forEach((figure) => figure.show());
};

// The page ------------------------------------------------------------------------------------------------------------

const showTable = () => {
  if (data.runs.length < 2) return;
  const table = byId("runs"), { columns, rows, text } = data.table;
  const heading = make("tr", null, make("thead", null, table));
  columns.forEach((column, i) => make("th", column, heading, text[i] ? "text" : ""));
  const body = make("tbody", null, table);
  rows.forEach((row) => { const line = make("tr", null, body); row.forEach((cell, i) => make("td", cell, line, text[i] ? "text" : "")); });
};

const showFacts = () => {
  const place = byId("facts");
  data.facts.forEach(([value, what]) => { const fact = make("div", null, place, "fact"); make("b", value.replace(/\d{4,}/g, (digits) => whole(digits)), fact); fact.append(what); });
};

const showCurves = () => {
  const parent = byId("curves");
  const note = data.runs.length > groups.size ? "Line: mean over the runs that differ in the seed alone; band: standard deviation." : null;
  const accuracy = data.runs.some((run) => run.rounds.test_accuracy?.some((value) => value != null)) &&
    new ChartFigure(parent, "accuracy", "Accuracy on the test samples", false, note, accuracyConfig, () => curveRows("test_accuracy"));
  const loss = new ChartFigure(parent, "loss", data.runs.length > 1 ? "Loss on the test samples" : "Loss", false,
    data.runs.length > 1 ? note : data.runs[0].loss_spread ? "Band: the clients' losses in training, from the 10th to the 90th percentile." : null, lossConfig, lossRows);
  const both = [accuracy, loss].filter(Boolean);
  const possible = Object.keys(AXES).filter((key) => data.runs.every((run) => AXES[key].of(run)?.some((value) => value != null)));
  const buttons = [];
  both.forEach((figure) => possible.forEach((key) => {
    const button = make("button", key, figure.choices);
    button.setAttribute("aria-pressed", key === axis);
    buttons.push([key, button]);
    button.onclick = () => {
      axis = key;
      buttons.forEach(([of, each]) => each.setAttribute("aria-pressed", of === key));
      both.forEach((each) => each.show());
    };
    figure.choices.append(" ");
  }));
  both.forEach((figure) => figure.show());
};

Chart.defaults.font.family = "system-ui, 'DejaVu Sans', sans-serif";
Chart.defaults.font.size = 11;
byId("title").textContent = document.title = data.title;
byId("subtitle").textContent = data.subtitle;
showFacts();
showTable();
showCurves();
const choice = byId("choice");
if (data.runs.length > 1) {
  data.runs.forEach((run, i) => { make("option", run.path, choice).value = i; });
  choice.onchange = () => showRun(data.runs[choice.value]);
} else {
  byId("choose").remove();
}
showRun(data.runs[0]);

const redraw = () => figures.forEach((figure) => figure.show());
darkness.addEventListener("change", redraw);
window.addEventListener("resize", () => figures.forEach((figure) => { if (figure instanceof HeatFigure) figure.show(); }));
// Paper gets drawings instead of dots, in a size of its own.
window.addEventListener("beforeprint", () => figures.forEach((figure) => {
  make("div", null, figure.plot, "paper").innerHTML = figure.svg(figure.element.className === "wide" ? [800, 190] : [390, 215]);
}));
window.addEventListener("afterprint", () => figures.forEach((figure) => figure.plot.querySelector(".paper").remove()));
window.sounderFigures = figures;
document.body.dataset.drawn = figures.length;
})();
