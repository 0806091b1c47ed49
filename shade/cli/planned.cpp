#include "shade/cli/planned.h"

#include <algorithm>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/base/terminal.h"
#include "shade/base/visible_text.h"
#include "shade/cli/bench_line.h"

namespace shade::cli {
namespace {

// Ranks of a plan are not started: there may be more of them than processes of a host.
constexpr int kMostRanks = 16384;

int ranks_of(const measure::MatrixRow& row) {
  int ranks = 1;
  for (size_t i = 0; i + 1 < row.arguments.size(); ++i) {
    if (row.arguments[i] != "--ranks") continue;
    const auto& word = row.arguments[i + 1];
    const auto number = parse_integer(word);
    SHADE_REQUIRE(number && *number >= 1 && *number <= kMostRanks, "--ranks ", word, "; expected a number from 1 to ",
                  kMostRanks);
    ranks = static_cast<int>(*number);
  }
  return ranks;
}

Arguments without_ranks(const Arguments& words) {
  Arguments out;
  for (size_t i = 0; i < words.size(); ++i)
    if (words[i] == "--ranks")
      ++i;
    else
      out.push_back(words[i]);
  return out;
}

}  // namespace

StatedRow read_row(const measure::MatrixRow& row, std::vector<std::string>& notes) {
  BenchLine line;
  line.planned_ranks = ranks_of(row);
  SHADE_REQUIRE(!line.parse(without_ranks(row.arguments)), "--help stands between the options of a matrix");
  for (const auto& note : line.notes)
    if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
  StatedRow out{.row = row,
                .experiment = line.stated,
                .given = line.config.stated(),
                .on_line = {},
                .unused = line.unused,
                .run = *line.run};
  for (const auto& field : line.config.fields())
    if (line.line.given(field.key())) out.on_line.insert(field.key());
  return out;
}

void PlanTime::add_to(CLI::App& app) {
  std::vector<std::string> names;
  for (const auto& profile : plan::known_profiles()) names.push_back(profile.name);
  app.add_option("--device-profile", profile_,
                 text("device that times are predicted for: ", join(names, ", "),
                      ", or a JSON file as shade calibrate writes it [none: no times]"))
      ->type_name("NAME");
  app.add_option("--straggler-spread", target_.options.straggler_spread,
                 "relative standard deviation of the ranks' computing times; steps wait for the slowest [0]")
      ->type_name("SHARE")
      ->check(CLI::Range(0.0, 10.0));
}

void PlanTime::read() {
  if (!profile_.empty()) target_.device = plan::device_profile(profile_);
  SHADE_REQUIRE(target_.device || target_.options.straggler_spread == 0,
                "--straggler-spread needs a device to predict times for; add --device-profile");
}

std::string PlanTime::table(const std::vector<plan::Planned>& rows) const {
  if (std::none_of(rows.begin(), rows.end(), [](const plan::Planned& one) { return one.time.has_value(); })) return {};
  const auto& device = *target_.device;
  const bool spec = device.bf16_spec > 0;
  std::vector<std::string> header{"experiment", "time per step",     "tokens/s",
                                  "computing",  "waiting for ranks", "waiting for the host"};
  if (spec) header.emplace_back("MFU (bf16)");
  header.emplace_back("memory");
  Table out(header);
  for (const auto& planned : rows) {
    if (!planned.time) continue;
    const auto& [row, time] = std::tie(*planned.time, planned.time->time);
    std::vector<std::string> cells{planned.name,
                                   to_string(time.step),
                                   significant(row.tokens_per_second),
                                   to_string(time.compute),
                                   to_string(time.exposed),
                                   to_string(time.idle)};
    if (spec) cells.push_back(significant(100 * row.mfu) + " %");
    cells.emplace_back(row.fits ? "fits" : "does not fit");
    out.add(std::move(cells));
  }
  return text("predicted on ", visible(device.name, 60), " (", visible(device.device, 60), ", ",
              visible(device.source, 120), ")\n", out.str());
}

}  // namespace shade::cli
