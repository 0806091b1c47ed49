// ---- where the memory of results goes
function memoryAtPeak() {
  const known = rows.filter(r => Object.keys(r.breakdown).length);
  if (!known.length) return;
  const kinds = Object.keys(report.colours.memory).filter(k => known.some(r => r.breakdown[k] > 0.002 * r.peak_memory_mb));
  const part = section("Memory at the peak", "By what it is for, on the largest rank.");
  const card = add(part, legend(kinds.map(k => [spoken(k), report.colours.memory[k]])) + bars(entries(known).map(({ row, heading, name }) => ({ heading, name,
    parts: kinds.map(k => ({ value: row.breakdown[k] ?? 0, colour: report.colours.memory[k] })), words: megabytes(row.peak_memory_mb),
    tip: `${row.name}\n` + kinds.map(k => `${spoken(k)}: ${megabytes(row.breakdown[k] ?? 0)}`).join("\n") + (row.peak_owner ? `\nreached by ${row.peak_owner}` : "") }))), "div", "card");
  // Gram matrices and norms are seldom there at the peak: behind each category stands its own highest moment.
  const most = (r, k) => r.breakdown_max?.[k], any = k => known.some(r => r.breakdown[k] > 0 || most(r, k) > 0), ranks = Math.max(...known.map(r => r.rank_peaks_mb?.length ?? 0));
  tableOf(card, known.map(r => ({ row: r.name, peak: cell(r.peak_memory_mb, megabytes),
    ...Object.fromEntries(ranks > 1 ? [...Array(ranks).keys()].map(i => ["rank " + i, cell(r.rank_peaks_mb?.[i], megabytes)]) : []),
    ...Object.fromEntries(Object.keys(report.colours.memory).filter(any).flatMap(k => [[spoken(k), cell(r.breakdown[k], megabytes)],
      ...(known.some(x => most(x, k) > x.breakdown[k]) ? [[spoken(k) + ", at most", cell(most(r, k), megabytes)]] : [])])),
    ...(known.some(x => x.peak_owner) ? { "reached by": r.peak_owner ?? "-" } : {}) })));
}
const largestPlace = list => unique(list.map(r => r.place)).map((place, i) => [Math.max(...list.filter(r => r.place === place).map(r => r.peak_memory_mb)), i]).sort((a, b) => b[0] - a[0])[0][1];
// Rows of one place are chosen together.
function byPlace(part, known, draw) {
  const places = unique(known.map(r => r.place));
  chooser(add(part, "", "div", "card"), places, largestPlace(known), (place, i) => {
    place.innerHTML = "";
    draw(place, known.filter(r => r.place === places[i]).sort((a, b) => a.series - b.series));
  });
}
function memoryByStage() {
  const known = rows.filter(r => r.snapshots.length);
  if (!known.length) return;
  byPlace(section("Memory by stage", "Of rank 0. Full: what is allocated at that moment; pale: the highest so far."), known, (place, here) => {
    const stages = unique(here.flatMap(r => r.snapshots.map(s => s.stage)));
    const lines = stages.flatMap(stage => here.map(r => ({ r, stage, s: r.snapshots.find(x => x.stage === stage) })).filter(l => l.s));
    add(place, seriesLegend(here) + bars(lines.map(({ r, stage, s }, i) => ({ heading: here.length > 1 && lines[i - 1]?.stage !== stage ? stage : "", name: here.length > 1 ? word(r) : stage,
      words: `${megabytes(s.allocated_mb)}, highest ${megabytes(s.highest_mb)}`, tip: `${r.name}, ${stage}`,
      parts: [{ value: s.allocated_mb, colour: colour(r) }, { value: Math.max(0, s.highest_mb - s.allocated_mb), colour: colour(r) + "55" }] }))));
    tableOf(place, lines.map(({ r, stage, s }) => ({ stage, row: r.name, allocated: cell(s.allocated_mb, megabytes), "highest so far": cell(s.highest_mb, megabytes) })));
  });
}
function memoryThroughStep() {
  const known = rows.filter(r => r.timeline?.memory?.ms?.length > 1 && kindsOf(r.timeline.memory).length);
  if (!known.length) return;
  byPlace(section("Memory through one step", "Of rank 0, by what it is for: a chart for each mode, with one scale."), known, (place, here) => {
    const kinds = unique(here.flatMap(r => kindsOf(r.timeline.memory))), top = r => Math.max(...sumsOf(r.timeline.memory, kindsOf(r.timeline.memory)));
    const most = Math.max(...here.map(top));
    add(place, legend(kinds.map(k => [spoken(k), report.colours.memory[k]])));
    const panels = add(place, "", "div", "panels");
    for (const r of here) {
      const panel = add(panels, `<h3>${safe(word(r))}, highest ${megabytes(top(r))}</h3>`);
      fitting(panel, wide => courseChart(r, wide, most));
    }
    tableOf(place, here.map(r => ({ row: r.name, highest: cell(top(r), megabytes), ...Object.fromEntries(kinds.map(k => [`most ${spoken(k)}`, cell(r.timeline.memory[k] && Math.max(...r.timeline.memory[k]), megabytes)])) })));
  });
}
