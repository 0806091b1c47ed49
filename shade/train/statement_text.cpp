// The renderings of a privacy statement.
#include "shade/base/strings.h"
#include "shade/base/units.h"
#include "shade/train/privacy_statement.h"

namespace shade::train {
namespace {

using Steps = PrivacyStatement::Steps;

// All digits: a sigma that is rounded up would promise more noise than there was.
std::string exact(double value) { return Json(value).dump(); }

std::string unit_words(const PrivacyStatement& s) {
  if (s.unit != privacy::PrivacyUnit::user)
    return s.unit_by.empty() ? to_string(s.unit) : text(to_string(s.unit), " (", s.unit_by, ")");
  return text("user, named by the field '", s.unit_by, "'");
}

std::string sampling_words(const privacy::Mechanism& m) {
  auto out = text(to_string(m.sampler), " sampling at rate ", exact(m.sample_rate));
  if (m.max_batch > 0) out += text(", batches of at most ", m.max_batch, " of at most ", m.population);
  return out;
}

std::string steps_words(const Steps& kind) {
  return text(kind.count, kind.count == 1 ? " step: " : " steps: ", sampling_words(kind.mechanism), ", sigma ",
              exact(kind.mechanism.noise_multiplier), ", clip norm ", exact(kind.clip_norm), " (",
              to_string(kind.clip_style), ")",
              kind.max_records > 0 ? text(", at most ", kind.max_records, " records of a user in a step") : "");
}

std::string promise(const PrivacyStatement& s) {
  return text("epsilon ", rounded_up(s.spent->epsilon), " at delta ", exact(s.spent->delta), " by ",
              to_string(s.spent->accountant), "; neighbouring data sets: ", adjacency(s.unit));
}

std::string data_ledger_words(const PrivacyStatement::DataLedger& total) {
  return text("all runs that share the data ledger together, ", total.runs, " so far: at most epsilon ",
              rounded_up(total.cap.epsilon), " at delta ", exact(total.cap.delta),
              ", whatever their settings were chosen by; had they been planned ahead, epsilon ",
              rounded_up(total.planned.epsilon), " by ", to_string(total.planned.accountant));
}

Json program_json(const PrivacyStatement::Program& program) {
  Json out = Json::object();
  for (const auto& [key, word] :
       {std::pair("shade", program.shade), {"commit", program.commit}, {"libtorch", program.libtorch}})
    if (!word.empty()) out[key] = word;
  return out;
}

std::string program_words(const PrivacyStatement::Program& program) {
  std::vector<std::string> out;
  const auto named = program_json(program);
  for (const auto& [key, word] : named.items()) out.push_back(text(key, " ", word.get<std::string>()));
  return join(out, ", ");
}

std::string list(const std::vector<std::string>& items) {
  std::string out;
  for (const auto& item : items) out += text("- ", item, "\n");
  return out;
}

// A cell of a table: what a field is called must not end it.
std::string cell(const std::string& words) {
  std::string out;
  for (const char c : words) out += c == '|' ? std::string("\\|") : std::string(1, c == '\n' ? ' ' : c);
  return out;
}

std::string table_of(const PrivacyStatement& s) {
  std::string out = "| | |\n|---|---|\n";
  const auto row = [&](const std::string& name, const std::string& value) {
    out += text("| ", name, " | ", cell(value), " |\n");
  };
  if (s.spent) {
    row("epsilon", text(rounded_up(s.spent->epsilon), " (upper bound, rounded up)"));
    row("delta", exact(s.spent->delta));
    row("accountant", to_string(s.spent->accountant));
    row("adjacency", adjacency(s.unit));
    row("unit of privacy", unit_words(s));
    row("steps", text(s.step_count()));
    for (const auto& kind : s.steps) {
      row("mechanism", steps_words(kind));
      row("expected batch (divisor)", exact(kind.divisor));
    }
  }
  if (s.spent && s.data_ledger) row("data ledger", data_ledger_words(*s.data_ledger));
  if (s.trained_with.known()) row("trained with", program_words(s.trained_with));
  if (s.released_with.known()) row("released with", program_words(s.released_with));
  if (!s.ledger_digest.empty()) row("ledger of the run (BLAKE2b-256)", s.ledger_digest);
  return out;
}

}  // namespace

std::vector<std::string> short_lines(const PrivacyStatement& s) {
  if (!s.no_guarantee.empty()) return {text("privacy  no guarantee: ", s.no_guarantee)};
  std::vector<std::string> out{text("privacy  ", promise(s))};
  const auto more = [&](const auto&... words) { out.push_back(text("         ", words...)); };
  if (!s.unit_by.empty()) more("unit: ", unit_words(s));
  for (const auto& kind : s.steps) more(steps_words(kind));
  if (s.data_ledger) more(data_ledger_words(*s.data_ledger));
  more("taken as public: ", join(s.taken_as_public, "; "));
  more("not covered: ", join(s.not_covered, "; "));
  more("ledger ", s.ledger_digest);
  return out;
}

std::string markdown(const PrivacyStatement& s) {
  auto out = std::string("# Privacy statement\n\n");
  if (!s.no_guarantee.empty()) {
    out += text("**There is NO privacy guarantee for this model: ", s.no_guarantee,
                ".** Assume that records it was trained on can be recovered from it.\n\n");
    return out + table_of(s);
  }
  out += text("This model was trained with differential privacy: **", promise(s), "**.\n\n",
              "A recipient of this model who knows everything about the training data except whether one ",
              to_string(s.unit), s.unit == privacy::PrivacyUnit::user ? " with all records" : "",
              " is in it learns no more about that than epsilon and delta allow. privacy.json states the same for "
              "programs.\n\n",
              table_of(s), "\n## Taken as public\n\n", list(s.taken_as_public), "\n## Not covered\n\n",
              list(s.not_covered));
  return out;
}

Json to_json(const PrivacyStatement& s) {
  Json out{{"format", "shade privacy statement"}, {"version", 1}, {"guarantee", s.no_guarantee.empty()}};
  if (!s.no_guarantee.empty()) out["no_guarantee"] = s.no_guarantee;
  if (s.spent) {
    out["epsilon"] = std::stod(rounded_up(s.spent->epsilon));
    out["delta"] = s.spent->delta;
    out["accountant"] = to_string(s.spent->accountant);
    out["adjacency"] = adjacency(s.unit);
    out["unit"] = {{"kind", to_string(s.unit)}};
    if (s.unit == privacy::PrivacyUnit::user) {
      out["unit"]["field"] = s.unit_by;
    } else if (!s.unit_by.empty()) {
      out["unit"]["by"] = s.unit_by;
    }
    out["steps"] = s.step_count();
    out["mechanisms"] = Json::array();
    for (const auto& [mechanism, clip_norm, divisor, clip_style, max_records, count] : s.steps) {
      Json kind{{"steps", count},
                {"sampler", to_string(mechanism.sampler)},
                {"sample_rate", mechanism.sample_rate},
                {"sigma", mechanism.noise_multiplier},
                {"clip_norm", clip_norm},
                {"clip_style", to_string(clip_style)},
                {"divisor", divisor}};
      if (max_records > 0) kind["max_records_per_user"] = max_records;
      if (mechanism.max_batch > 0)
        kind.update({{"max_batch", mechanism.max_batch}, {"population", mechanism.population}});
      out["mechanisms"].push_back(std::move(kind));
    }
    out["taken_as_public"] = s.taken_as_public;
    out["not_covered"] = s.not_covered;
  }
  out["versions"] = {{"trained_with", program_json(s.trained_with)}, {"released_with", program_json(s.released_with)}};
  if (!s.ledger_digest.empty()) out["ledger"] = {{"algorithm", "BLAKE2b-256"}, {"digest", s.ledger_digest}};
  if (s.spent && s.data_ledger)
    out["data_ledger"] = {{"epsilon_cap", s.data_ledger->cap.epsilon},
                          {"delta", s.data_ledger->cap.delta},
                          {"epsilon_if_planned_ahead", std::stod(rounded_up(s.data_ledger->planned.epsilon))},
                          {"accountant", to_string(s.data_ledger->planned.accountant)},
                          {"runs", s.data_ledger->runs},
                          {"digest", s.data_ledger->digest}};
  return out;
}

}  // namespace shade::train
