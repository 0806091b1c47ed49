#include "shade/cli/foreign_words.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>

#include "shade/base/config.h"
#include "shade/base/error.h"
#include "shade/base/log.h"
#include "shade/base/strings.h"
#include "shade/measure/matrix.h"

namespace shade::cli {
namespace {

using Words = std::vector<std::string>;

constexpr std::string_view kAny = "*", kToken = "--token";
constexpr std::string_view kEpochs =
    "training is counted in updates: --steps N; an epoch has as many as records over the global batch size";
constexpr std::string_view kGpus =
    "each rank computes on one GPU: --device cuda --ranks N uses N of them, and CUDA_VISIBLE_DEVICES selects which";
constexpr std::string_view kOnRanks = "train bench verify audit comm";
constexpr std::string_view kTrackers =
    "nothing is sent to a service: shade train writes metrics.jsonl and TensorBoard's events to the run directory "
    "(--output), and shade report RUN draws them";
constexpr std::string_view kPrivate =
    "a private run has --dp auto, its budget --target-epsilon E --delta D, and for users --privacy-unit user";
constexpr std::string_view kPlanUnit =
    "what epsilon protects is chosen in shade train and shade account; in a plan with a budget, --records is the "
    "number "
    "of what batches are drawn from: of users, if they are protected";
constexpr std::string_view kNoBudget =
    "a measured or checked step has no budget; set its noise (--sigma), or see shade train and shade account";

constexpr ForeignWord kForeignWords[] = {
    // the documents
    {.word = "--output", .value = kAny, .becomes = "--json"},
    {.word = "--use-fsdp", .becomes = "--shard zero3"},
    {.word = "--use-flash", .becomes = "--dp flash"},
    {.word = "--cpu", .becomes = "--comm.backend gloo"},
    // PyTorch, transformers, torchtitan
    {.word = "--device", .value = "cpu", .becomes = "--comm.backend gloo"},
    {.word = "--device", .value = "cuda", .becomes = "--comm.backend nccl"},
    {.word = "--device", .value = "auto", .becomes = "--comm.backend auto"},
    {.word = "--device",
     .value = kAny,
     .refusal = "expected cpu, cuda or auto; a rank computes on the GPU of its local rank"},
    {.word = "--cuda", .becomes = "--comm.backend nccl"},
    {.word = "--gpu", .value = kAny, .refusal = kGpus, .verbs = kOnRanks},
    {.word = "--gpus", .value = kAny, .refusal = kGpus, .verbs = kOnRanks},
    {.word = "--num-gpus", .value = kAny, .refusal = kGpus, .verbs = kOnRanks},
    {.word = "--n-gpus", .value = kAny, .refusal = kGpus, .verbs = kOnRanks},
    {.word = "--world-size", .value = kAny, .refusal = "--ranks N starts N ranks on this host", .verbs = kOnRanks},
    {.word = "--bf16", .becomes = "--dtype bf16"},
    {.word = "--fp16", .refusal = "half precision is --dtype bf16"},
    {.word = "--gradient-checkpointing", .becomes = "--checkpointing block"},
    {.word = "--epochs", .value = kAny, .refusal = kEpochs},
    {.word = "--num-epochs", .value = kAny, .refusal = kEpochs},
    {.word = "--num-train-epochs", .value = kAny, .refusal = kEpochs},
    {.word = "--resume",
     .value = kAny,
     .refusal = "the same command continues the run in its directory (--output); --resume-from CHECKPOINT goes back to "
                "one"},
    {.word = "--report-to", .value = "tensorboard", .verbs = "train"},
    {.word = "--report-to", .value = kAny, .refusal = kTrackers},
    {.word = "--wandb", .value = kAny, .refusal = kTrackers},
    {.word = "--use-wandb", .value = kAny, .refusal = kTrackers},
    {.word = "--wandb-project", .value = kAny, .refusal = kTrackers},
    {.word = "--mlflow", .value = kAny, .refusal = kTrackers},
    {.word = "--tensorboard", .value = kAny, .refusal = kTrackers, .verbs = "train"},
    {.word = "--lora-dropout", .value = kAny, .refusal = "adapters have no dropout; drop it", .verbs = "train bench"},
    {.word = "--warmup-ratio",
     .value = kAny,
     .refusal = "the warm-up is counted in updates: --warmup-steps N",
     .verbs = "train bench"},
    {.word = "--config", .value = kAny, .refusal = "a recipe is an argument: shade train FILE.toml", .verbs = "train"},
    {.word = "--eval-folder",
     .value = kAny,
     .refusal = "records to evaluate on are --test-folder FOLDER, or a share of the data folder: --eval-rate 0.05",
     .verbs = "train"},
    {.word = "--use-lora",
     .value = kAny,
     .refusal = "adapters are asked for by their rank: --lora-rank 8",
     .verbs = "train bench"},
    {.word = "--per-device-train-batch-size",
     .value = kAny,
     .refusal = "the batch of all ranks is --global-batch-size, and a rank computes --micro-batch samples at a time",
     .verbs = "train"},
    {.word = "--per-device-train-batch-size", .value = kAny, .becomes = "--batch-size", .verbs = "bench"},
    {.word = "--max-steps", .value = kAny, .becomes = "--steps"},
    {.word = "--max-seq-length", .value = kAny, .becomes = "--seq-length"},
    {.word = "--lr-scheduler-type", .value = kAny, .becomes = "--schedule"},
    {.word = "--logging-steps", .value = kAny, .becomes = "--log-every"},
    {.word = "--save-steps", .value = kAny, .becomes = "--save-every"},
    {.word = "--eval-steps", .value = kAny, .becomes = "--eval-every"},
    {.word = "--save-total-limit", .value = kAny, .becomes = "--keep"},
    {.word = "--target-modules", .value = kAny, .becomes = "--lora-targets"},
    {.word = "--dataset",
     .value = kAny,
     .refusal = "data are files: --data-folder FOLDER; nothing is downloaded",
     .verbs = "train bench data eval"},
    // TRL
    {.word = "--completion-only-loss", .becomes = "--loss-on completion"},
    {.word = "--assistant-only-loss", .becomes = "--loss-on completion"},
    // Opacus
    {.word = "--max-physical-batch-size", .value = kAny, .becomes = "--batch-size", .verbs = "bench"},
    {.word = "--private", .value = kAny, .refusal = kPrivate, .verbs = "train"},
    {.word = "--privacy", .value = kAny, .refusal = kPrivate, .verbs = "train"},
    {.word = "--differential-privacy", .value = kAny, .refusal = kPrivate, .verbs = "train"},
    {.word = "--noise", .value = kAny, .refusal = "the noise multiplier is --sigma", .verbs = "train bench account"},
    // ours, in another verb
    {.word = "--privacy-unit", .value = kAny, .refusal = kPlanUnit, .verbs = "bench"},
    {.word = "--from-scratch", .value = kAny, .refusal = "weights are random here; drop it", .verbs = "bench"},
    {.word = "--global-batch-size",
     .value = kAny,
     .refusal = "the batch is per rank here: --batch-size; that of all ranks is for shade train",
     .verbs = "bench"},
    {.word = "--target-epsilon", .value = kAny, .refusal = kNoBudget, .verbs = "bench verify audit"},
    {.word = "--epsilon", .value = kAny, .refusal = kNoBudget, .verbs = "bench verify audit"},
};

Words split_line(std::string_view line) { return line.empty() ? Words() : split(line, ' '); }

// An option of the verb's own is no foreign word, and a row that leads to none has no meaning.
bool applies(const ForeignWord& row, const OwnOptions& own) {
  const auto verbs = split_line(row.verbs);
  if (own.find(std::string(row.word)) != nullptr) return false;
  if (!verbs.empty() && std::find(verbs.begin(), verbs.end(), own.verb) == verbs.end()) return false;
  return row.becomes.empty() || own.find(split_line(row.becomes).front()) != nullptr;
}

std::vector<const ForeignWord*> rows_of(std::string_view word, const OwnOptions& own) {
  std::vector<const ForeignWord*> out;
  for (const auto& row : kForeignWords)
    if (row.word == word && applies(row, own)) out.push_back(&row);
  return out;
}

// The row for this value. A switch takes a value only if it is one.
const ForeignWord& chosen(const std::vector<const ForeignWord*>& rows, Given& given) {
  if (rows.front()->value.empty()) {
    if (!given.joined && given.value && !parse_switch(*given.value)) given.value.reset();
    return *rows.front();
  }
  for (const auto* row : rows)
    if (row->value == kAny || given.value == row->value) return *row;
  throw UsageError(text(given.option, " ", given.value.value_or(""), ": expected ", rows.front()->value));
}

// An option that takes other values is there: only this value is refused.
Words translated(const ForeignWord& row, const Given& given, bool other_values) {
  if (!row.refusal.empty() && other_values)
    throw UsageError(text(row.word, " ", given.value.value_or(""), ": ", row.refusal));
  if (!row.refusal.empty()) throw UsageError(text("there is no ", row.word, " here: ", row.refusal));
  if (row.value.empty() && given.value) {
    const auto on = parse_switch(*given.value);
    SHADE_REQUIRE(on, row.word, ": '", *given.value, "' is not a switch; expected true or false");
    SHADE_REQUIRE(*on, row.word, " false has no meaning here; name what you want instead of ", row.becomes);
  }
  auto words = split_line(row.becomes);
  if (words.size() != 1) return words;
  SHADE_REQUIRE(given.value && !given.value->empty(), row.word, " (", row.becomes, ") has no value");
  words.push_back(*given.value);
  return words;
}

}  // namespace

Given given_at(const Words& arguments, size_t i) {
  const auto equals = arguments[i].find('=');
  if (equals != std::string::npos)
    return {.option = arguments[i].substr(0, equals), .value = arguments[i].substr(equals + 1), .joined = true};
  const bool more = i + 1 < arguments.size() && !arguments[i + 1].starts_with("--");
  return {.option = arguments[i], .value = more ? std::optional(arguments[i + 1]) : std::nullopt};
}

Words in_own_words(const Words& arguments, const OwnOptions& own) {
  Words out;
  std::map<const void*, std::pair<std::string, Words>> set_by;  // by option: the foreign word, and what it became
  std::map<const void*, std::string> named;
  for (size_t i = 0; i < arguments.size(); ++i) {
    auto given = given_at(arguments, i);
    const auto rows = rows_of(given.option, own);
    if (rows.empty()) {
      if (const auto* option = given.option.starts_with("--") ? own.find(given.option) : nullptr)
        named.emplace(option, given.option);
      out.push_back(arguments[i]);
      continue;
    }
    const auto words = translated(chosen(rows, given), given, rows.size() > 1);
    if (given.value && !given.joined) ++i;
    if (words.empty()) continue;
    const auto [earlier, first] = set_by.emplace(own.find(words.front()), std::pair(given.option, words));
    SHADE_REQUIRE(first || earlier->second.second == words, given.option, " (", join(words, " "), ") contradicts ",
                  earlier->second.first, " (", join(earlier->second.second, " "), "); drop one of them");
    out.insert(out.end(), words.begin(), words.end());
  }
  for (const auto& [option, foreign] : set_by)
    SHADE_REQUIRE(!named.contains(option), foreign.first, " means ", join(foreign.second, " "), ", and ", named[option],
                  " is given too; drop one of them");
  return out;
}

std::vector<std::pair<std::string, std::string>> foreign_words(const OwnOptions& own) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& row : kForeignWords)
    if (applies(row, own) && !row.becomes.empty())
      out.emplace_back(row.value.empty()
                           ? std::string(row.word)
                           : text(row.word, " ", row.value == kAny ? std::string_view("VALUE") : row.value),
                       row.becomes);
  return out;
}

std::string foreign_words_help(const OwnOptions& own) {
  std::string out;
  for (const auto& [word, becomes] : foreign_words(own))
    out += text("  ", word, std::string(word.size() < 34 ? 34 - word.size() : 1, ' '), becomes, "\n");
  return out.empty() ? "" : "Aliases:\n" + out;
}

Words without_token(const Words& arguments) {
  Words out;
  bool found = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--") {
      out.insert(out.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i), arguments.end());
      break;
    }
    const auto given = given_at(arguments, i);
    if (given.option != kToken) {
      out.push_back(arguments[i]);
      continue;
    }
    found = true;
    if (given.value && !given.joined) ++i;
  }
  if (found)
    log::warning(
        "--token is not used: nothing is downloaded here, and a command line is visible to every user of this host. "
        "Get "
        "gated models with `hf download MODEL`, which takes the token from HF_TOKEN or from the file that `hf auth "
        "login` writes; --model MODEL then finds the copy in the Hugging Face cache");
  return out;
}

void hide_token(char** begin, char** end) {
  for (auto** word = begin; word != end; ++word) {
    const std::string_view text(*word);
    if (text == kToken && word + 1 != end) std::memset(word[1], '*', std::strlen(word[1]));
    if (text.starts_with("--token=")) std::memset(*word + kToken.size() + 1, '*', text.size() - kToken.size() - 1);
  }
}

namespace {

enum class Of { any, text, linear };  // models that a row is about

struct Implied {
  std::string_view given;   // as it is spelled; empty: always
  std::string_view option;  // that follows, unless it is given
  std::string_view value;
  Of models = Of::any;
};

constexpr Implied kImplied[] = {
    {.given = "--image-size", .option = "--model", .value = "dit-l"},
    {.given = "--patch-size", .option = "--model", .value = "dit-l"},
    {.given = "--experiment", .option = "--model", .value = "dit-l"},
    {.given = "--data-parallel", .option = "--model", .value = "linear"},
    {.given = "", .option = "--batch-size", .value = "8192", .models = Of::linear},
    {.given = "--mode", .option = "--task", .value = "classify", .models = Of::text},
    {.given = "--mode", .option = "--lr", .value = "1e-5", .models = Of::text},
};

// A folder may hold any model: nothing follows from its name.
bool is_about(const Implied& row, const std::string& model) {
  if (row.models == Of::linear) return model == "linear";
  if (row.models == Of::any) return true;
  for (const auto* other : {"dit", "DiT", "linear"})
    if (model.starts_with(other)) return false;
  return !std::filesystem::exists(model);
}

}  // namespace

ImpliedWords with_implied(std::vector<std::string> arguments) {
  std::map<std::string, std::string> given;  // by the usual spelling, and as they are spelled
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].starts_with("--")) continue;
    const auto word = given_at(arguments, i);
    given[word.option] = given[measure::usual_spelling(word.option)] = word.value.value_or("");
  }
  ImpliedWords out{.arguments = std::move(arguments), .notes = {}};
  if (given.contains("--config") || given.contains("--model-folder")) return out;
  for (const auto& [word, option, value, models] : kImplied) {
    const std::string name(option);
    if ((!word.empty() && !given.contains(std::string(word))) || given.contains(name)) continue;
    if (!is_about({.given = word, .option = option, .value = value, .models = models}, given["--model"])) continue;
    out.arguments.insert(out.arguments.end(), {name, std::string(value)});
    given[name] = value;
    out.notes.push_back(word.empty() ? text(name, " ", value, ", the usual one of --model linear")
                                     : text(name, " ", value, ": ", word, " was given, and ", name, " was not"));
  }
  return out;
}

}  // namespace shade::cli
