#include "shade/catalog/remedies.h"

#include <algorithm>

#include "shade/base/error.h"
#include "shade/catalog/methods.h"
#include "shade/catalog/strategies.h"

namespace shade::catalog {
namespace {

// As words; empty: unknown.
class Run {
 public:
  explicit Run(const Settings& settings) : settings_(settings) {}

  std::string of(const char* key) const {
    const auto found = settings_.find(key);
    return found == settings_.end() ? "" : found->second;
  }
  bool is(const char* key, std::initializer_list<std::string_view> words) const {
    return std::find(words.begin(), words.end(), of(key)) != words.end();
  }
  bool is_zero(const char* key) const { return of(key).empty() || of(key) == "0" || of(key).starts_with("0 "); }
  bool sharded() const {
    const auto* row = find_row<StrategyInfo>(kStrategies, of("shard"));
    return row != nullptr && row->sharded;
  }
  bool can_shard() const { return !sharded() && of("ranks") != "1"; }
  MethodName method() const {
    const auto* row = find_row<MethodInfo>(kMethods, of("dp"));
    return row == nullptr ? MethodName::none : row->value;
  }
  bool method_is(std::initializer_list<MethodName> methods) const {
    return std::find(methods.begin(), methods.end(), method()) != methods.end();
  }

 private:
  const Settings& settings_;
};

// In the order in which they are suggested.
struct Remedy {
  const char* words;
  const char* why;  // for what, or at which price; of less time alone
  std::vector<MemoryKind> memory;
  std::vector<SpanName> time;
  bool (*left)(const Run& run);  // it is not in use
  enum class Growth { any, square, not_square } growth = Growth::any;
};

bool always(const Run&) { return true; }

const std::vector<SpanName> kBackwards{SpanName::backward, SpanName::first_backward, SpanName::second_backward};
const std::vector<SpanName> kComputing{SpanName::forward, SpanName::backward, SpanName::first_backward,
                                       SpanName::second_backward};
const std::vector<SpanName> kWaits{SpanName::gather_wait, SpanName::reduce_wait, SpanName::comm_wait};

const std::vector<Remedy>& remedies() {
  using enum MemoryKind;
  using M = MethodName;
  using G = Remedy::Growth;
  static const std::vector<Remedy> kRows{
      // Memory.
      {"--shard zero3", "", {parameters, gradients, optimizer}, {}, [](const Run& r) { return r.can_shard(); }},
      {"--shard zero3",
       "",
       {gathered},
       {},
       [](const Run& r) { return r.of("ranks") != "1" && !r.is("shard", {"zero3"}); }},
      {"--offload", "", {parameters, gradients, optimizer}, {}, [](const Run& r) { return r.of("offload") != "true"; }},
      {"more ranks", "", {parameters, gradients, optimizer}, {}, [](const Run& r) { return r.sharded(); }},
      {"--wrap module", "", {gathered}, {}, [](const Run& r) { return !r.is("wrap", {"module"}); }},
      {"--backward-prefetch none --forward-prefetch false",
       "",
       {gathered},
       {},
       [](const Run& r) { return !r.is("backward_prefetch", {"none"}); }},
      {"--in-flight 0",
       "",
       {gradients, communication},
       {},
       [](const Run& r) { return r.sharded() && !r.is_zero("in_flight"); }},
      {"--optim.state-dtype bf16", "", {optimizer}, {}, [](const Run& r) { return !r.is("state_dtype", {"bf16"}); }},
      {"--lora-rank 16", "", {gradients, optimizer}, {}, [](const Run& r) { return r.is_zero("lora_rank"); }},
      {"--checkpointing block", "", {activations}, {}, [](const Run& r) { return !r.is("checkpointing", {"block"}); }},
      {"--dp flash",
       "",
       {kept},
       {},
       [](const Run& r) { return r.method_is({M::bookkeeping, M::flash_bookkeeping, M::automatic}); }},
      // Both.
      {"--norm-algorithm input_length",
       "norms without Gram matrices, linear in T",
       {gram},
       {SpanName::norm},
       [](const Run& r) {
         return !r.is("norm_algorithm", {"input_length", "instantiate"}) &&
                !r.method_is({M::flash, M::flash_bookkeeping});
       },
       G::square},
      {"--dp auto",
       "the cheaper of a norm and a sample's gradient, layer by layer",
       {norms},
       {SpanName::norm, SpanName::sample_gradients},
       [](const Run& r) { return !r.method_is({M::automatic, M::none}); }},
      {"--dtype bf16",
       "where the hardware computes faster in it",
       {gathered},
       {SpanName::forward, SpanName::backward, SpanName::first_backward, SpanName::second_backward, SpanName::norm},
       [](const Run& r) { return !r.is("dtype", {"bf16"}); }},
      {"a smaller --tile-size", "", {gram}, {}, always},
      {"a smaller --batch-size with --grad-accum for the same total",
       "",
       {activations, kept, norms, gram, temporary, data},
       {},
       [](const Run& r) { return r.of("batch_size") != "1"; }},
      {"a shorter --seq-length", "", {activations, temporary}, {}, always},
      // Time.
      {"--dp flash_bookkeeping",
       "one backward instead of two, for more memory",
       {},
       {SpanName::first_backward, SpanName::second_backward},
       [](const Run& r) { return r.method_is({M::ghost, M::flash}); }},
      {"--checkpointing none",
       "no forward twice, for more memory",
       {},
       kBackwards,
       [](const Run& r) { return r.is("checkpointing", {"block"}); }},
      {"--attention flash",
       "no matrix of all pairs of tokens",
       {},
       kComputing,
       [](const Run& r) { return r.is("attention", {"standard"}); },
       G::square},
      {"a shorter --seq-length",
       "the squared part is attention, which no clipping method changes",
       {},
       kComputing,
       always,
       G::square},
      {"--shard zero2",
       "parameters gathered once per step, for more memory",
       {},
       {SpanName::gather_wait},
       [](const Run& r) { return r.is("shard", {"zero3", "hsdp"}); }},
      {"--backward-prefetch pre",
       "the next unit is gathered earlier",
       {},
       {SpanName::gather_wait},
       [](const Run& r) { return !r.is("backward_prefetch", {"pre"}); }},
      {"--forward-prefetch",
       "the next unit is gathered earlier",
       {},
       {SpanName::gather_wait},
       [](const Run& r) { return !r.is("forward_prefetch", {"true"}); }},
      {"--reduce-dtype bf16",
       "half of the bytes",
       {},
       {SpanName::reduce_wait},
       [](const Run& r) { return r.method_is({M::none}) && !r.is("reduce_dtype", {"bf16"}); }},
      {"a larger --batch-size or --grad-accum 4",
       "more computing for the same traffic",
       {},
       kWaits,
       [](const Run& r) { return r.is_zero("grad_accum") || r.is("grad_accum", {"1"}); }},
      {"a larger --batch-size or a larger --grad-accum",
       "more computing for the same traffic",
       {},
       kWaits,
       [](const Run& r) { return !r.is_zero("grad_accum") && !r.is("grad_accum", {"1"}); }},
      {"a larger --batch-size",
       "more samples for the same cost",
       {},
       {SpanName::noise, SpanName::optimizer, SpanName::hash, SpanName::reduce, SpanName::other},
       always},
      {"more ranks",
       "fewer samples for each",
       {},
       {SpanName::forward, SpanName::backward, SpanName::first_backward, SpanName::second_backward, SpanName::norm,
        SpanName::sample_gradients, SpanName::second_phase},
       always,
       G::not_square},
  };
  return kRows;
}

template <class T>
bool holds(const std::vector<T>& list, T one) {
  return std::find(list.begin(), list.end(), one) != list.end();
}

}  // namespace

Settings settings_of(const Json& options) {
  Settings out;
  for (const auto& [section, keys] : options.items()) {
    if (!keys.is_object()) continue;
    for (const auto& [key, value] : keys.items())
      if (!value.is_structured()) out[key] = value.is_string() ? value.get<std::string>() : value.dump();
  }
  return out;
}

std::vector<std::string> less_memory(MemoryKind kind, const Settings& run) {
  std::vector<std::string> out;
  for (const auto& remedy : remedies())
    if (holds(remedy.memory, kind) && remedy.left(Run(run))) out.emplace_back(remedy.words);
  return out;
}

std::vector<std::string> less_time(SpanName phase, bool square, const Settings& run) {
  std::vector<std::string> out;
  for (const auto& remedy : remedies()) {
    const bool grows = remedy.growth == Remedy::Growth::any || (remedy.growth == Remedy::Growth::square) == square;
    if (holds(remedy.time, phase) && grows && remedy.left(Run(run)))
      out.push_back(text(remedy.words, ": ", remedy.why));
  }
  return out;
}

}  // namespace shade::catalog
