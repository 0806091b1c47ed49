#include "shade/base/synonyms.h"

#include <algorithm>
#include <cctype>

#include "shade/base/strings.h"

namespace shade {
namespace {

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

}  // namespace

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

}  // namespace shade
