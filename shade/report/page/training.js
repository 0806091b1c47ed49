// ---- runs of training
function trainingRuns() {
  const runs = report.runs, final = curve => curve.length ? curve.at(-1)[1] : undefined, four = v => significant(v, 4);
  const lowest = curve => { const finite = curve.filter(p => p[1] !== null); return finite.length ? finite.reduce((a, b) => b[1] < a[1] ? b : a) : undefined; };
  sortable(section("Runs"), [
    ["run", r => r.name, r => `<i class="dot" style="background:${r.colour}"></i>${safe(r.name)}`],
    ["steps", r => r.steps, r => safe(r.steps)],
    ["loss of the last batch", r => final(r.loss), r => four(final(r.loss))],
    ["held-out loss", r => final(r.held_out_loss), r => four(final(r.held_out_loss))],
    ["lowest held-out loss", r => lowest(r.held_out_loss)?.[1], r => lowest(r.held_out_loss) ? `${four(lowest(r.held_out_loss)[1])} at step ${lowest(r.held_out_loss)[0]}` : "-"],
    ["privacy", r => r.privacy, r => safe(r.privacy || "none")],
    ["last written", r => r.date, r => safe(r.date)],
  ], runs);
  if (report.differing_settings?.length) {
    const column = (run, i) => [run.name, d => d.values[i], d => safe(d.values[i])];
    sortable(section("Settings that differ"), [["setting", d => d.setting, d => safe(d.setting)], ...runs.map(column)], report.differing_settings);
  }
  const part = section("Curves", runs.some(r => r.private) ? "Losses of private runs are not private: they are for those who may see the data." : "");
  const chart = (title, curves, format, options) => {
    const lines = curves.filter(c => c.points.length);
    if (!lines.length) return;
    const card = add(part, `<h3>${safe(title)}</h3>` + legend(lines.map(l => [l.name, l.colour]).concat((options.references ?? []).map(r => [`${r.words || "line"}: ${format(r.value)}`, "var(--soft)"]))), "div", "card");
    fitting(card, wide => linePlot(wide, lines, { format, xLabel: "steps", ...options }));
    const steps = unique(lines.flatMap(l => l.points.map(p => p[0]))).sort((a, b) => a - b);
    const every = Math.ceil(steps.length / 400), found = lines.map(l => new Map(l.points));  // a table of ten thousand lines helps nobody
    tableOf(card, steps.filter((s, i) => i % every === 0 || i === steps.length - 1).map(step => ({ step, ...Object.fromEntries(lines.map((l, i) => [l.name, cell(found[i].get(step), format)])) })));
  };
  chart("Loss", runs.flatMap(r => [{ name: `${r.name}, batch (thin)`, colour: r.colour, points: r.loss, thin: true }, { name: `${r.name}, held out`, colour: r.colour, points: r.held_out_loss }]),
    four, { zero: false, references: report.lines });
  chart("Epsilon spent", runs.map(r => ({ name: r.name + (r.epsilon_void ? " (void: seeded)" : r.no_epsilon_since !== null ? ` (void: no epsilon since step ${r.no_epsilon_since})` : ""), colour: r.colour, points: r.epsilon, dashed: r.epsilon_void || r.no_epsilon_since !== null, thin: true })), roundedUp, {});
}
