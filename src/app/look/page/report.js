// The page of `sounder report`: which figures of the data that stand in it there are, and what is chosen. figure.js stands
// before it in the same script.

// Curves over all runs ------------------------------------------------------------------------------------------------

const AXES = {
  round: { title: "round", of: (run) => run.rounds.round },
  seconds: { title: "seconds of training and tests", of: (run) => run.rounds.seconds_total },
  simulated: { title: "simulated seconds", of: (run) => run.rounds.simulated_seconds_total },
  joules: { title: "simulated joules", of: (run) => run.rounds.training_joules_total?.map((value, i) => value + run.rounds.link_joules_total[i]) },
  tokens: { title: "tokens trained", of: (run) => run.rounds.tokens_total },
  megabytes: { title: "MB sent, both ways", of: (run) => run.rounds.up_bytes_total?.map((value, i) => (value + run.rounds.down_bytes_total[i]) / 1e6) },
};
let axis = "round";

data.runs.forEach(({ rounds }) => ["round", "seconds", "eval_seconds"].forEach((key) => { rounds[key] ??= []; }));
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
  borderDash: DASHES[(index + Math.floor(index / 8)) % 8], borderWidth: 2, pointRadius: points.length < 2 ? 3 : 0, pointHitRadius: 8, tension: 0, ...more });
const band = (label, points, colours, index) => [
  { label: `_${label} high`, data: points.map((p) => ({ x: p.x, y: p.high })), borderWidth: 0, pointRadius: 0, pointHitRadius: 0, fill: false },
  { label: `_${label} low`, data: points.map((p) => ({ x: p.x, y: p.low })), borderWidth: 0, pointRadius: 0, pointHitRadius: 0, fill: "-1",
    backgroundColor: faint(colours.colours[index % 8], 0.18) }];
const spread = (points, scale) => points.map((p) => ({ x: p.x, low: scale * (p.y - p.deviation), high: scale * (p.y + p.deviation) }));
const linear = (title, more) => ({ type: "linear", title: { text: title }, ...more });

// From 0 where that is near, to the last.
const along = (datasets) => {
  const xs = datasets.flatMap((dataset) => dataset.data.map((p) => p.x)), first = Math.min(...xs), last = Math.max(...xs);
  if (!xs.length) return linear(AXES[axis].title);
  const min = first > 1 && first > last / 10 ? first : Math.min(first, 0), max = first < last ? last : last + 1;
  return linear(AXES[axis].title, { min, max, afterBuildTicks: withTicks((low, high) => ticksBetween(low, high, axis === "round")) });
};
// A logarithmic axis for losses above 0, which bands stretch by no more than a half below the lowest point: the rest is cut.
const lossAxis = (datasets) => {
  const of = (banded) => datasets.filter((dataset) => dataset.label.startsWith("_") === banded).flatMap((dataset) => dataset.data.map((p) => p.y));
  const points = of(false), bands = of(true), lowest = Math.min(...points), high = Math.max(...points, ...bands);
  if (!points.length || !(lowest > 0)) return linear("loss", points.length ? around(Math.min(lowest, ...bands), high, -Infinity, Infinity) : {});
  const min = Math.min(lowest, Math.max(Math.min(...bands), lowest / 2)) / 1.05, max = high * 1.05;
  datasets.forEach((dataset) => { dataset.data = dataset.data.map((p) => ({ ...p, y: Math.max(p.y, min) })); });
  return { type: "logarithmic", title: { text: "loss" }, min, max, afterBuildTicks: withTicks(logarithmicTicks), ticks: { callback: (value) => shown(value, 3) } };
};

// about: only of runs that are about this figure.
const curves = (key, scale, colours, name, about) => [...groups].flatMap(([group, runs], index) => {
  if (about && runs[0].figure !== about) return [];
  const points = averaged(runs, key), label = name || group || "all runs";
  if (!points.length) return [];
  return [line(label, points.map((p) => ({ x: p.x, y: scale * p.y })), colours, index), ...(runs.length > 1 ? band(label, spread(points, scale), colours, index) : [])];
});
const curveRows = (key, about) => [["group", "round", AXES[axis].title, "mean", "standard deviation", "runs"],
  ...[...groups].flatMap(([group, runs]) => about && runs[0].figure !== about ? [] : averaged(runs, key).map((p) => [group, p.round, p.x, p.y, p.deviation, p.runs]))];

// The figures that runs may be about, and a trainer's metrics, by their keys. all: drawn of all runs.
const FIGURES = Object.fromEntries(data.figures.map((figure) => [figure.key, { ...figure, all: figure.key === "validation_loss" && data.runs.length > 1 }]));
const METRIC = "test_metrics.";
data.runs.flatMap((run) => Object.keys(run.rounds)).filter((key) => key.startsWith(METRIC)).forEach((key) => {
  const metric = key.slice(METRIC.length);
  FIGURES[key] ??= { name: `metric-${metric.replace(/[^\w-]/g, "-")}`, title: `${metric}, by the trainer's test`, axis: metric, line: metric, scale: 1, metric: true, all: true,
    rises: data.runs.some((run) => run.figure === key && !run.lower_is_better), falls: data.runs.some((run) => run.figure === key && run.lower_is_better) };
});

// Of the first run, where it is about this figure.
const addTarget = (datasets, key, scale, colours) => {
  const all = datasets.flatMap((dataset) => dataset.data), [{ figure, target }] = data.runs;
  if (figure !== key || target == null || !all.length) return;
  const ends = [all[0].x, Math.max(...all.map((p) => p.x))], y = scale * target;
  datasets.push({ label: `target: ${shown(y)}${scale === 100 ? " %" : ""}`, data: ends.map((x) => ({ x, y })), borderColor: colours.dim, borderDash: [6, 4], borderWidth: 1, pointRadius: 0 });
};

const figureConfig = (key, colours) => {
  const { axis: label, line: name, scale, metric, all: ofAll, rises, falls } = FIGURES[key];
  const datasets = curves(key, scale, colours, groups.size > 1 ? null : name, ofAll ? null : key);
  const all = datasets.flatMap((dataset) => dataset.data), higher = metric ? rises : !falls;
  if (data.runs.length === 1 && all.length && (!metric || rises || falls)) {
    const best = all.reduce((a, b) => ((higher ? b.y > a.y : b.y < a.y) ? b : a));
    datasets.push({ label: `best: ${scale === 100 ? `${best.y.toFixed(2)} %` : shown(best.y)}`, data: [best], showLine: false, clip: false, pointRadius: 5, pointStyle: "rectRot", backgroundColor: colours.colours[1], borderColor: colours.colours[1] });
  }
  addTarget(datasets, key, scale, colours);
  if (scale !== 100 && !metric) return { type: "line", data: { datasets }, options: { scales: { x: along(datasets), y: { ...lossAxis(datasets), title: { text: label } } } } };
  const ys = datasets.flatMap((dataset) => dataset.data.map((p) => p.y)), ends = metric ? [-Infinity, Infinity] : [0, 100];
  return { type: "line", data: { datasets }, options: { scales: { x: along(datasets), y: linear(label, around(Math.min(...ys), Math.max(...ys), ...ends)) } } };
};

const lossConfig = (colours) => {
  let datasets;
  if (data.runs.length > 1) {
    datasets = curves("test_loss", 1, colours);
  } else {
    const [run] = data.runs, xs = AXES[axis].of(run), of = (key) => (run.rounds[key] || []).map((y, i) => ({ x: xs[i], y })).filter((p) => p.y != null);
    datasets = [line("training", of("train_loss"), colours, 0), line("test", of("test_loss"), colours, 1), line("personal", of("personal_loss"), colours, 2), line("validation", of("validation_loss"), colours, 3)].filter((set) => set.data.length);
    const spreads = (run.rounds.loss_low || []).map((low, i) => ({ x: xs[i], low, high: run.rounds.loss_high[i] })).filter((p) => p.low != null);
    if (spreads.length) datasets.push(...band("clients", spreads, colours, 0));
  }
  addTarget(datasets, "test_loss", 1, colours);
  return { type: "line", data: { datasets }, options: { scales: { x: along(datasets), y: lossAxis(datasets) } } };
};
const lossRows = () => {
  if (data.runs.length > 1) return curveRows("test_loss");
  const [run] = data.runs, xs = AXES[axis].of(run);
  return [["round", AXES[axis].title, "training", "test", "personal", "validation", "clients, 10 %", "clients, 90 %"],
          ...run.rounds.round.map((round, i) => [round, xs[i], run.rounds.train_loss?.[i], run.rounds.test_loss?.[i], run.rounds.personal_loss?.[i], run.rounds.validation_loss?.[i], run.rounds.loss_low?.[i], run.rounds.loss_high?.[i]])];
};

// One run -------------------------------------------------------------------------------------------------------------

const missing = (parent, what, why) => make("p", `${what}: ${why}`, parent, "missing");

// A table's classes may have names.
const className = (run) => (i) => String(run.classes?.class_names?.[i] ?? i);

// Clients that are users of the data may have names; others are known by number.
const clientName = (run, client) => String(run.client_names?.[client] ?? client);

const showClasses = (parent, run) => {
  const { classes } = run;
  if (!classes?.counts) return missing(parent, "Who has which data", classes?.why || "not known");
  const order = classes.counts.map((row, i) => [row.indexOf(Math.max(...row)), -Math.max(...row), i]).sort((a, b) => a[0] - b[0] || a[1] - b[1]).map((entry) => entry[2]);
  new HeatFigure(parent, "classes", "Who has which data", true,
    `Samples of each class with ${classes.clients.length < classes.of ? `${classes.clients.length} of ${classes.of}` : "the"} clients, ordered by the class that each has most of. ` +
    `Samples a client: ${whole(classes.smallest)} to ${whole(classes.largest)}; classes a client: ${shown(classes.distinct, 3)}; ` +
    `distance to equal shares (total variation, mean): ${shown(classes.distance, 3)}.`,
    order.map((i) => classes.counts[i]), { x: "class", y: "client", value: "samples", show: whole, columnName: className(run), rowName: (row) => clientName(run, classes.clients[order[row]]) });
};

const showClients = (parent, run) => {
  const { clients } = run;
  if (!clients?.client.length) return missing(parent, "Clients", "the run has no records of clients");
  const most = Math.max(...clients.times);
  const points = clients.client.map((client, i) => ({ x: clients.samples[i], y: clients.loss[i], client: clientName(run, client), times: clients.times[i] }));
  const worst = [...points].sort((a, b) => b.y - a.y).slice(0, 10).map((p) => p.client).join(", ");
  new ChartFigure(parent, "clients", "Clients: last loss in training by samples", false, `Colour: how often a client was trained (up to ${most} times). Highest losses: clients ${worst}.`,
    (colours) => ({ type: "scatter", data: { datasets: [{ label: "clients", data: points, pointRadius: points.length > 500 ? 2 : 3.5, borderWidth: 0.5, borderColor: colours.dim,
        backgroundColor: points.map((p) => viridis(p.times / most)) }] },
      options: { scales: { x: linear("samples"), y: linear("loss", { min: 0 }) }, plugins: { legend: { display: false },
        tooltip: { callbacks: { label: ({ raw }) => `client ${raw.client}: ${raw.x} samples, loss ${shown(raw.y)}, trained ${raw.times} times` } } } } }),
    () => [["client", "samples", "loss", "times trained"], ...points.map((p) => [p.client, p.x, p.y, p.times])]);
};

const showFairness = (parent, run) => {
  const counts = run.rounds.test_accuracy || run.rounds.validation_accuracy || run.rounds.personal_accuracy;
  if (!run.fairness?.length) return missing(parent, "Fairness", counts ? "train with --eval-clients-every N to have the model tested on every client's own samples" : "the run's tests count no hits");
  const BINS = 20, bins = (values) => values.reduce((counts, value) => { counts[Math.min(BINS - 1, Math.floor(value * BINS))]++; return counts; }, new Array(BINS).fill(0));
  const note = run.fairness.map((of) => `${of.model}, round ${of.round}: mean ${percent(of.mean)}, worst tenth ${percent(of.worst)}, best tenth ${percent(of.best)}, Jain ${shown(of.jain, 3)}`).join("; ");
  new ChartFigure(parent, "fairness", "Fairness: accuracy on each client's own samples", false, note,
    (colours) => ({ type: "bar", data: { labels: new Array(BINS).fill(0).map((_, i) => `${100 * i / BINS}`), datasets: run.fairness.map((of, index) => ({ label: of.model, data: bins(of.accuracies),
        backgroundColor: faint(colours.colours[index], 0.75), barPercentage: 1, categoryPercentage: 0.95 })) },
      options: { scales: { x: { title: { text: "accuracy, % (from)" } }, y: linear("clients", { beginAtZero: true, ticks: { precision: 0 } }) }, plugins: { legend: { display: run.fairness.length > 1, labels: { boxHeight: 8 } } } } }),
    () => [["model", "accuracy"], ...run.fairness.flatMap((of) => of.accuracies.map((value) => [of.model, value]))]);
};

const showConfusion = (parent, run) => {
  const why = run.classes?.why;
  if (!run.confusion) return missing(parent, "Confusion", why?.endsWith(" classes") ? why : `${run.evaluate}, and the report again`);
  const shares = run.confusion.map((row) => { const all = row.reduce((a, b) => a + b, 0) || 1; return row.map((value) => 100 * value / all); });
  new HeatFigure(parent, "confusion", "Confusion: what samples of a class were taken for", false, `% of each class's test samples. Recall: ${shares.map((row, i) => `${className(run)(i)}: ${row[i].toFixed(1)}`).join(", ")}.`,
    shares, { x: "taken for", y: "class", value: "%", written: true, show: (value) => value.toFixed(0), columnName: className(run), rowName: className(run) });
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
  const kinds = [["epsilon", run.rounds.epsilon], ["epsilon of samples", run.rounds.sample_epsilon]].filter(([, spent]) => spent?.some((value) => value != null));
  if (!kinds.length) return;
  const last = kinds.map(([name, spent]) => `${name} ${shown(spent.findLast((value) => value != null), 4)}`).join(", ");
  new ChartFigure(parent, "privacy", "Privacy: epsilon spent", false, `After round ${run.rounds.round.at(-1)}: ${last}. What delta goes with it stands in the run's options.`,
    (colours) => ({ type: "line", data: { datasets: kinds.map(([name, spent], k) => line(name, run.rounds.round.map((x, i) => ({ x, y: spent[i] })).filter((p) => p.y != null), colours, k ? 1 : 3)) },
      options: { scales: { x: linear("round"), y: linear("epsilon", { beginAtZero: true }) }, plugins: { legend: { display: kinds.length > 1 } } } }),
    () => [["round", ...kinds.map(([name]) => name)], ...run.rounds.round.map((round, i) => [round, ...kinds.map(([, spent]) => spent[i])])]);
};

const rowsOf = (parent, rows, heading) => {
  const table = make("table", null, make("div", null, parent, "scroll"));
  if (heading) heading.forEach((cell, i, all) => make("th", cell, i ? table.tHead.rows[0] : make("tr", null, make("thead", null, table)), i === all.length - 1 ? "text" : ""));
  const body = make("tbody", null, table);
  rows.forEach((row) => { const line = make("tr", null, body); row.forEach((cell, i) => make("td", cell, line, !heading || i === row.length - 1 ? "text" : "")); });
};

const STARTS = { fork: "as forks of one program", each: "each by a start of its own" };
const startsOf = ({ start, asked }) => !start ? `${STARTS[asked]}, unless it could not be forked`
  : start === asked ? STARTS[start] : `${STARTS[start]}, since the program could not be forked`;

const showTrainer = (parent, run) => {
  const { trainer } = run;
  if (!trainer) return;
  const { faults, restarts, outside, in_trainers: within } = trainer;
  make("h2", "Trainer", parent);
  rowsOf(parent, [
    ["command", trainer.command],
    ["options", trainer.options || "none"],
    ["threads", trainer.threads],
    ["trainers started", startsOf(trainer)],
    ["turns repeat", trainer.repeats == null ? "not checked (--check-trainer)" : trainer.repeats ? "yes, by --check-trainer" : "no, by --check-trainer"],
    ["restarts", restarts ? `${whole(restarts)}, each for a turn that was done again: ${shown(trainer.lost_seconds, 3)} s lost` : "none"],
    ["time outside the trainer", outside == null ? "not known" : `${percent(outside)} of the turns' time` + (within == null ? "" : `; trainers worked in ${percent(within)} of the workers' time in rounds, without tests`)],
    ["private memory of a trainer", trainer.memory_bytes == null ? "not known" : `${shown(trainer.memory_bytes / 1e6, 3)} MB, the largest at the end`],
  ]);
  if (!faults.length) return;
  make("h2", faults.length < restarts ? `The first ${faults.length} of ${whole(restarts)} faults of the trainer` : "Faults of the trainer", parent);
  rowsOf(parent, faults.map((fault) => [fault.round, fault.client == null ? "server" : clientName(run, fault.client), fault.rank, shown(fault.seconds, 3), fault.what]), ["round", "client", "rank", "seconds", "what"]);
};

const showAggregator = (parent, { aggregator }) => {
  if (!aggregator) return;
  make("h2", "Aggregator", parent);
  rowsOf(parent, [["command", aggregator.command], ["keeps", aggregator.keeps ? `${aggregator.keeps} vector${aggregator.keeps > 1 ? "s" : ""} of the model's size` : "nothing"]]);
};

const showRepeat = (parent, run) => {
  make("h2", "How to repeat it", parent);
  make("pre", run.repeat, parent);
  const details = make("div", null, parent, "dim");
  make("p", run.facts, details);
  make("p", "config.yaml:", details);
  make("pre", run.config, parent, "long");
};

const chosen = byId("run-figures"), programs = byId("programs"), repeat = byId("repeat");
let ofRun = [];
const showRun = (run) => {
  const before = figures.length;
  ofRun.forEach((figure) => figure.remove());
  chosen.replaceChildren();
  programs.replaceChildren();
  repeat.replaceChildren();
  const first = before - ofRun.length;
  [showClasses, showClients, showFairness, showConfusion, showTime, showWaits, showStaleness, showPrivacy].forEach((show) => show(chosen, run));
  chosen.append(...chosen.querySelectorAll(".missing"));
  showTrainer(programs, run);
  showAggregator(programs, run);
  showRepeat(repeat, run);
  ofRun = figures.slice(first);
  ofRun.forEach((figure) => figure.show());
};

// The page ------------------------------------------------------------------------------------------------------------

const showTable = (table, { columns, rows, text }) => {
  const heading = make("tr", null, make("thead", null, table));
  columns.forEach((column, i) => make("th", column, heading, text[i] ? "text" : ""));
  const body = make("tbody", null, table);
  rows.forEach((row) => { const line = make("tr", null, body); row.forEach((cell, i) => make("td", cell, line, text[i] ? "text" : "")); });
};

// A narrow screen shows what a row is, and the verdict on it.
const textsFirst = ({ columns, rows, text }) => {
  const order = columns.map((_, i) => i).sort((a, b) => text[b] - text[a]);
  return { columns: order.map((i) => columns[i]), text: order.map((i) => text[i]), rows: rows.map((row) => order.map((i) => row[i])) };
};

const showFacts = () => {
  const place = byId("facts");
  data.facts.forEach(([value, what]) => { const fact = make("div", null, place, "fact"); make("b", value.replace(/(?<![.\d])\d{4,}/g, (digits) => whole(digits)), fact); fact.append(what); });
};

const showCurves = () => {
  const parent = byId("curves");
  const note = data.runs.length > groups.size ? "Line: mean over the runs that differ in the seed alone; band: standard deviation." : null;
  const about = Object.keys(FIGURES).filter((key) => data.runs.some((run) => (FIGURES[key].all || run.figure === key) && run.rounds[key]?.some((value) => value != null)))
    .map((key) => new ChartFigure(parent, FIGURES[key].name, FIGURES[key].title, false, note, (colours) => figureConfig(key, colours), () => curveRows(key, FIGURES[key].all ? null : key)));
  const tested = data.runs.length === 1 || data.runs.some((run) => run.rounds.test_loss);
  const loss = tested && new ChartFigure(parent, "loss", data.runs.length > 1 ? "Loss on the test samples" : "Loss", false,
    data.runs.length > 1 ? note : data.runs[0].rounds.loss_low ? "Band: the clients' losses in training, from the 10th to the 90th percentile." : null, lossConfig, lossRows);
  const all = tested ? [...about, loss] : about;
  const possible = Object.keys(AXES).filter((key) => data.runs.every((run) => AXES[key].of(run)?.some((value) => value != null)));
  const buttons = [];
  all.forEach((figure) => possible.forEach((key) => {
    const button = make("button", key, figure.choices);
    button.setAttribute("aria-pressed", key === axis);
    buttons.push([key, button]);
    button.onclick = () => {
      axis = key;
      buttons.forEach(([of, each]) => each.setAttribute("aria-pressed", of === key));
      all.forEach((each) => each.show());
    };
    figure.choices.append(" ");
  }));
  all.forEach((figure) => figure.show());
};

Chart.defaults.font.family = "system-ui, 'DejaVu Sans', sans-serif";
Chart.defaults.font.size = 11;
byId("title").textContent = document.title = data.title;
byId("subtitle").textContent = data.subtitle;
showFacts();
if (data.means) showTable(byId("means"), data.means);
byId("means-notes").textContent = data.means?.notes || "";
if (data.runs.length > 1) {
  showTable(byId("runs"), data.table);
  byId("each").open = !data.means;
  byId("each").firstElementChild.textContent = `each of the ${data.runs.length} runs`;
} else {
  byId("each").remove();
}
if (data.against?.rows.length) showTable(byId("against"), textsFirst(data.against));
byId("against-notes").textContent = data.against?.notes || "";
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
