// A privacy statement for people: the end of shade train, and PRIVACY.md.

#include <algorithm>
#include <cmath>

#include "shade/base/strings.h"
#include "shade/base/units.h"
#include "shade/base/visible_text.h"
#include "shade/train/release/privacy_statement.h"

namespace shade::train {
namespace {

using Steps = PrivacyStatement::Steps;
using privacy::PrivacyUnit;

// All digits: a sigma that is rounded up would promise more noise than there was.
std::string exact(double value) { return Json(value).dump(); }

std::string unit_text(const PrivacyStatement& s) {
  if (s.unit != PrivacyUnit::user)
    return s.unit_by.empty() ? to_string(s.unit) : text(to_string(s.unit), " (", visible(s.unit_by), ")");
  return text("user with all records, named by the field '", visible(s.unit_by), "'");
}

std::string whole_unit(PrivacyUnit unit) {
  return text(to_string(unit), unit == PrivacyUnit::user ? ", with all records of that user," : "");
}

std::string sampling_text(const privacy::Mechanism& m) {
  auto out = text(to_string(m.sampler), " sampling at rate ", exact(m.sample_rate));
  if (m.max_batch > 0) out += text(", batches of at most ", m.max_batch, " of at most ", m.population);
  return out;
}

std::string steps_text(const Steps& kind) {
  return text(kind.count, kind.count == 1 ? " step: " : " steps: ", sampling_text(kind.mechanism), ", sigma ",
              exact(kind.mechanism.noise_multiplier), ", clip norm ", exact(kind.clip_norm), " (",
              to_string(kind.clip_style), ")",
              kind.max_records > 0 ? text(", at most ", kind.max_records, " records of a user in a step") : "");
}

std::string epsilon_text(double epsilon, double delta) {
  return text("epsilon ", rounded_up(epsilon), " at delta ", exact(delta));
}

std::string cap_text(const privacy::Cap& cap) {
  return text("epsilon ", plain_digits(cap.epsilon), " at delta ", exact(cap.delta));
}

std::string headline_text(const PrivacyStatement& s) {
  return s.is_shared() ? cap_text(s.data_ledger->cap) : epsilon_text(s.spent->epsilon, s.spent->delta);
}

std::string own_text(const PrivacyStatement& s) {
  return text(epsilon_text(s.spent->epsilon, s.spent->delta), " by ", to_string(s.spent->accountant));
}

std::string accountant_text(privacy::Accountant accountant) {
  switch (accountant) {
    case privacy::Accountant::prv:
      return "prv: numerical composition of the privacy loss distributions of all steps (Gopi, Lee, Wutschitz 2021), "
             "an upper bound";
    case privacy::Accountant::rdp:
      return "rdp: composition of Renyi differential privacy (Mironov 2017), an upper bound";
    case privacy::Accountant::gdp: break;  // no upper bound: no statement is made by it
  }
  return to_string(accountant);
}

std::string optimizer_name(optim::Algorithm algorithm) {
  switch (algorithm) {
    case optim::Algorithm::adamw: return "AdamW";
    case optim::Algorithm::adambc: return "AdamBC";
    case optim::Algorithm::sgd: return "SGD";
  }
  return {};
}

std::string style_text(privacy::ClipStyle style) {
  switch (style) {
    case privacy::ClipStyle::flat: return "flat: one norm over all weights";
    case privacy::ClipStyle::per_layer: return "per_layer: each module by itself, together at most C";
    case privacy::ClipStyle::group: return "group: each group of layers by itself, together at most C";
    case privacy::ClipStyle::automatic: return "automatic: divided by its norm and scaled to at most C";
    case privacy::ClipStyle::adaptive:
      return "adaptive: C, first as stated, follows a noisy quantile of the norms, which epsilon includes";
  }
  return {};
}

std::string key_text(NoiseKeyState state) {
  switch (state) {
    case NoiseKeyState::absent:
      return "At the time of release the key was not in the run directory: shade deletes it when a run has finished. "
             "A copy made before that, or a key that was moved away, cannot be ruled out.";
    case NoiseKeyState::present:
      return "**At the time of release the key was still in the run directory: anyone who reads it can subtract the "
             "noise, and the guarantee does not hold against them.**";
    case NoiseKeyState::kept:
      return "**The run was asked to keep the key, and the key is no longer in the run directory: anyone who has it "
             "can "
             "subtract the noise, and the guarantee does not hold against them.**";
  }
  return {};
}

// Foreign text (names of fields, files and folders) is shown as it is written: it forges neither cells nor markup.
std::string cell(const std::string& words) {
  std::string out;
  for (const char c : visible(words)) {
    if (std::string_view("|*`<[").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string row(const std::vector<std::string>& cells) {
  std::string out = "|";
  for (const auto& words : cells) out += text(" ", cell(words), " |");
  return out + "\n";
}

std::string list(const std::vector<std::string>& items) {
  std::string out;
  for (const auto& item : items) out += text("- ", item, "\n");
  return out;
}

std::string program_text(const PrivacyStatement::Program& program) {
  std::vector<std::string> out;
  for (const auto& [key, word] :
       {std::pair("shade", program.shade), {"commit", program.commit}, {"libtorch", program.libtorch}})
    if (!word.empty()) out.push_back(text(key, " ", word));
  return out.empty() ? "not stated: the run does not record it" : join(out, ", ");
}

std::string base_text(const TrainingFacts::Base& base) {
  if (base.name.empty()) return "none: training started from random weights";
  auto out = base.name;
  if (!base.revision.empty()) out += text(", revision ", base.revision);
  if (base.files.empty()) return out + "; digest not available: its weights were not found at the time of release";
  for (const auto& [name, digest] : base.files) out += text("; ", name, " has SHA-256 ", digest);
  return out + " (as found at the time of release)";
}

// Of every release, with a guarantee or without.
std::string facts_table(const PrivacyStatement& s) {
  const auto& facts = s.facts;
  const auto known = [](const std::string& words) {
    return words.empty() ? "not stated: the run does not record it" : words;
  };
  auto out = text("| | |\n|---|---|\n", row({"released on (UTC)", known(s.released_on)}),
                  row({"training last started on (UTC)", known(facts.started)}), row({"data set", known(facts.data)}));
  for (const auto& [of, number, why] : facts.counts)
    out += row({text(of, " in training"), number ? text(*number) : text("not stated: ", why)});
  out += row({"base model", base_text(facts.base)});
  for (const auto& base : facts.later_bases) out += row({"base model of a later start", base_text(base)});
  out += row({"trained weights",
              facts.settings.contains("lora_rank")
                  ? "LoRA adapters, and the head if the model classifies; all others are the base model's"
                  : "all"}) +
         row({"released weights", text("after step ", facts.checkpoint_step, " of the run")}) +
         row({"trained with (last start)", program_text(s.trained_with)}) +
         row({"released with", program_text(s.released_with)});
  if (!s.ledger_digest.empty())
    out += row({"ledger of the run", text("BLAKE2b-256 ", s.ledger_digest, " (b2sum -l 256)")});
  return out;
}

std::string settings_table(const PrivacyStatement& s) {
  std::string out = "\n## Settings\n\nAs configured at the last start of the run.\n\n| | |\n|---|---|\n";
  for (const auto& [key, value] : s.facts.settings.items()) {
    auto name = key == "seq_length" ? std::string("sequence length") : key;
    std::replace(name.begin(), name.end(), '_', ' ');
    if (key == "batch_size" && s.spent) name = "expected batch size";
    if (key == "eval_rate") name = "share held out for evaluation";
    if (key == "eps") name = "eps of the optimizer";  // not the epsilon of privacy
    std::vector<std::string> words;
    if (value.is_array())
      for (const auto& item : value) words.push_back(item.get<std::string>());
    else
      words.push_back(value.is_string() ? value.get<std::string>() : value.dump());
    out += row({name, join(words, ", ")});
  }
  return out;
}

// Lines that sha256sum -c reads.
std::string files_text(const PrivacyStatement& s) {
  std::string lines;
  for (const auto& [name, digest] : s.files)
    if (name != kStatementText) lines += text(digest, "  ", name, "\n");
  return text(
      "\n## Files\n\nThis statement is about these files (SHA-256). `shade release --check FOLDER` compares them, "
      "and so does `grep -E '^[0-9a-f]{64}  ' ",
      kStatementText, " | sha256sum -c` in the folder. The digest of ", kStatementText, " is in ", kStatementJson,
      ", which states the same for programs. ", kStatementJson,
      " cannot contain its own digest, and none of this is a signature: compare its SHA-256 with one that the "
      "publisher states elsewhere.\n\n```\n",
      lines, "```\n");
}

std::string promise_text(const PrivacyStatement& s) {
  return text(s.is_shared() ? text("The ", s.data_ledger->runs,
                                   " runs so far that share the data ledger of this data set, this one among them, are "
                                   "differentially private together: ")
                            : "This model was trained with differential privacy: ",
              "**", headline_text(s), "**. This holds for each ", cell(unit_text(s)),
              s.key == NoiseKeyState::absent ? "."
                                             : ", but **not against anyone who has the key of the noise**, which "
                                               "was not deleted.");
}

std::string odds_text(const PrivacyStatement& s) {
  const auto [epsilon, delta] = headline(s);
  const auto number = s.is_shared() ? plain_digits(epsilon) : rounded_up(epsilon);
  const double factor = std::exp(std::stod(number));
  const auto about = std::isfinite(factor) ? text(" (about ", significant(factor), ")") : "";
  return text("What this means: suppose that someone receives this model",
              s.is_shared() ? " and all other models of these runs" : "",
              ", knows everything else about the training data, and wants to find out whether one ", whole_unit(s.unit),
              " was in it. Whatever they conclude, the probability of that conclusion with and without this ",
              to_string(s.unit), " in the data differs by at most a factor of e^", number, about, ", plus ",
              exact(delta), " (delta). So the odds change at most e^", number, "-fold, apart from delta.");
}

std::string guarantee_table(const PrivacyStatement& s) {
  auto out = text("\n## Guarantee\n\n| | |\n|---|---|\n");
  if (s.is_shared())
    out += row(
        {"epsilon and delta of all runs together", text(cap_text(s.data_ledger->cap), ", the cap of the data ledger")});
  out += row({s.is_shared() ? "epsilon and delta of this run alone" : "epsilon and delta",
              text(epsilon_text(s.spent->epsilon, s.spent->delta), " (upper bound, rounded up)")}) +
         row({"accountant", accountant_text(s.spent->accountant)});
  if (s.data_ledger) {
    const auto& total = *s.data_ledger;
    out +=
        row({"data ledger",
             text(total.runs, total.runs == 1 ? " run" : " runs", " so far. Cap: ", cap_text(total.cap),
                  ", enforced by a Renyi filter (Feldman, Zrnic 2021). It holds whatever the settings of a run were "
                  "chosen by, as long as it was not by results without noise. If all runs were planned ahead: epsilon ",
                  rounded_up(total.planned.epsilon), " by ", to_string(total.planned.accountant),
                  ". BLAKE2b-256 of the file ", total.digest)});
  }
  return out + row({"neighbouring data sets", adjacency(s.unit)}) + row({"unit of privacy", unit_text(s)}) +
         row({"steps that it counts", text(s.step_count(), ", all that the ledger of the run has")});
}

std::string batch_words(const PrivacyStatement& s) {
  const auto unit = to_string(s.unit);
  const bool cut =
      std::any_of(s.steps.begin(), s.steps.end(), [](const Steps& kind) { return kind.mechanism.max_batch > 0; });
  return text(
      "In each step every ", unit,
      " joins the batch independently of all others with probability q (Poisson "
      "sampling).",
      cut ? " A batch above the stated limit is cut to it at random (truncated Poisson sampling)." : "",
      s.unit == PrivacyUnit::user ? " At most K records of a user are used in a step, and give one gradient." : "");
}

// Why one unit moves the sum by at most C.
std::string sum_text(const PrivacyStatement& s) {
  const auto unit = to_string(s.unit);
  const auto exact = std::count_if(s.steps.begin(), s.steps.end(), [](const Steps& kind) { return kind.exact_sum; });
  std::string out;
  if (exact > 0)
    out +=
        text("One ", unit,
             " moves the sum by at most C: its clipped gradient is rounded by itself to multiples of at "
             "most 2^-33 C and added without rounding, and clipping leaves 1e-9 + 2^-33 sqrt(P) of C unused for it, P "
             "the number of trained weights. What rounding can do to a gradient before that is part of its norm, by "
             "the standard model of floating-point sums. This assumes that the gradient of a ",
             unit,
             " has the same bits whatever the others in its batch are and wherever it is in it. Shapes are fixed for "
             "that; in tests on one processor it held to the bit, in bf16 and fp32. This is not proven. On GPUs, norms "
             "by Gram matrices rest on an estimate.\n\n");
  if (exact < std::ssize(s.steps))
    out += text("Some steps were made by an earlier version of shade, whose sums were rounded: that one ", unit,
                " moves them by at most C was measured, not derived, and there are records for which it does not "
                "hold.\n\n");
  return out;
}

// What finite precision does to the noise.
std::string noise_text(const PrivacyStatement& s) {
  const auto ideal = std::count_if(s.steps.begin(), s.steps.end(), [](const Steps& kind) { return kind.ideal_noise; });
  std::string out;
  if (ideal > 0)
    out +=
        "The finite precision of the noise and of the sampling takes nothing from epsilon and delta: each released "
        "number is the exact sum of an element and an ideal Gaussian number, rounded to a public grid, and Poisson "
        "sampling draws with exactly the probability that is accounted (a theorem: docs/noise.md of shade). It takes "
        "the bits of ChaCha20 and BLAKE2b as uniform. The error of the accountant's own arithmetic is separate, and "
        "is on the side of a larger epsilon.\n\n";
  if (ideal < std::ssize(s.steps))
    out +=
        "Some steps were made by an earlier version of shade, whose noise was Gaussian to about 2^-42 of its "
        "deviation; for them there is no such theorem.\n\n";
  return out;
}

std::string mechanism_text(const PrivacyStatement& s) {
  const auto unit = to_string(s.unit), optimizer = optimizer_name(s.optimizer);
  const bool plain = s.optimizer == optim::Algorithm::sgd;
  const bool adaptive = std::any_of(s.steps.begin(), s.steps.end(),
                                    [](const Steps& kind) { return kind.clip_style == privacy::ClipStyle::adaptive; });
  auto out = text(
      "\n## Mechanism\n\n", batch_words(s), " The gradient of each ", unit,
      " is clipped: scaled so that its norm is at most C. The clipped gradients are summed, and Gaussian noise "
      "with standard deviation sigma x C is added to every element of the sum (the Gaussian mechanism). Only "
      "this noisy sum, divided by a public constant (the divisor), reaches the optimizer. ",
      adaptive ? "Where clipping is adaptive, the number of gradients with a norm of at most C is released too, with "
                 "Gaussian noise, and moves C; the noise of the sum is then larger than sigma x C, by so much that "
                 "both releases together cost what one with sigma would. "
               : "",
      "This is DP-SGD (Abadi et al. 2016)",
      plain ? "" : text(" with ", optimizer, " as its optimizer (DP-", optimizer, ")"), ".\n\n", sum_text(s),
      "The noise comes from ChaCha20, a cryptographic random number generator, with a secret key of 256 bits "
      "that the operating system generated. ",
      key_text(s.key), "\n\n", noise_text(s));
  const bool users = s.unit == PrivacyUnit::user;
  std::vector<std::string> head{"steps", "sampling rate q", "sigma", "clip norm C", "clipping", "divisor"};
  if (users) head.emplace_back("K");
  out += row(head) + row(std::vector<std::string>(head.size(), "---"));
  for (const auto& kind : s.steps) {
    const auto& m = kind.mechanism;
    auto cells = std::vector<std::string>{
        text(kind.count),
        text(exact(m.sample_rate), " (", to_string(m.sampler),
             m.max_batch > 0 ? text(", at most ", m.max_batch, " of at most ", m.population) : "", ")"),
        exact(m.noise_multiplier),
        exact(kind.clip_norm),
        style_text(kind.clip_style),
        exact(kind.divisor)};
    if (users) cells.push_back(text(kind.max_records));
    out += row(cells);
  }
  return out;
}

}  // namespace

std::string model_card(const PrivacyStatement& s, const ReleasedModel& model) {
  using Kind = ReleasedModel::Kind;
  const bool classifier = model.kind == Kind::classifier;
  const auto* const task = classifier ? "text-classification" : "text-generation";
  std::string out = "---\n";
  if (model.kind != Kind::other)
    out += text("library_name: ", model.adapter ? "peft" : "transformers", "\npipeline_tag: ", task, "\n");
  const auto& base = s.facts.base;
  if (!base.revision.empty()) out += text("base_model: ", Json(base.name).dump(), "\n");  // the name of a hub
  out += text("tags:\n- shade\n", s.no_guarantee.empty() ? "- differential-privacy\n- dp-sgd\n" : "", "---\n\n# ",
              model.adapter ? "LoRA adapters" : "A model", s.facts.data.empty() ? "" : " trained on ",
              cell(s.facts.data), "\n\n");
  if (s.no_guarantee.empty()) {
    out +=
        text(promise_text(s), " [", kStatementText, "](", kStatementText,
             ") says what that means, what it assumes and what it does not cover.\n\n| privacy | |\n|---|---|\n",
             row({"epsilon and delta", headline_text(s)}), row({"unit", unit_text(s)}),
             row({"neighbouring data sets", adjacency(s.unit)}), row({"accountant", to_string(s.spent->accountant)}));
    for (const auto& kind : s.steps) out += row({"mechanism", text("DP-SGD, ", steps_text(kind))});
  } else {
    out += text("**There is NO privacy guarantee for this model: ", s.no_guarantee, "** ([", kStatementText, "](",
                kStatementText, ")).\n");
  }
  out += text("\n| training | |\n|---|---|\n", row({"base model", base_text(base)}),
              row({"released on (UTC)", s.released_on.empty() ? "not stated" : s.released_on}),
              row({"trained with", program_text(s.trained_with)}));
  if (s.spent)
    out += "\nScores and losses are not stated: they would be computed from the training records without noise.\n";
  if (model.kind == Kind::other) return out;
  out += "\n## How to load\n\nFOLDER is this folder, or its name on a hub.\n\n```python\n";
  const auto* const kind = classifier ? "AutoModelForSequenceClassification" : "AutoModelForCausalLM";
  if (model.adapter)
    out += text("from peft import PeftModel\nfrom transformers import ", kind, "\n\nmodel = PeftModel.from_pretrained(",
                kind, ".from_pretrained(", base.revision.empty() ? "\"BASE_MODEL\"" : Json(base.name).dump(),
                "), \"FOLDER\")\n```\n");
  else
    out += text("from transformers import pipeline\n\npipeline(\"", task, "\", \"FOLDER\")(\"...\")\n```\n");
  return out;
}

std::string plain_digits(double value) {
  const auto out = exact(value);
  return out.ends_with(".0") ? out.substr(0, out.size() - 2) : out;
}

std::vector<std::string> short_lines(const PrivacyStatement& s) {
  if (!s.no_guarantee.empty()) return {text("privacy  no guarantee: ", s.no_guarantee)};
  const auto neighbours = text("; neighbouring data sets: ", adjacency(s.unit));
  std::vector<std::string> out;
  const auto more = [&](const auto&... words) { out.push_back(text("         ", words...)); };
  if (s.is_shared()) {
    out.push_back(text("privacy  ", headline_text(s), " for the ", s.data_ledger->runs,
                       " runs so far that share the data ledger, together", neighbours));
    more("this run alone: ", own_text(s));
  } else {
    out.push_back(text("privacy  ", own_text(s), neighbours));
  }
  if (!s.unit_by.empty()) more("unit: ", unit_text(s));
  if (s.key != NoiseKeyState::absent)
    more("the key of the noise was not deleted: this does not hold against anyone who has it");
  for (const auto& kind : s.steps) more(steps_text(kind));
  more("ledger ", s.ledger_digest);
  more("PRIVACY.md (shade release) states what is taken as public and what is not covered");
  return out;
}

std::string markdown(const PrivacyStatement& s) {
  auto out = std::string("# Privacy statement\n\n");
  if (!s.no_guarantee.empty())
    return out + text("**There is NO privacy guarantee for this model: ", s.no_guarantee,
                      ".** Assume that records it was trained on can be recovered from it.\n\n", facts_table(s),
                      settings_table(s), files_text(s));
  return out + text(promise_text(s), "\n\n", odds_text(s), "\n\n", facts_table(s), guarantee_table(s),
                    mechanism_text(s), settings_table(s), "\n## Taken as public\n\n", list(s.taken_as_public),
                    "\n## Not covered\n\n", list(s.not_covered), files_text(s));
}

}  // namespace shade::train
