// ---- charts: lying bars, lines, stacked areas
// Bars: {heading, name, parts: [{value, colour, thin}], low, high, words, bad, tip}; one scale for all.
function bars(list) {
  const ends = b => [b.low ?? 0, b.high ?? 0, b.parts.filter(p => !p.thin).reduce((s, p) => s + p.value, 0), ...b.parts.filter(p => p.thin).map(p => p.value), 0];
  const low = Math.min(...list.flatMap(ends)), span = Math.max(...list.flatMap(ends)) - low || 1, at = v => 100 * (v - low) / span;
  return `<div class="bars">${list.map(b => {
    let x = 0, track = "";
    for (const p of b.parts) {
      const from = p.thin ? 0 : x;
      track += `<i${p.thin ? ' class="thin"' : ""} style="left:${at(Math.min(from, from + p.value))}%;width:${100 * Math.abs(p.value) / span}%;background:${p.colour}"></i>`;
      if (!p.thin) x += p.value;
    }
    if (b.high > b.low) track += `<b style="left:${at(b.low)}%;width:${100 * (b.high - b.low) / span}%"></b>`;
    return (b.heading ? `<div class="place">${safe(b.heading)}</div>` : "") +
      `<span class="name">${safe(b.name)}</span><span class="words${b.bad ? " bad" : ""}">${safe(b.words)}</span><span class="track" data-tip="${safe(b.tip ?? "")}">${track}</span>`;
  }).join("")}</div>`;
}
function roundSteps(low, high, most) {
  const raw = (high - low) / Math.max(1, most), power = 10 ** Math.floor(Math.log10(raw)), out = [];
  if (!(raw > 0)) return [low];
  const step = [1, 2, 5, 10].find(part => part * power >= raw * 0.999999) * power;
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; ++k) out.push(+(k * step).toPrecision(12));
  return out;
}
// Of megabytes: round in the unit in which they are written.
function memorySteps(most, count) {
  const unit = [1048576, 1024, 1].find(u => most >= u) ?? 1 / 1024;
  return roundSteps(0, most / unit, count).map(v => v * unit);
}
// Numbers along an axis, without those that would touch the one before.
function axisX(values, x, y, format, wide) {
  let end = -1e9, out = "";
  for (const v of values) {
    const words = format(v), half = 3.8 * words.length, at = Math.min(Math.max(x(v), half), wide - half);
    if (at - half < end + 6) continue;
    out += `<text class="soft" text-anchor="middle" x="${at}" y="${y}">${safe(words)}</text>`;
    end = at + half;
  }
  return out;
}
const axisY = (values, y, left, right, format) => values.map(v =>
  `<line class="axis" x1="${left}" x2="${right}" y1="${y(v)}" y2="${y(v)}"/><text class="soft" text-anchor="end" x="${left - 6}" y="${y(v) + 4}">${safe(format(v))}</text>`).join("");
// Lines: {name, colour, points: [[x, y, low, high]], dashed, thin}. `xs`: the numbers of a logarithmic axis; none: it is linear.
function linePlot(wide, lines, { xs, format, xLabel, zero = true, references = [] }) {
  const left = 76, right = wide - 12, top = 12, bottom = 240, all = lines.flatMap(l => l.points), map = v => xs ? Math.log2(v) : v;
  const seen = all.flatMap(p => [p[1], p[2] ?? p[1], p[3] ?? p[1]]).filter(isFinite).concat(references.map(r => r.value));
  const y0 = zero ? Math.min(0, ...seen) : Math.min(...seen), y1 = Math.max(...seen), room = (y1 - y0 || 1) * 0.05;
  const x0 = Math.min(...all.map(p => map(p[0]))), x1 = Math.max(...all.map(p => map(p[0])));
  // Whiskers of several lines at one x stand next to each other.
  const apart = xs && all.some(p => p[3] > p[2]) ? Math.min(8, 40 / lines.length) : 0;
  const inset = xs ? 14 + apart * (lines.length - 1) / 2 : 0, x = v => left + inset + (right - left - 2 * inset) * (map(v) - x0) / (x1 - x0 || 1);
  const low = zero && y0 === 0 ? 0 : y0 - room, y = v => bottom - (bottom - top) * (v - low) / (y1 + room - low);
  let out = axisY(roundSteps(low, y1 + room, 5), y, left, right, format);
  for (const r of references) out += `<line x1="${left}" x2="${right}" y1="${y(r.value)}" y2="${y(r.value)}" stroke="var(--soft)" stroke-dasharray="5 4"/>`;
  lines.forEach((l, i) => {
    const at = v => x(v) + apart * (i - (lines.length - 1) / 2);
    let path = "", pen = "M";
    for (const p of l.points) {
      if (!isFinite(p[1]) || p[1] === null) { pen = "M"; continue; }
      path += `${pen}${at(p[0]).toFixed(1)},${y(p[1]).toFixed(1)}`;
      pen = "L";
      if (p[3] > p[2]) out += `<path d="M${at(p[0])},${y(p[2])}V${y(p[3])}M${at(p[0]) - 3},${y(p[2])}h6M${at(p[0]) - 3},${y(p[3])}h6" stroke="${l.colour}" fill="none"/>`;
    }
    out += `<path d="${path}" fill="none" stroke="${l.colour}" stroke-width="${l.thin ? 1.2 : 2.2}"${l.dashed ? ' stroke-dasharray="6 4"' : ""}/>`;
    if (!l.thin) for (const p of l.points) if (isFinite(p[1]) && p[1] !== null)
      out += `<circle cx="${at(p[0])}" cy="${y(p[1])}" r="3.6" fill="${l.colour}" data-tip="${safe(`${l.name}\n${xLabel} ${p[0]}\n${format(p[1])}`)}"/>`;
  });
  out += axisX(xs ?? roundSteps(x0, x1, right / 90), x, bottom + 18, v => String(v), wide);
  return `<svg width="${wide}" height="${bottom + 44}">${out}<text class="soft" text-anchor="middle" x="${(left + right) / 2}" y="${bottom + 38}">${safe(xLabel)}</text></svg>`;
}
// The course of memory in a step by kind, from `top` on; with its axis of memory.
function memoryArea(memory, kinds, { x, left, right, top, high, most }) {
  const y = v => top + high * (1 - v / most);
  let out = axisY(memorySteps(most, 3), y, left, right, megabytes), base = memory.ms.map(() => 0);
  const line = (values, back) => {
    const points = [];
    values.forEach((v, i) => { if (i) points.push([x(memory.ms[i]), y(values[i - 1])]); points.push([x(memory.ms[i]), y(v)]); });
    return (back ? points.reverse() : points).map(p => p[0].toFixed(1) + "," + p[1].toFixed(1)).join(" ");
  };
  for (const k of kinds) {
    if (!memory[k]) continue;
    const sums = base.map((b, i) => b + memory[k][i]);
    out += `<polygon data-tip="${safe(`${spoken(k)}\nat most ${megabytes(Math.max(...memory[k]))} in this step`)}" points="${line(sums, false)} ${line(base, true)}" fill="${report.colours.memory[k]}"/>`;
    base = sums;
  }
  return out;
}
