// ---- what shade plan --advise tried: memory against time per sample
function advised() {
  for (const a of report.advice ?? []) {
    const time = a.timed ? v => millis(v) : v => significant(v / 1e12) + " TFLOP", per = a.timed ? "time per sample" : "work per sample";
    const cost = a.timed ? v => millis(v) : v => megabytes(v / 1048576);
    const part = section("Settings that were tried", `${a.rows.length} settings within a limit of ${megabytes(a.limit_mb)} per rank (dashed). The front: nothing that is faster needs less memory or costs less. ${a.recommended ? "Recommended: " + a.recommended + "." : "Nothing fits."}`);
    const kinds = { front: ["on the front", "#1f77c9"], slower: ["slower", "#8a93a0"], too_large: ["over the limit", "#d55e00"] };
    const kind = r => r.verdict === "front" ? "front" : r.peak_memory_mb > a.limit_mb ? "too_large" : "slower";
    const card = add(part, legend(Object.keys(kinds).filter(k => a.rows.some(r => kind(r) === k)).map(k => kinds[k])), "div", "card");
    const front = a.rows.filter(r => r.verdict === "front"), slowest = Math.max(...(front.length ? front : a.rows).map(r => r.time));
    const shown = a.rows.filter(r => r.peak_memory_mb <= 2 * a.limit_mb && r.time <= 2 * slowest);
    if (shown.length < a.rows.length) add(card, `${a.rows.length - shown.length} settings are outside of the drawing: over twice the limit, or more than twice as slow as the front.`, "p", "note");
    fitting(card, wide => {
      const left = 84, right = wide - 14, top = 10, bottom = 280, mostX = 1.05 * Math.max(a.limit_mb, ...shown.map(r => r.peak_memory_mb)), mostY = 1.08 * Math.max(...shown.map(r => r.time));
      const x = v => left + (right - left) * v / mostX, y = v => bottom - (bottom - top) * v / mostY;
      let out = axisY(roundSteps(0, mostY, 5), y, left, right, time);
      out += `<line x1="${x(a.limit_mb)}" x2="${x(a.limit_mb)}" y1="${top}" y2="${bottom}" stroke="var(--soft)" stroke-dasharray="5 4"/>`;
      const line = [...front].sort((p, q) => p.peak_memory_mb - q.peak_memory_mb);
      out += `<path d="${line.map((r, i) => `${i ? "L" : "M"}${x(r.peak_memory_mb).toFixed(1)},${y(r.time).toFixed(1)}`).join("")}" fill="none" stroke="#1f77c9" stroke-width="1.6"/>`;
      for (const r of shown) {
        const c = kinds[kind(r)][1], words = `${r.name}\n${megabytes(r.peak_memory_mb)}, ${time(r.time)} per sample${r.reason ? "\n" + r.reason : ""}`;
        out += `<circle cx="${x(r.peak_memory_mb)}" cy="${y(r.time)}" r="${r.verdict === "front" ? 5 : 3.6}" fill="${c}" data-tip="${safe(words)}"/>`;
        if (r.name === a.recommended) out += `<circle cx="${x(r.peak_memory_mb)}" cy="${y(r.time)}" r="9" fill="none" stroke="var(--soft)" stroke-width="2" pointer-events="none"/>`;
      }
      return `<svg width="${wide}" height="${bottom + 44}">${out}${axisX(memorySteps(mostX, wide / 110), x, bottom + 18, megabytes, wide)}<text class="soft" text-anchor="middle" x="${(left + right) / 2}" y="${bottom + 38}">peak memory per rank</text></svg>`;
    });
    tableOf(card, a.rows.map(r => ({ settings: r.name, verdict: spoken(r.verdict), "peak memory": cell(r.peak_memory_mb, megabytes), [per]: cell(r.time, time), [a.timed ? "device time per sample" : "sent per sample"]: cell(r.cost, cost), why: r.reason || "-" })));
  }
}
