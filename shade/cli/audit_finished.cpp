#include "shade/cli/audit_finished.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "shade/base/error.h"
#include "shade/base/output_file.h"
#include "shade/base/private_file.h"
#include "shade/base/visible_text.h"
#include "shade/data/keyed_bits.h"
#include "shade/privacy/key.h"
#include "shade/serve/opened_model.h"
#include "shade/train/records.h"

namespace shade::cli {
namespace {

// One loss per record of a folder; each is computed alone, so that no other record changes how it is rounded.
std::vector<double> losses_of(serve::OpenedModel& model, const std::string& folder) {
  const auto traits = model.model->text_traits();
  SHADE_REQUIRE(traits.has_value(), "canaries of a finished model are texts, and ", model.title,
                " doesn't learn from texts");
  auto data = model.data;
  data.data_folder = folder;
  data.max_records = 0;
  data.cache_folder.clear();
  data.tokenizer = model.tokenizer_place;
  if (data.classes.empty()) data.classes = model.classes;
  const auto most = traits->window > 0 ? std::min(traits->window, traits->max_positions) : traits->max_positions;
  const auto length = model.seq_length > 0 ? std::min(model.seq_length, most) : most;
  const auto records = train::open_texts(data, length, *traits);
  const at::NoGradGuard no_graph;
  std::vector<double> out;
  for (int64_t i = 0; i < records->size(); ++i)
    out.push_back(model.model->losses(records->padded_batch({&i, 1}, records->length_of(i))).item<double>());
  return out;
}

std::vector<std::string> lines_of(const std::string& file) {
  std::ifstream in(file);
  SHADE_REQUIRE(in.good(), "can't read ", file,
                "; expected a file with a canary per line, as the data has its records");
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);)
    if (!trim(line).empty()) out.push_back(line);
  return out;
}

}  // namespace

void FinishedModel::declare(Fields& f) {
  f.add(
      "trained", trained,
      {.help = "kind model: run of shade train, model folder or adapters to audit, trained with the included canaries "
               "among its records; if not set, a small model is trained here",
       .flags = {"--trained"}});
  f.add("reference", reference,
        {.help = "with --trained: model before that training; a canary's loss is compared with the loss under it",
         .flags = {"--reference"}});
  f.add("included", included,
        {.help = "with --trained: folder with the canaries that were trained on", .flags = {"--included"}});
  f.add("excluded", excluded,
        {.help = "with --trained: folder with the canaries that were not", .flags = {"--excluded"}});
  f.add(
      "claimed_epsilon", claimed_epsilon,
      {.help = "with --trained: epsilon at --delta that is claimed for it", .min = 0, .flags = {"--claimed-epsilon"}});
  f.add("split_canaries", split_canaries,
        {.help = "file with a canary per line (.jsonl); each is written to included/ or excluded/ in --output-dir by a "
                 "coin from the operating system, and nothing is audited",
         .flags = {"--split-canaries"}});
  f.add("output_dir", output_dir,
        {.help = "with --split-canaries: folder that they are written to", .flags = {"--output-dir"}});
}

bool FinishedModel::asked(proof::AuditKind kind) const {
  const bool any =
      !trained.empty() || !reference.empty() || !included.empty() || !excluded.empty() || claimed_epsilon > 0;
  if (!any) return false;
  SHADE_REQUIRE(kind == proof::AuditKind::model,
                "--trained, --reference, --included, --excluded and --claimed-epsilon are for --kind model, not ",
                to_string(kind));
  SHADE_REQUIRE(!trained.empty() && !included.empty() && !excluded.empty() && claimed_epsilon > 0,
                "the audit of a finished model needs --trained, --included, --excluded and --claimed-epsilon");
  return true;
}

int split_canaries(const FinishedModel& what) {
  SHADE_REQUIRE(!what.output_dir.empty(), "--split-canaries needs --output-dir, the folder that they are written to");
  const auto lines = lines_of(what.split_canaries);
  SHADE_REQUIRE(lines.size() >= 10, what.split_canaries, " has ", lines.size(),
                " canaries; expected at least 10, and hundreds to show anything");
  const auto ending = std::filesystem::path(what.split_canaries).extension();
  data::KeyedBits bits(privacy::secret_key().bytes(), data::KeyedBits::Purpose::poisson, 0);
  std::string sides[2];
  for (const auto& line : lines) sides[bits.below(2)] += line + "\n";
  for (const bool included : {false, true}) {
    const auto folder = std::filesystem::path(what.output_dir) / (included ? "included" : "excluded");
    const auto file = folder / ("canaries" + ending.string());
    // A second draw could be chosen by what the first one gave.
    SHADE_REQUIRE(!std::filesystem::exists(file), file.string(), " exists; choose another --output-dir");
    make_folder(folder, Readers::owner);  // who knows which canaries are included has the answers
    write_output(file, sides[included ? 1 : 0], Readers::owner);
    std::printf(
        "%s: %lld canaries\n", visible(file.string()).c_str(),
        static_cast<long long>(std::count(sides[included ? 1 : 0].begin(), sides[included ? 1 : 0].end(), '\n')));
  }
  return 0;
}

proof::CanaryAuditResult audit_finished(const FinishedModel& what, const proof::AuditConfig& audit) {
  std::vector<double> scores;
  std::vector<bool> included;
  const auto add = [&](const std::string& place, double sign) {
    auto model = serve::open_model(place);
    size_t at = 0;
    for (const bool in : {true, false})
      for (const auto loss : losses_of(model, in ? what.included : what.excluded)) {
        if (at == scores.size()) {
          scores.push_back(0);
          included.push_back(in);
        }
        scores[at++] += sign * loss;
      }
  };
  add(what.trained, -1);
  if (!what.reference.empty()) add(what.reference, 1);
  SHADE_REQUIRE(scores.size() >= 10, scores.size(), " canaries; expected at least 10, and hundreds to show anything");
  return {.kind = proof::AuditKind::model,
          .canaries = std::ssize(scores),
          .included = std::count(included.begin(), included.end(), true),
          .delta = audit.delta,
          .confidence = audit.confidence,
          .claimed_epsilon = what.claimed_epsilon,
          .bound = proof::one_run_bound(scores, included, audit.delta, audit.confidence),
          .unit = "record"};
}

}  // namespace shade::cli
