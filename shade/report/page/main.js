// ---- the page
const root = document.documentElement;
document.getElementById("theme").onclick = () => root.dataset.theme =
  (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark" ? "light" : "dark";
const counted = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
document.getElementById("about").textContent = report.runs ? counted(report.runs.length, "training run")
  : `${counted(rows.length, "experiment")}${failures.length ? ", " + failures.length + " that did not run" : ""}; ${report.common}`;
function facts(parent) {
  if (report.facts?.length) add(parent, report.facts.map(f => `<dt>${safe(f.about)}</dt><dd>${f.about === "command" ? `<code>${safe(f.text)}</code>` : safe(f.text)}</dd>`).join(""), "dl", "facts");
}
if (report.runs) trainingRuns();
else {
  findings();
  advised();
  if (rows.length) for (const part of [allRows, sideBySide, overBatch, memoryAtPeak, memoryByStage, memoryThroughStep, oneStep, traffic, phases]) part();
  leftOut();
  facts(section("Measured on"));
}
const tip = document.getElementById("tip");
document.addEventListener("mousemove", event => {
  const on = event.target.closest?.("[data-tip]");
  tip.style.display = on && on.dataset.tip ? "block" : "none";
  if (!on) return;
  tip.textContent = on.dataset.tip;
  tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
  tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8) + "px";
});
