// What helps against a slow phase: rows, each with when it applies. A row whose option is on already is not named.
#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/measure/scan.h"

namespace shade::measure {
namespace {

std::string setting(const Json& config, const char* section, const char* key) {
  if (!config.contains(section) || !config[section].contains(key)) return "";
  const auto& value = config[section][key];
  return value.is_string() ? value.get<std::string>() : value.dump();
}

bool is_one_of(const std::string& word, std::initializer_list<const char*> words) {
  for (const auto* one : words)
    if (word == one) return true;
  return false;
}

struct Remedy {
  const char* words;
  bool (*helps)(const std::string& phase, bool square);
  bool (*left)(const Json& config);  // there is something to change
};

bool computing(const std::string& phase) { return phase == "forward" || phase.ends_with("backward"); }
bool method_is(const Json& config, std::initializer_list<const char*> words) {
  return is_one_of(setting(config, "dp", "dp"), words);
}

const Remedy kRemedies[] = {
    {"--norm-algorithm input_length: norms without Gram matrices, linear in T",
     [](const std::string& phase, bool square) { return phase == "norms" && square; },
     [](const Json& c) {
       return setting(c, "dp", "norm_algorithm") != "input_length" && !method_is(c, {"flash", "flash_bookkeeping"});
     }},
    {"--dp auto: the cheaper of a norm and a sample's gradient, layer by layer",
     [](const std::string& phase, bool) { return phase == "norms" || phase == "sample_gradients"; },
     [](const Json& c) { return !method_is(c, {"auto", "none"}); }},
    {"--dp flash_bookkeeping: one backward instead of two, for more memory",
     [](const std::string& phase, bool) { return is_one_of(phase, {"first_backward", "second_backward"}); },
     [](const Json& c) { return method_is(c, {"ghost", "flash"}); }},
    {"--checkpointing none: no forward twice, for more memory",
     [](const std::string& phase, bool) { return phase.ends_with("backward"); },
     [](const Json& c) { return setting(c, "model", "checkpointing") == "block"; }},
    {"--attention flash", [](const std::string& phase, bool square) { return computing(phase) && square; },
     [](const Json& c) { return setting(c, "model", "attention") == "standard"; }},
    {"--dtype bf16, where the hardware computes faster in it",
     [](const std::string& phase, bool) { return computing(phase) || phase == "norms"; },
     [](const Json& c) { return setting(c, "model", "dtype") != "bf16"; }},
    {"shorter sequences: the squared part is attention, which no clipping method changes",
     [](const std::string& phase, bool square) { return computing(phase) && square; },
     [](const Json&) { return true; }},
    {"--shard zero2: parameters gathered once per step, for more memory",
     [](const std::string& phase, bool) { return phase == "gather_wait"; },
     [](const Json& c) { return is_one_of(setting(c, "shard", "shard"), {"zero3", "hsdp"}); }},
    {"--backward-prefetch pre", [](const std::string& phase, bool) { return phase == "gather_wait"; },
     [](const Json& c) { return setting(c, "shard", "backward_prefetch") != "pre"; }},
    {"--forward-prefetch", [](const std::string& phase, bool) { return phase == "gather_wait"; },
     [](const Json& c) { return setting(c, "shard", "forward_prefetch") == "false"; }},
    {"--reduce-dtype bf16: half of the bytes", [](const std::string& phase, bool) { return phase == "reduce_wait"; },
     [](const Json& c) { return method_is(c, {"none"}) && setting(c, "shard", "reduce_dtype") != "bf16"; }},
    {"a larger --batch-size or --grad-accum: more computing for the same traffic",
     [](const std::string& phase, bool) { return phase.ends_with("_wait"); }, [](const Json&) { return true; }},
    {"a larger --batch-size: more samples for the same cost",
     [](const std::string& phase, bool) { return is_one_of(phase, {"noise", "optimizer", "hash", "reduce", "other"}); },
     [](const Json&) { return true; }},
    {"more ranks: fewer samples for each",
     [](const std::string& phase, bool square) {
       return !square && (computing(phase) || is_one_of(phase, {"norms", "sample_gradients", "second_phase"}));
     },
     [](const Json&) { return true; }},
};

}  // namespace

std::string remedy_for(const std::string& phase, const Growth& growth, const Json& config) {
  constexpr size_t kMost = 2;
  const bool square = growth.shares[2] > 0.5 || growth.verdict == "faster than O(T^2)";
  std::vector<std::string> out;
  for (const auto& remedy : kRemedies)
    if (out.size() < kMost && remedy.helps(phase, square) && remedy.left(config)) out.emplace_back(remedy.words);
  return out.empty() ? "none known: what helps is on already" : join(out, "; or ");
}

}  // namespace shade::measure
