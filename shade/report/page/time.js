// ---- where the time of results goes
const slowest = list => list.indexOf([...list].sort((a, b) => b.median_time_ms - a.median_time_ms)[0]);
function oneStep() {
  const known = rows.filter(r => r.timeline);
  if (!known.length) return;
  const part = section(report.planned ? "One step, as predicted" : "One step, as it happened", (report.planned ? "A step of rank 0: what it does," : "The last measured step of rank 0: what it did,") + " in which unit of the model, waits, collectives, and below it the memory by kind. Point at anything for its name and time.");
  chooser(add(part, "", "div", "card"), known.map(r => r.name), slowest(known), (place, i) => {
    const t = known[i].timeline;
    place.innerHTML = "";
    fitting(place, wide => stepChart(known[i], wide));
    add(place, legend(kindsOf(t.memory).map(k => [spoken(k), report.colours.memory[k]])));
    tableOf(place, t.spans.map(s => [s, "phase or unit"]).concat(t.collectives.map(s => [s, "collective"])).map(([s, kind]) => ({ kind, name: spoken(s.name), of: s.of || s.label || "-",
      begins: cell(s.from_ms, millis), takes: cell(s.to_ms - s.from_ms, millis) })));
  });
}
function traffic() {
  const known = rows.filter(r => r.communication?.bytes > 0);
  if (!known.length) return;
  const part = section("Traffic and overlap", "A step: computing, then the time it waits for traffic. The thin line below is how long collectives were under way in all; what of it isn't waited for is hidden by computing (several may be under way at once).");
  const share = r => 100 * (r.communication.exposed_ms ?? 0) / r.median_time_ms, sent = r => r.communication.bytes / 1048576;
  const card = add(part, legend([["waited for", "#d9482b"], ["under way", "#2aa7c9"]]) + seriesLegend(known) + bars(entries(known).map(({ row, heading, name }) => {
    const waits = row.communication.exposed_ms ?? 0;
    return { heading, name, words: `${megabytes(sent(row))}, waits ${percent(share(row))}`, tip: `${row.name}\nstep ${millis(row.median_time_ms)}\nwaited for ${millis(waits)}`,
      parts: [{ value: Math.max(0, row.median_time_ms - waits), colour: colour(row) }, { value: waits, colour: "#d9482b" }, { value: row.communication.time_ms ?? 0, thin: true, colour: "#2aa7c9" }] };
  })), "div", "card");
  tableOf(card, known.map(r => ({ row: r.name, step: cell(r.median_time_ms, millis), "sent per rank": cell(sent(r), megabytes), "under way": cell(r.communication.time_ms, millis),
    "waited for": cell(r.communication.exposed_ms, millis), "share of the step": cell(share(r), percent) })));
}
function phases() {
  const known = rows.filter(r => Object.keys(r.phases_ms).length);
  if (!known.length) return;
  const part = section("Phases of a step", "Of rank 0. Phases nest: norm lies inside of a backward, waits inside of what waits; they don't add up to the step.");
  const grid = add(part, "", "div", "grid"), last = slowest(known), twin = known.findIndex(r => r.group === known[last].group && r.method === "no_dp");
  for (const start of unique([twin < 0 ? 0 : twin, last]))
    chooser(add(grid, "", "div", "card"), known.map(r => r.name), start, (place, i) => {
      const r = known[i], list = Object.entries(r.phases_ms).sort((a, b) => b[1] - a[1]);
      place.innerHTML = bars(list.map(([name, v]) => ({ name: spoken(name), words: `${millis(v)}, ${percent(100 * v / r.median_time_ms)}`, tip: `${spoken(name)}\n${millis(v)} of ${millis(r.median_time_ms)}`,
        parts: [{ value: v, colour: colour(r) }] })));
      tableOf(place, list.map(([name, v]) => ({ phase: spoken(name), time: cell(v, millis), "share of the step": cell(100 * v / r.median_time_ms, percent) })));
    });
}
