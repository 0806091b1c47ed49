"""Tables, pictures and the summary of what bench/plan_error.py measured."""
import math
import subprocess

import plan_cases


def error(row, of):
    return row[f"predicted_{of}"] / row[f"measured_{of}"] - 1


def spread(values):
    """Error of repeating: how far the runs of the same words are apart, relative to the largest."""
    return 1 - min(values) / max(values)


class Errors:
    def __init__(self, rows, of):
        self.all = sorted(abs(error(row, of)) for row in rows if f"predicted_{of}" in row and f"measured_{of}" in row)

    def share(self, limit):
        return 100 * sum(one <= limit for one in self.all) / max(1, len(self.all))

    def at(self, quantile):
        return 100 * self.all[min(len(self.all) - 1, math.ceil(quantile * len(self.all)) - 1)]


def good(rows):
    return [row for row in rows if "failed" not in row]


def summary_of(rows):
    """The figures that `shade plan` shows of itself."""
    tensors, process = Errors(good(rows), "mb"), Errors(good(rows), "resident_mb")
    return {"runs": len(tensors.all), "tensors_95": round(tensors.at(0.95), 2), "tensors_most": round(tensors.at(1), 2),
            "process_runs": len(process.all), "process_90": round(process.at(0.9), 1) if process.all else 0.0}


def header_of(rows):
    """shade/plan/measured_error.h."""
    figures = summary_of(rows)
    return f"""// Written by bench/plan_error.py from docs/results/planning/rows.json; tests/docs/plan_error_test.py compares them.
#pragma once

namespace shade::plan {{

// Predicted against measured on a CPU, relative: what 95 % (90 %) of the runs stay below, and the largest.
struct MeasuredError {{
  int runs, process_runs;
  double tensors_95, tensors_most, process_90;  // per cent
}};
inline constexpr MeasuredError kMeasuredError{{
    .runs = {figures["runs"]}, .process_runs = {figures["process_runs"]}, .tensors_95 = {figures["tensors_95"]}, .tensors_most = {figures["tensors_most"]}, .process_90 = {figures["process_90"]}}};

}}  // namespace shade::plan
"""


def memory_tables(rows):
    runs = good(rows)
    tensors, process = Errors(runs, "mb"), Errors(runs, "resident_mb")
    exact = sum(row["predicted_bytes"] == row["measured_bytes"] for row in runs)
    lines = ["## Memory and traffic",
             "Peak tensor memory of a rank, peak of its process (RSS) and bytes sent per step. A run that differed by more than 0.5 % was repeated, up to six runs: "
             "the lanes of ranks on a CPU are threads, and how long they hold the buffers of a reduction depends on their timing. \"Measured\" is the largest of the runs, "
             "\"repeating\" how far they are apart. All rows with their words are in [rows.json](rows.json).", "",
             "| | runs | within 1 % | within 3 % | within 7 % | median error | 95 % of runs | largest |", "|---|---|---|---|---|---|---|---|"]
    for name, errors in [("tensors", tensors), ("process", process)]:
        if errors.all:
            lines.append(f"| {name} | {len(errors.all)} | {errors.share(0.01):.0f} % | {errors.share(0.03):.0f} % | {errors.share(0.07):.0f} % "
                         f"| {errors.at(0.5):.2f} % | {errors.at(0.95):.2f} % | {errors.at(1):.2f} % |")
    lines += ["", f"Traffic was predicted exactly for {exact} of {len(runs)} runs.", "", "![Predicted against measured](memory.png)", "",
              "| family | settings | predicted MiB | measured MiB | error | repeating | process, predicted MiB | measured | error | sent, predicted | sent, measured |",
              "|---|---|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        start = f"| {row['family']} | {plan_cases.settings(row['words'])} "
        if "failed" in row:
            lines.append(start + f"| failed: {row['failed']} | | | | | | | | |")
            continue
        runs_mb = row.get("runs_mb", [])
        repeating = f"{100 * spread(runs_mb):.2f} %" if len(runs_mb) > 1 else ""
        process = " | | "
        if "predicted_resident_mb" in row:
            process = f"{row['predicted_resident_mb']:.1f} | {row['measured_resident_mb']:.1f} | {100 * error(row, 'resident_mb'):+.1f} %"
        lines.append(start + f"| {row['predicted_mb']:.2f} | {row['measured_mb']:.2f} | {100 * error(row, 'mb'):+.2f} % | {repeating} | {process} "
                             f"| {row['predicted_bytes']:,} | {row['measured_bytes']:,} |")
    return lines


def time_tables(rows):
    runs = [row for row in good(rows) if min(row["runs_ms"]) > 200]
    errors, repeating = Errors(runs, "ms"), sorted(spread(row["runs_ms"]) for row in runs)
    if not runs:
        return ["## Time of a step", "No run of more than 200 ms."]
    lines = ["## Time of a step",
             f"Steps of more than 200 ms after `shade calibrate` with the same ranks and threads ({len(runs)} of {len(rows)} runs). Every run was made twice, one round after the "
             "other; \"measured\" is the mean, \"repeating\" how far the two are apart. All rows are in [times.json](times.json).", "",
             "| runs | within 15 % | within 30 % | median error | 95 % of runs | largest | repeating: median | repeating: 95 % of runs |", "|---|---|---|---|---|---|---|---|",
             f"| {len(runs)} | {errors.share(0.15):.0f} % | {errors.share(0.3):.0f} % | {errors.at(0.5):.1f} % | {errors.at(0.95):.1f} % | {errors.at(1):.1f} % "
             f"| {100 * repeating[len(repeating) // 2]:.1f} % | {100 * repeating[math.ceil(0.95 * len(repeating)) - 1]:.1f} % |", "",
             "![Predicted against measured time](time.png)", "",
             "| family | settings | threads | predicted ms | measured ms | error | repeating |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        start = f"| {row['family']} | {plan_cases.settings(row['words'])} "
        if "failed" in row:
            lines.append(start + f"| | failed: {row['failed']} | | | |")
        else:
            lines.append(start + f"| {row['threads']} | {row['predicted_ms']:.0f} | {row['measured_ms']:.0f} | {100 * error(row, 'ms'):+.1f} % | {100 * spread(row['runs_ms']):.1f} % |")
    return lines


def page(memory, times):
    lines = ["# Predicted against measured", "", "`shade plan` compared with `shade bench` of the same words, on this machine's CPU. Made by `bench/plan_error.py`.", ""]
    if memory:
        lines += memory_tables(memory)
    if times:
        lines += ["", *time_tables(times)]
    return "\n".join(lines) + "\n"


def picture(rows, series, unit, file):
    """Predicted over measured, with a line where they are equal; one colour per (label, key)."""
    points = {label: [(row[f"measured_{key}"], row[f"predicted_{key}"]) for row in good(rows) if f"predicted_{key}" in row] for label, key in series}
    points = {label: of for label, of in points.items() if of}
    blocks = "".join(f"${index} << END\n" + "".join(f"{x} {y}\n" for x, y in of) + "END\n" for index, of in zip("ab", points.values()))
    plots = ", ".join(f"${index} with points pointtype 7 pointsize 0.8 linecolor rgb '{color}' title '{label}'"
                      for index, color, label in zip("ab", ["#3366aa", "#cc6633"], points))
    script = f"""{blocks}set terminal pngcairo size 800,600 font 'sans,12'
set output '{file}'
set logscale xy
set xlabel 'measured {unit}'
set ylabel 'predicted {unit}'
set key top left
set grid
plot x with lines linecolor rgb '#888888' title 'equal', {plots}
"""
    subprocess.run(["gnuplot", "-d"], input=script, text=True, check=True)
