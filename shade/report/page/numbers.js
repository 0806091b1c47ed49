// ---- numbers, in the style of shade/base/units.cpp and percent.cpp: a test holds the two together
function significant(v, digits = 3) {
  if (v === 0) return "0";
  if (v === undefined || v === null || !isFinite(v)) return "-";
  const [mantissa, exponent] = v.toExponential(digits - 1).split("e"), magnitude = +exponent;
  if (magnitude < -3 || magnitude > 15) return mantissa + "e" + (magnitude < 0 ? "-" : "+") + String(Math.abs(magnitude)).padStart(2, "0");
  return (+v.toExponential(digits - 1)).toFixed(Math.max(0, digits - 1 - magnitude));
}
// At the fourth digit after the point, as rounded_up(): no epsilon looks smaller than it is.
const roundedUp = v => v < 1e-3 ? significant(v * (1 + 1e-3), 4) : (Math.ceil(v * 1e4 - 1e-9) / 1e4).toFixed(4);
const percent = v => Math.abs(v) < 0.005 ? "0 %" : (Math.abs(v) >= 1 ? significant(v) : v.toFixed(2)) + " %";
const signedPercent = v => (v >= 0.005 ? "+" : "") + percent(v);
function megabytes(mb) {
  const bytes = Math.round(mb * 1048576);
  for (const [name, power] of [["TiB", 4], ["GiB", 3], ["MiB", 2], ["KiB", 1]])
    if (Math.abs(bytes) >= 1024 ** power) return significant(bytes / 1024 ** power) + " " + name;
  return bytes + " B";
}
function millis(ms) {
  const s = ms / 1e3, whole = Math.round(s);
  if (s === 0) return "0 s";
  if (s >= 90) return whole >= 5400 ? `${Math.floor(whole / 3600)} h ${Math.floor(whole % 3600 / 60)} min` : `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return s >= 1 ? significant(s) + " s" : s >= 1e-3 ? significant(ms) + " ms" : significant(ms * 1e3) + " us";
}
