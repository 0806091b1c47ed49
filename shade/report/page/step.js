// ---- one step on an axis of time: lanes of stretches, and below them the course of memory
function lanesOf(list) {  // no two that overlap share a lane; who holds another lies above it
  const lanes = [];
  for (const s of [...list].sort((a, b) => a.from_ms - b.from_ms || b.to_ms - a.to_ms)) {
    let lane = lanes.findIndex(end => end <= s.from_ms + 1e-6);
    if (lane < 0) lane = lanes.push(0) - 1;
    lanes[lane] = s.to_ms;
    s.lane = lane;
  }
  return lanes.length;
}
const kindsOf = memory => memory ? Object.keys(memory).filter(k => k !== "ms" && k in report.colours.memory && Math.max(...memory[k]) > 0) : [];
const sumsOf = (memory, kinds) => memory.ms.map((_, i) => kinds.reduce((s, k) => s + (memory[k]?.[i] ?? 0), 0));
function stepChart(r, wide) {
  const t = r.timeline, left = 84, high = 18, x = ms => left + (wide - left - 10) * Math.max(0, ms) / t.step_ms;
  const units = s => s.name.startsWith("unit_"), waits = s => s.name.endsWith("_wait");
  const shade = s => report.colours.spans[s.name] || "#a0a0a0";
  const streams = [["network", "network"], ["node", "in the node"], ["hosts", "hosts"]].map(([stream, name]) => [name, t.collectives.filter(c => c.stream === stream), shade]);
  const tracks = [
    ["phases", t.spans.filter(s => !units(s) && !waits(s)), shade],
    ["units", t.spans.filter(units), shade],
    ["waits", t.spans.filter(s => waits(s) && s.name !== "comm_wait"), shade],
    ["collectives", t.collectives.filter(c => !["network", "node", "hosts"].includes(c.stream)), shade], ...streams,
  ].filter(([, list]) => list.length);
  let y = 4, out = "";
  for (const [name, list, fill] of tracks) {
    const lanes = lanesOf(list);
    out += `<text class="soft" text-anchor="end" x="${left - 8}" y="${y + 13}">${name}</text>`;
    for (const s of list) {
      const a = x(s.from_ms), w = Math.max(0.7, x(s.to_ms) - a), word = s.of || s.label || "";
      const waited = s.waited_ms === undefined ? "" : `\nwaited for: ${millis(s.waited_ms)}, sent ${megabytes(s.mb)}`;
      out += `<rect data-tip="${safe(`${spoken(s.name)}${word ? ", " + word : ""}\n${millis(s.to_ms - s.from_ms)} from ${millis(s.from_ms)}${waited}`)}" x="${a}" y="${y + s.lane * high}" width="${w}" height="${high - 2}" rx="1.5" fill="${fill(s)}" stroke="var(--card)" stroke-width="0.6"/>`;
      const label = name === "units" ? word : spoken(s.name);
      if (w > 8 * label.length + 8) out += `<text class="on" pointer-events="none" x="${a + 4}" y="${y + s.lane * high + 12}">${safe(label)}</text>`;
    }
    y += lanes * high + 6;
  }
  const m = t.memory, kinds = kindsOf(m);
  if (kinds.length && m.ms.length > 1) {
    const most = Math.max(...sumsOf(m, kinds));
    out += memoryArea(m, kinds, { x, left, right: wide - 10, top: y + 8, high: 150, most });
    y += 166;
  }
  return `<svg width="${wide}" height="${y + 22}">${out}${axisX(roundSteps(0, t.step_ms, wide / 110), x, y + 14, millis, wide)}</svg>`;
}
// A small chart of one row's memory through its step; `most` is common to those beside it.
function courseChart(r, wide, most) {
  const left = 76, right = wide - 8, m = r.timeline.memory, end = m.ms.at(-1) || 1, x = ms => left + (right - left) * ms / end;
  return `<svg width="${wide}" height="170">${memoryArea(m, kindsOf(m), { x, left, right, top: 8, high: 130, most })}${axisX(roundSteps(0, end, wide / 110), x, 158, millis, wide)}</svg>`;
}
