#include "shade/cli/audit_finished.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "shade/base/error.h"
#include "shade/base/input_text.h"
#include "shade/base/output_file.h"
#include "shade/base/private_file.h"
#include "shade/base/visible_text.h"
#include "shade/data/keyed_bits.h"
#include "shade/privacy/key.h"
#include "shade/serve/opened_model.h"
#include "shade/train/records.h"

namespace shade::cli {
namespace {

struct Canaries {
  std::vector<double> losses;
  std::vector<data::UserId> users;  // of a run that has them
};

// Each loss is computed alone, so that no other record changes how it is rounded.
Canaries read_canaries(serve::OpenedModel& model, const std::string& folder) {
  const auto traits = model.model->text_traits();
  SHADE_REQUIRE(traits.has_value(), "canaries of a finished model are texts, and ", model.title,
                " doesn't learn from texts");
  SHADE_REQUIRE(model.data.packing == data::Packing::records, model.title,
                " was trained on packed texts: a window may hold tokens of several canaries; audit a "
                "model trained with --packing records");
  auto data = model.data;
  data.data_folder = folder;
  data.max_records = 0;
  data.cache_folder.clear();
  data.tokenizer = model.tokenizer_place;
  data.classes.clear();  // model.head() has them
  const auto most = traits->window > 0 ? std::min(traits->window, traits->max_positions) : traits->max_positions;
  const auto length = model.seq_length > 0 ? std::min(model.seq_length, most) : most;
  const auto records = train::open_texts(data, length, *traits, {}, model.head());
  const at::NoGradGuard no_graph;
  Canaries out;
  for (int64_t i = 0; i < records->size(); ++i) {
    out.losses.push_back(model.model->losses(records->padded_batch({&i, 1}, records->length_of(i))).item<double>());
    if (const auto user = records->user_of(i)) out.users.push_back(*user);
  }
  return out;
}

// A run that protects users promises nothing about two records of one: each canary needs a user of its own.
void require_own_users(std::vector<data::UserId> users) {
  std::sort(users.begin(), users.end());
  SHADE_REQUIRE(std::adjacent_find(users.begin(), users.end()) == users.end(),
                "two canaries have the same user; expected a different user for each canary");
}

std::vector<std::string> lines_of(const std::string& file) {
  require_readable(file);
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
       .flags = {"--trained"},
       .needs = {{"audit.kind", {"model"}}}});
  f.add("reference", reference,
        {.help = "with --trained: model before that training; a canary's loss is compared with the loss under it",
         .flags = {"--reference"},
         .needs = {{"audit.trained"}}});
  f.add("included", included,
        {.help = "with --trained: folder with the canaries that were trained on",
         .flags = {"--included"},
         .needs = {{"audit.trained"}}});
  f.add("excluded", excluded,
        {.help = "with --trained: folder with the canaries that were not",
         .flags = {"--excluded"},
         .needs = {{"audit.trained"}}});
  f.add("claimed_epsilon", claimed_epsilon,
        {.help = "with --trained: epsilon at --delta that is claimed for it",
         .min = 0,
         .flags = {"--claimed-epsilon"},
         .needs = {{"audit.trained"}}});
  f.add("split_canaries", split_canaries,
        {.help = "file with a canary per line (.jsonl); each is written to included/ or excluded/ in --output-dir by a "
                 "coin from the operating system, and nothing is audited",
         .flags = {"--split-canaries"}});
  f.add("output_dir", output_dir,
        {.help = "with --split-canaries: folder that they are written to",
         .flags = {"--output-dir"},
         .needs = {{"audit.split_canaries"}}});
}

bool FinishedModel::asked() const {
  if (trained.empty()) return false;
  SHADE_REQUIRE(!included.empty() && !excluded.empty() && claimed_epsilon > 0,
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
  const auto folder_of = [&](bool included) {
    return std::filesystem::path(what.output_dir) / (included ? "included" : "excluded");
  };
  // A second draw could be chosen by what the first one gave, and halves of two draws share canaries.
  for (const bool included : {false, true})
    SHADE_REQUIRE(!std::filesystem::exists(folder_of(included)), folder_of(included).string(),
                  " exists; choose another --output-dir");
  for (const bool included : {false, true}) {
    const auto folder = folder_of(included);
    const auto file = folder / ("canaries" + ending.string());
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
  std::vector<data::UserId> users;
  auto trained = serve::open_model(what.trained);
  for (const bool in : {true, false}) {
    const auto canaries = read_canaries(trained, in ? what.included : what.excluded);
    for (const auto loss : canaries.losses) scores.push_back(-loss);
    included.resize(scores.size(), in);
    users.insert(users.end(), canaries.users.begin(), canaries.users.end());
  }
  const bool has_users = !users.empty();
  require_own_users(std::move(users));
  if (!what.reference.empty()) {
    auto reference = serve::open_model(what.reference);
    reference.data = trained.data;  // the same records, whatever that model was trained on
    size_t at = 0;
    for (const bool in : {true, false})
      for (const auto loss : read_canaries(reference, in ? what.included : what.excluded).losses) {
        SHADE_REQUIRE(at < scores.size(), "--reference reads more canaries than --trained does");
        scores[at++] += loss;
      }
    SHADE_REQUIRE(at == scores.size(), "--reference reads ", at, " canaries and --trained ", scores.size());
  }
  SHADE_REQUIRE(scores.size() >= 10, scores.size(), " canaries; expected at least 10, and hundreds to show anything");
  return {.kind = proof::AuditKind::model,
          .canaries = std::ssize(scores),
          .included = std::count(included.begin(), included.end(), true),
          .delta = audit.delta,
          .confidence = audit.confidence,
          .claimed_epsilon = what.claimed_epsilon,
          .bound = proof::one_run_bound(scores, included, audit.delta, audit.confidence),
          .unit = has_users ? "user" : "record"};
}

}  // namespace shade::cli
