#include "shade/base/strings.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <numeric>
#include <span>
#include <string>
#include <string_view>

#include "shade/base/error.h"

namespace shade {
namespace {

// Words that other programs use for something that has another name here. They are not accepted: an error about an
// unknown name suggests ours.

struct Synonym {
  std::string_view ours;
  std::string_view words;      // separated by blanks, in lower case, without dashes and underscores
  std::string_view note = {};  // stands before the suggestion
};

constexpr std::string_view kNoHalf = "fp16 is not supported; the 16-bit type is bf16";

constexpr Synonym kSynonyms[] = {
    // verbs
    {"train", "finetune finetuning tune sft lora fit run pretrain training trainer learn resume continue start"},
    {"eval", "evaluate evaluation test score predict classify validate metrics"},
    {"generate", "infer inference sample chat complete prompt serve generation"},
    {"bench", "benchmark measure speed throughput profile time"},
    {"plan", "estimate memory dryrun advise"},
    {"account", "epsilon accountant accounting budget sigma noise privacy"},
    {"report", "plot visualize visualise show summary dashboard tensorboard view"},
    {"doctor", "check diagnose selftest info env status"},
    {"release", "publish export push upload"},
    {"data", "dataset inspect prepare preprocess tokenize download"},
    {"audit", "attack mia"},
    {"launch", "torchrun accelerate mpirun"},
    // values of options
    {"bf16", "fp16 float16 half f16 16 mixed amp", kNoHalf},
    {"bf16", "bfloat16 bfloat"},
    {"fp32", "float32 float f32 single full 32"},
    {"zero3", "zero fsdp2 full deepspeed"},
    {"ddp", "dp dataparallel distributed zero0"},
    {"zero2", "zero1"},
    {"auto", "true yes on dpsgd opacus 1 gaussian"},
    {"none", "false no off 0 disabled nonprivate"},
    {"lm", "causallm textgeneration clm causal language sft generation completion"},
    {"classify", "classification sequenceclassification textclassification classifier seqcls cls"},
    {"user", "patient person customer client individual author subject people"},
    {"record", "example sample row document text"},
    {"gloo", "cpu"},
    {"nccl", "gpu cuda"},
    {"adamw", "adam adamwtorch"},
};

std::string plain(std::string_view word) {
  std::string out;
  for (const char c : word)
    if (c != '-' && c != '_' && c != ' ') out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// "; did you mean 'train'?" for "finetune" if 'train' is a candidate, or what to know about it; else empty. Case and
// dashes don't matter.
std::string synonym(std::string_view word, std::span<const std::string> candidates) {
  const auto wanted = plain(word);
  for (const auto& [ours, words, note] : kSynonyms) {
    if (std::find(candidates.begin(), candidates.end(), ours) == candidates.end()) continue;
    const auto all = split(words, ' ');
    if (std::find(all.begin(), all.end(), wanted) == all.end()) continue;
    return note.empty() ? text("; did you mean '", ours, "'?") : text("; ", note);
  }
  return {};
}

// Damerau-Levenshtein distance with adjacent swaps, the typo people make most.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

template <class Number>
std::optional<Number> parse_number(std::string_view word) {
  Number value{};
  const auto [end, fault] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (fault != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

}  // namespace

std::vector<std::string> split(std::string_view words, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const auto at = words.find(separator);
    parts.emplace_back(words.substr(0, at));
    if (at == std::string_view::npos) return parts;
    words.remove_prefix(at + 1);
  }
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string joined;
  for (const auto& part : parts) {
    if (!joined.empty()) joined += separator;
    joined += part;
  }
  return joined;
}

std::string_view trim(std::string_view word) {
  const auto begin = word.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return word.substr(begin, word.find_last_not_of(" \t\r\n") - begin + 1);
}

std::string dashed(std::string_view option) {
  std::string out(option);
  if (out.starts_with("--"))
    std::replace(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(std::min(out.find('='), out.size())), '_', '-');
  return out;
}

std::optional<int64_t> parse_integer(std::string_view word) { return parse_number<int64_t>(word); }
std::optional<double> parse_real(std::string_view word) { return parse_number<double>(word); }

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates) {
  const std::string* best = nullptr;
  // Dashes of an option say nothing about the word, and of three letters two are another word: --gpu is not --eps.
  const auto letters = word.size() - std::min(word.find_first_not_of('-'), word.size());
  size_t best_distance = (letters <= 3 ? 1 : std::max<size_t>(2, letters / 3)) + 1;
  for (const auto& candidate : candidates) {
    const auto distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = &candidate;
    }
  }
  if (best != nullptr) return *best;
  // The beginning of a name: --batch of --batch-size, the shortest of several.
  for (const auto& candidate : candidates)
    if (letters > 3 && candidate.starts_with(word) && candidate.find('.', word.size()) == std::string::npos &&
        (best == nullptr || candidate.size() < best->size()))
      best = &candidate;
  return best == nullptr ? std::nullopt : std::optional(*best);
}

std::string suggestion(std::string_view word, std::span<const std::string> candidates) {
  if (auto known = synonym(word, candidates); !known.empty()) return known;
  const auto near = nearest(word, candidates);
  return near ? text("; did you mean '", *near, "'?") : "";
}

std::string ranges(std::span<const int> numbers) {
  std::string out;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (last - i == 1) last = i;  // "3, 4" reads better than "3-4"
    if (!out.empty()) out += ", ";
    out += std::to_string(numbers[i]);
    if (last > i) out += text("-", numbers[last]);
    i = last + 1;
  }
  return out;
}

}  // namespace shade
