// Put at the end of a report's page by report_page_test.cpp: what a person would stumble over, as a list in
// <pre id="faults">. The page is checked as it is drawn in this window, with all tables open.
addEventListener("load", () => {
  const faults = [], root = document.documentElement;
  const fault = (what, element) => faults.push(`${what}: ${(element?.textContent ?? "").trim().slice(0, 60)}`);
  document.querySelectorAll("details").forEach(d => d.open = true);
  if (root.scrollWidth > innerWidth + 1) faults.push(`the page is ${root.scrollWidth} wide in a window of ${innerWidth}`);

  const light = colour => {
    const [r, g, b] = colour.match(/[\d.]+/g).slice(0, 3).map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!/rgba\(.*, 0\)|transparent/.test(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const wantsDark = matchMedia("(prefers-color-scheme: dark)").matches;
  if (light(behind(document.body)) < 0.5 !== wantsDark) faults.push(`the page is not ${wantsDark ? "dark" : "light"}`);

  const visible = element => element.getClientRects().length > 0;
  const hasText = element => [...element.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
  for (const element of document.body.querySelectorAll("*")) {
    if (["SCRIPT", "STYLE", "NOSCRIPT", "OPTION"].includes(element.tagName) || !hasText(element) || !visible(element)) continue;
    const style = getComputedStyle(element), drawn = element instanceof SVGElement;
    const size = parseFloat(style.fontSize) * (drawn ? element.getScreenCTM().a : 1);
    if (size < 11) fault(`text of ${size} px`, element);
    if (drawn && element.classList.contains("on")) continue;  // on a coloured bar
    const [a, b] = [light(drawn ? style.fill : style.color), light(behind(element))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) fault(`contrast of ${((a + 0.05) / (b + 0.05)).toFixed(2)}`, element);
  }
  const overlaps = (elements, where) => {
    const boxes = elements.filter(visible).map(e => [e, e.getBoundingClientRect()]);
    boxes.forEach(([e, p], i) => boxes.slice(0, i).forEach(([other, q]) => {
      if (p.left + 1 < q.right && q.left + 1 < p.right && p.top + 2 < q.bottom && q.top + 2 < p.bottom)
        fault(`in ${where} '${other.textContent.trim().slice(0, 40)}' is covered by`, e);
    }));
  };
  for (const svg of document.querySelectorAll("svg")) {
    overlaps([...svg.querySelectorAll("text")], "a drawing");
    const own = svg.getBoundingClientRect();
    for (const text of svg.querySelectorAll("text")) {
      const box = text.getBoundingClientRect();
      if (box.left < own.left - 1 || box.right > own.right + 1 || box.bottom > own.bottom + 1) fault("outside of its drawing", text);
    }
  }
  for (const bars of document.querySelectorAll(".bars")) overlaps([...bars.querySelectorAll(".name, .words, .place")], "bars");
  // What is compared is seen without scrolling in a window of usual width, and what is read as text in every window.
  for (const head of document.querySelectorAll("section > .scroll th"))
    if (innerWidth >= 1280 && /^(time|memory) over /.test(head.textContent) && head.getBoundingClientRect().right > innerWidth) fault("beyond the window", head);
  for (const part of document.querySelectorAll(".settings dd, .statement, code, .lead") )
    if (visible(part) && (part.scrollWidth > part.clientWidth + 1 && part.clientWidth > 0 || part.getBoundingClientRect().right > innerWidth)) fault("cut off", part);
  if (innerWidth <= 640) for (const cell of document.querySelectorAll(".stacked td"))
    if (visible(cell) && cell.getBoundingClientRect().right > innerWidth) fault("cut off", cell);

  for (const card of document.querySelectorAll(".card"))
    if (!card.querySelector("details.figures td")) fault("a chart without a table", card);

  const said = document.createElement("pre");
  said.id = "faults";
  said.textContent = JSON.stringify({ faults, charts: document.querySelectorAll(".card").length, svgs: document.querySelectorAll("svg").length, text: document.body.innerText });
  document.body.append(said);
});
