// ---- a folder of results
const rows = report.rows ?? [], failures = report.failures ?? [];
const colour = row => report.series[row.series].colour, word = row => report.series[row.series].word;
const seriesLegend = list => { const used = unique(list.map(r => r.series)).sort((a, b) => a - b); return used.length > 1 ? legend(used.map(i => [report.series[i].word, report.series[i].colour])) : ""; };
// Rows by place, then by series: a heading for each place, unless one series is all there is.
function entries(list) {
  const places = unique(list.map(r => r.place)), alone = unique(list.map(r => r.series)).length === 1;
  return places.flatMap(place => list.filter(r => r.place === place).sort((a, b) => a.series - b.series).map((row, i) => ({ row,
    heading: i === 0 && !alone && places.length > 1 ? place || "all others" : "", name: alone && place ? place : word(row) })));
}
function findings() {
  const leads = report.findings.filter((f, i) => i === 0 || f.doubt), rest = report.findings.filter(f => !leads.includes(f));
  for (const f of leads) add(main, `<b>${safe(f.about)}.</b> ${safe(f.text)}`, "p", f.doubt ? "lead doubt" : "lead");
  if (rest.length) add(main, rest.map(f => `<dt${f.about === "Did not run" ? ' class="bad"' : ""}>${safe(f.about)}</dt><dd>${safe(f.text)}</dd>`).join(""), "dl");
}
// A figure as its unit wants it; the interval stands beside the median.
const formats = { "MiB": megabytes, "bytes": v => megabytes(v / 1048576), "ms": millis, "share": v => percent(100 * v), "s": v => millis(1000 * v),
  "count": v => v >= 1e9 ? significant(v / 1e9) + " G" : v >= 1e6 ? significant(v / 1e6) + " M" : String(v) };
const overBaseline = "over " + (report.baseline ?? "no_dp");
const at = (row, key) => key.split(".").reduce((part, name) => part?.[name], row);
function figureColumn({ key, unit, heading }) {
  const show = formats[unit] || (v => v ? significant(v) : "-");
  return [heading, r => at(r, key), r => at(r, key) === undefined ? "-" : show(at(r, key))];
}
// "+31.0 % (+25.0 % to +38.0 %)" on two lines.
function ratioCell(words) {
  const [, value, inside] = words.match(/^(.*?) \((.*)\)$/) ?? [, words, ""], unsure = ", not distinguishable";
  return safe(value) + (inside.endsWith(unsure) ? unsure : "") + (inside && `<div class="note">${safe(inside.replace(unsure, ""))}</div>`);
}
// Time and memory of `part` of a row over another row.
const overColumns = (words, part) => [
  ["time " + words, r => part(r)?.time_percent, r => part(r) ? ratioCell(part(r).time_words) : "-"],
  ["memory " + words, r => part(r)?.memory_percent, r => part(r) ? signedPercent(part(r).memory_percent) : "-"],
];
// What is compared stands first: a window shows only so many columns.
function allRows() {
  const first = ["median_time_ms", "peak_memory_mb"], figures = first.map(key => report.figures.find(f => f.key === key));
  const part = section("All rows", `Click a heading to sort. Time and memory ${overBaseline} are against the row of the same shape${rows.some(r => r.over_zero2) ? ", over zero2 against the row that differs in the strategy alone" : ""}.`);
  sortable(part, [
    ["mode", r => r.mode, r => `<i class="dot" style="background:${colour(r)}"></i>${safe(r.mode)}`],
    ["shape", r => r.group || undefined, r => safe(r.group)],
    ...figures.map(figureColumn),
    ...overColumns(overBaseline, r => r.cost),
    ...overColumns("over zero2", r => r.over_zero2),
    [report.range, r => !report.planned && r.range_ms[1] > r.range_ms[0] ? r.range_ms[0] : undefined, r => r.range_ms[1] > r.range_ms[0] ? spread(...r.range_ms) : "-"],
    ...report.figures.filter(f => !first.includes(f.key)).map(figureColumn),
    ["file", r => r.file, r => safe(r.file)],
  ].filter(([, key]) => rows.some(r => key(r) !== undefined)), rows);
}
// A card with one bar for each row that `value` knows: {value, words, low, high}.
function barCard(parent, title, heading, format, value, withFailures) {
  const known = rows.filter(value), shown = withFailures ? known.concat(failures) : known;
  if (!known.length) return;
  const card = add(parent, `<h3>${safe(title)}</h3>` + seriesLegend(shown) + bars(entries(shown).map(({ row, heading, name }) => {
    if (row.failed) return { heading, name, parts: [], words: "did not run", bad: true, tip: `${row.name}\n${row.reason}` };
    const v = value(row), words = v.words ?? format(v.value);
    return { heading, name, parts: [{ value: v.value, colour: colour(row) }], low: v.low, high: v.high, words, tip: `${row.name}\n${words}` };
  })), "div", "card");
  tableOf(card, known.map(r => ({ row: r.name, [heading]: cell(value(r).value, format), ...(value(r).high === undefined ? {} :
    { from: cell(value(r).low, format), to: cell(value(r).high, format) }) })));
}
function sideBySide() {
  const grid = add(section("Side by side", report.planned ? "A bar is one row of the plan." : `A bar is one experiment, the median of its steps; thin lines: ${report.range}.`), "", "div", "grid");
  barCard(grid, "Time of a step", "step", millis, r => ({ value: r.median_time_ms, low: r.range_ms[0], high: r.range_ms[1] }), true);
  barCard(grid, "Peak memory of the largest rank", "peak memory", megabytes, r => ({ value: r.peak_memory_mb }), true);
  barCard(grid, "Time " + overBaseline, "time " + overBaseline, signedPercent, r => r.cost && { value: r.cost.time_percent, words: r.cost.time_words });
  barCard(grid, "Memory " + overBaseline, "memory " + overBaseline, megabytes, r => r.cost && { value: r.cost.memory_mb, words: `${megabytes(r.cost.memory_mb)} (${signedPercent(r.cost.memory_percent)})` });
  barCard(grid, "Throughput of all ranks", report.throughput, v => `${significant(v)} ${report.throughput}`, r => r.tokens_per_second > 0 && { value: r.tokens_per_second });
}
function overBatch() {
  const batches = unique(rows.map(r => r.batch_size)).sort((a, b) => a - b);
  if (batches.length < 2 || batches[0] < 1) return;
  const grid = add(section("Over batch size", "Samples per rank, on a logarithmic axis; one line for each strategy, method and shape."), "", "div", "grid");
  const chart = (title, format, point) => {
    const known = rows.filter(r => point(r)[0] > 0), lines = unique(known.map(r => r.line.name)).map(name => {
      const own = known.filter(r => r.line.name === name).sort((a, b) => a.batch_size - b.batch_size);
      return { name, colour: own[0].line.colour, points: own.map(r => [r.batch_size, ...point(r)]) };
    });
    if (!lines.length) return;
    const card = add(grid, `<h3>${safe(title)}</h3>` + legend(lines.map(l => [l.name, l.colour])), "div", "card");
    fitting(card, wide => linePlot(wide, lines, { xs: batches, format, xLabel: "batch size per rank" }));
    tableOf(card, lines.map(l => ({ line: l.name, ...Object.fromEntries(batches.map(b => ["batch " + b, cell(l.points.find(p => p[0] === b)?.[1], format)])) })));
  };
  chart(`Throughput of all ranks (${report.throughput})`, significant, r => [r.tokens_per_second, r.tokens_per_second * r.median_time_ms / r.range_ms[1], r.tokens_per_second * r.median_time_ms / r.range_ms[0]]);
  chart("Peak memory of the largest rank", megabytes, r => [r.peak_memory_mb]);
}
function leftOut() {
  if (!failures.length && !report.skipped.length) return;
  add(section("Left out"), failures.map(r => `<dt class="bad">${safe(r.name)}</dt><dd>did not run: ${safe(r.reason)} <span class="note">${safe(r.file)}</span></dd>`).join("") +
    report.skipped.map(s => `<dt>${safe(s.file)}</dt><dd>${safe(s.reason)}</dd>`).join(""), "dl");
}
