// ---- what sections are made of
const safe = s => String(s).replace(/[&<>"']/g, c => "&#" + c.charCodeAt(0) + ";");
const unique = list => [...new Set(list)];
const spoken = kind => kind.replace(/_/g, " ");
const spread = (a, b) => `${millis(a)} .. ${millis(b)}`;
const main = document.getElementById("main");
function add(parent, html, kind = "div", cls = "") {
  const part = document.createElement(kind);
  if (cls) part.className = cls;
  part.innerHTML = html;
  parent.append(part);
  return part;
}
function section(title, note) {
  return add(main, `<h2>${safe(title)}</h2>` + (note ? `<p class="note">${safe(note)}</p>` : ""), "section");
}
const legend = entries => `<div class="legend">${entries.map(([name, c]) => `<span><i class="dot" style="background:${c}"></i>${safe(name)}</span>`).join("")}</div>`;
function chooser(parent, names, start, draw) {
  const select = names.length > 1 && add(parent, names.map((n, i) => `<option value="${i}">${safe(n || "all")}</option>`).join(""), "select");
  const place = add(parent, "");
  if (select) {
    select.setAttribute("aria-label", "which to show");
    select.value = start;
    select.addEventListener("change", () => draw(place, +select.value));
  }
  draw(place, start);
}
// A table of [heading, value for sorting, text (HTML)] columns that is sorted by a click; "stacked": in a narrow window a
// row is a list.
function sortable(parent, columns, rows, kind = "") {
  const number = ([, key]) => rows.some(r => typeof key(r) === "number");
  const cls = columns.map(c => number(c) ? ' class="n"' : "");
  const place = add(parent, `<table${kind && ` class="${kind}"`}><thead><tr>${columns.map((c, i) => `<th tabindex="0"${cls[i]}>${safe(c[0])}</th>`).join("")}</tr></thead><tbody></tbody></table>`, "div", "scroll");
  const heads = [...place.querySelectorAll("th")], body = place.querySelector("tbody");
  const fill = list => body.innerHTML = list.map(r => `<tr>${columns.map((c, i) => `<td${cls[i]} data-heading="${safe(c[0])}"${c[2](r) === "-" ? " data-empty" : ""}>${c[2](r)}</td>`).join("")}</tr>`).join("");
  fill(rows);
  const sort = (head, i) => {
    const way = head.dataset.way === "1" ? -1 : 1, key = columns[i][1];
    heads.forEach(h => delete h.dataset.way);
    head.dataset.way = way;
    fill([...rows].sort((a, b) => {
      const p = key(a), q = key(b);
      if (p === undefined || q === undefined) return (p === undefined) - (q === undefined);  // unknown ones last
      return way * (typeof p === "number" ? p - q : String(p).localeCompare(String(q), "en", { numeric: true }));
    }));
  };
  heads.forEach((head, i) => { head.onclick = () => sort(head, i); head.onkeydown = e => { if (e.key === "Enter") sort(head, i); }; });
}
// The figures of a chart below it: {heading: value or text} for each line.
function tableOf(parent, lines) {
  if (!lines.length) return;
  const details = add(parent, "<summary>Table</summary>", "details", "figures");
  sortable(details, Object.keys(lines[0]).map(key => [key, l => l[key]?.sort ?? l[key], l => safe(l[key]?.text ?? l[key] ?? "-")]), lines);
}
const cell = (value, format) => value === undefined || value === null ? undefined : { sort: value, text: format(value) };
// Drawn for the width it has, and again when that changes: text keeps its size.
function fitting(parent, draw) {
  const place = add(parent, "", "div", "fitting");
  let last = 0;
  const redraw = () => { const wide = Math.floor(place.clientWidth); if (wide && wide !== last) place.innerHTML = draw(last = wide); };
  redraw();
  new ResizeObserver(redraw).observe(place);
}
