// A privacy statement for programs: privacy.json.
#include "shade/base/units.h"
#include "shade/train/privacy_statement.h"

namespace shade::train {
namespace {

Json program_json(const PrivacyStatement::Program& program) {
  Json out = Json::object();
  for (const auto& [key, word] :
       {std::pair("shade", program.shade), {"commit", program.commit}, {"libtorch", program.libtorch}})
    if (!word.empty()) out[key] = word;
  return out;
}

Json files_json(const std::vector<FileDigest>& files) {
  Json out = Json::array();
  for (const auto& [name, digest] : files) out.push_back({{"name", name}, {"sha256", digest}});
  return out;
}

double stated_epsilon(double epsilon) { return std::stod(rounded_up(epsilon)); }

Json unit_json(const PrivacyStatement& s) {
  Json out{{"kind", to_string(s.unit)}};
  if (!s.unit_by.empty()) out[s.unit == privacy::PrivacyUnit::user ? "field" : "by"] = s.unit_by;
  return out;
}

Json mechanisms_json(const std::vector<PrivacyStatement::Steps>& steps) {
  Json out = Json::array();
  for (const auto& [mechanism, clip_norm, divisor, clip_style, max_records, exact_sum, ideal_noise, count] : steps) {
    Json kind{{"steps", count},
              {"sampler", to_string(mechanism.sampler)},
              {"sample_rate", mechanism.sample_rate},
              {"sigma", mechanism.noise_multiplier},
              {"clip_norm", clip_norm},
              {"clip_style", to_string(clip_style)},
              {"divisor", divisor},
              {"sum", exact_sum ? "exact" : "rounded"},
              {"noise", ideal_noise ? "ideal, rounded once" : "approximate"}};
    if (max_records > 0) kind["max_records_per_user"] = max_records;
    if (mechanism.max_batch > 0)
      kind.update({{"max_batch", mechanism.max_batch}, {"population", mechanism.population}});
    out.push_back(std::move(kind));
  }
  return out;
}

Json data_json(const TrainingFacts& facts) {
  Json out{{"counts", Json::array()}};
  if (!facts.data.empty()) out["name"] = facts.data;
  for (const auto& [of, number, why] : facts.counts) {
    Json count{{"of", of}};
    if (number)
      count["number"] = *number;
    else
      count["not_stated"] = why;
    out["counts"].push_back(std::move(count));
  }
  return out;
}

Json base_json(const TrainingFacts::Base& base) {
  if (base.name.empty()) return {{"random", true}};
  Json out{{"random", false}, {"name", base.name}, {"files", files_json(base.files)}};
  if (!base.revision.empty()) out["revision"] = base.revision;
  return out;
}

Json training_json(const TrainingFacts& facts) {
  Json out{{"checkpoint_step", facts.checkpoint_step}, {"settings", facts.settings}};
  if (!facts.started.empty()) out["last_started_on"] = facts.started;
  return out;
}

void add_guarantee(Json& out, const PrivacyStatement& s) {
  const auto [epsilon, delta] = headline(s);
  out["epsilon"] = stated_epsilon(epsilon);
  out["delta"] = delta;
  out["scope"] = s.is_shared() ? "data ledger" : "run";
  out["run"] = {{"epsilon", stated_epsilon(s.spent->epsilon)},
                {"delta", s.spent->delta},
                {"accountant", to_string(s.spent->accountant)}};
  out["adjacency"] = adjacency(s.unit);
  out["unit"] = unit_json(s);
  out["steps"] = s.step_count();
  out["mechanisms"] = mechanisms_json(s.steps);
  out["noise"] = {{"distribution", "Gaussian"}, {"generator", "ChaCha20"}, {"key", to_string(s.key)}};
  out["taken_as_public"] = s.taken_as_public;
  out["not_covered"] = s.not_covered;
}

}  // namespace

Json to_json(const PrivacyStatement& s) {
  Json out{{"format", kStatementFormat}, {"version", kStatementVersion}, {"released_on", s.released_on}};
  out["guarantee"] = s.no_guarantee.empty();
  if (!s.no_guarantee.empty()) out["no_guarantee"] = s.no_guarantee;
  if (s.spent) add_guarantee(out, s);
  out["data"] = data_json(s.facts);
  out["base_model"] = base_json(s.facts.base);
  for (const auto& base : s.facts.later_bases) out["later_base_models"].push_back(base_json(base));
  out["training"] = training_json(s.facts);
  out["versions"] = {{"trained_with", program_json(s.trained_with)}, {"released_with", program_json(s.released_with)}};
  if (!s.ledger_digest.empty()) out["ledger"] = {{"algorithm", "BLAKE2b-256"}, {"digest", s.ledger_digest}};
  if (s.spent && s.data_ledger)
    out["data_ledger"] = {{"epsilon_cap", s.data_ledger->cap.epsilon},
                          {"delta", s.data_ledger->cap.delta},
                          {"epsilon_if_planned_ahead", stated_epsilon(s.data_ledger->planned.epsilon)},
                          {"accountant", to_string(s.data_ledger->planned.accountant)},
                          {"runs", s.data_ledger->runs},
                          {"digest", s.data_ledger->digest}};
  out["files"] = files_json(s.files);
  return out;
}

}  // namespace shade::train
