// ---- runs of training
const lastOf = curve => curve?.length ? curve.at(-1)[1] : undefined, fourDigits = v => significant(v, 4);
const scoreFormat = score => score.unit === "share" ? v => percent(100 * v) : v => significant(v);
const runDot = run => `<i class="dot" style="background:${run.colour}"></i>`;
function runsTable() {
  const runs = report.runs, shown = (value, format) => value === undefined || value === null ? "-" : format(value);
  const lowest = curve => { const finite = curve.filter(p => p[1] !== null); return finite.length ? finite.reduce((a, b) => b[1] < a[1] ? b : a) : undefined; };
  const column = (heading, value, format) => [heading, r => value(r) ?? undefined, r => shown(value(r), format)];
  const scores = (after, of) => report.scores.map(s => column(s.heading + after, r => of(r, s.key), scoreFormat(s)));
  sortable(section("Runs", runs.some(r => r.private) ? "Losses and scores of private runs are not private: show them only to people cleared for the data." : ""), [
    ["run", r => r.name, r => runDot(r) + safe(r.name)],
    ["task", r => r.task || undefined, r => safe(r.task || "-")],
    ...scores("", (r, key) => lastOf(r.scores[key])),
    ...scores(" (test)", (r, key) => r.test[key]),
    ["privacy", r => r.privacy, r => safe(r.privacy || "none")],
    ["steps", r => r.steps, r => safe(r.steps)],
    column("held-out loss", r => lastOf(r.held_out_loss), fourDigits),
    ["lowest held-out loss", r => lowest(r.held_out_loss)?.[1], r => lowest(r.held_out_loss) ? `${fourDigits(lowest(r.held_out_loss)[1])} (step ${lowest(r.held_out_loss)[0]})` : "-"],
    column("loss (test)", r => r.test.loss, fourDigits),
    column("loss of the last batch", r => lastOf(r.loss), fourDigits),
  ].filter(([, key]) => runs.some(r => key(r) !== undefined)), runs, "stacked");
}
function runCurves() {
  const runs = report.runs, grid = add(section("Curves"), "", "div", "grid");
  const chart = (title, curves, format, options) => {
    const lines = curves.filter(c => c.points?.length), references = options.references ?? [];
    if (!lines.length) return;
    const card = add(grid, `<h3>${safe(title)}</h3>` + legend(lines.map(l => [l.name, l.colour]).concat(references.map(r => [`${r.words || "line"}: ${format(r.value)} (dashed)`, "var(--soft)"]))), "div", "card");
    fitting(card, wide => linePlot(wide, lines, { format, xLabel: "steps", ...options }));
    const steps = unique(lines.flatMap(l => l.points.map(p => p[0]))).sort((a, b) => a - b);
    const every = Math.ceil(steps.length / 400), found = lines.map(l => new Map(l.points));  // a table of ten thousand lines helps nobody
    tableOf(card, steps.filter((s, i) => i % every === 0 || i === steps.length - 1).map(step => ({ step, ...Object.fromEntries(lines.map((l, i) => [l.name, cell(found[i].get(step), format)])) })));
  };
  // Runs on the same held-out records share a baseline: one line for each value.
  const baselines = (key, heading) => {
    const known = runs.filter(r => lastOf(r.scores[key]) !== undefined), values = unique(known.map(r => lastOf(r.scores[key])));
    return values.map(value => ({ value, words: heading + (values.length > 1 ? ` (${known.filter(r => lastOf(r.scores[key]) === value).map(r => r.name).join(", ")})` : "") }));
  };
  const used = report.scores.map(s => s.baseline).filter(Boolean);
  for (const score of report.scores.filter(s => !used.includes(s.key)))
    chart(`Held-out records: ${score.heading}`, runs.map(r => ({ name: r.name, colour: r.colour, points: r.scores[score.key] })), scoreFormat(score),
      { zero: score.key !== "perplexity", references: score.baseline ? baselines(score.baseline, report.scores.find(s => s.key === score.baseline).heading) : [] });
  report.losses.forEach(({ title, runs: numbers }, i) => chart(title, numbers.flatMap(n => [{ name: `${runs[n].name}, batch (thin)`, colour: runs[n].colour, points: runs[n].loss, thin: true },
    { name: `${runs[n].name}, held out`, colour: runs[n].colour, points: runs[n].held_out_loss }]), fourDigits, { zero: false, references: i === 0 ? report.lines : [] }));
  chart("Epsilon spent", runs.map(r => ({ name: r.name + (r.epsilon_void ? " (void: seeded)" : r.no_epsilon_since !== null ? ` (void: no epsilon since step ${r.no_epsilon_since})` : ""), colour: r.colour, points: r.epsilon, dashed: r.epsilon_void || r.no_epsilon_since !== null, thin: true })), roundedUp, {});
}
// A value that runs share is said once.
function runSettings() {
  if (!report.settings.length) return;
  const runs = report.runs, part = section("Settings", runs.length > 1 ? "As of the last start of each run. A value without a name is that of all runs." : "As of the last start of the run.");
  const grid = add(part, "", "div", "groups");
  const value = s => unique(s.values).length === 1 ? safe(s.values[0])
    : unique(s.values).map(v => `<div>${runs.filter((r, i) => s.values[i] === v).map(r => `<span class="of">${runDot(r)}${safe(r.name)}</span>`).join(" ")} ${safe(v)}</div>`).join("");
  for (const { group, settings } of report.settings) {
    const last = group === report.settings.at(-1).group && report.settings.length > 1;
    const list = `<dl class="settings">${settings.map(s => `<dt>${safe(s.setting)}</dt><dd>${value(s)}</dd>`).join("")}</dl>`;
    if (last) add(part, `<summary>${safe(group)} (${settings.length})</summary>${list}`, "details");
    else add(grid, `<h3>${safe(group)}</h3>${list}`);
  }
}
// A paragraph "about: one; two; three" as a heading and a list.
function runStatements() {
  const stated = report.runs.filter(r => r.statement.length);
  if (!stated.length) return;
  const part = section("Privacy statements");
  for (const run of stated) {
    const [promise, ...rest] = run.statement;
    add(part, `<h3>${runDot(run)}${safe(run.name)}</h3><p><b>${safe(promise)}</b></p>` + rest.map(words => {
      const colon = words.indexOf(": "), items = words.slice(colon + 2).split("; ");
      if (colon < 0 || colon > 60) return `<p>${safe(words)}</p>`;
      return items.length < 2 ? `<p><b>${safe(words.slice(0, colon))}</b>: ${safe(items[0])}</p>`
        : `<p><b>${safe(words.slice(0, colon))}</b></p><ul>${items.map(i => `<li>${safe(i)}</li>`).join("")}</ul>`;
    }).join(""), "div", "statement");
  }
}
function runCommands() {
  const part = section("Commands");
  add(part, report.runs.map(r => `<dt>${runDot(r)}${safe(r.name)}</dt><dd>${r.command ? `<code>${safe(r.command)}</code>`
    : r.private ? "not shown: the run is private" : "not known"}<div class="note">metrics last written ${safe(r.date)}</div></dd>`).join(""), "dl");
  return part;
}
function trainingRuns() {
  findings();
  runsTable();
  runCurves();
  runSettings();
  runStatements();
  facts(runCommands());
}
