#include "shade/cli/memory.h"

#include <cmath>

#include "shade/base/error.h"
#include "shade/base/log.h"
#include "shade/base/strings.h"
#include "shade/catalog/remedies.h"
#include "shade/plan/dry_run.h"
#include "shade/plan/step_record.h"
#include "shade/profile/device.h"
#include "shade/profile/host_memory.h"

namespace shade::cli {

std::string out_of_memory_text(std::optional<Bytes> wanted) {
  return text("out of memory: cannot allocate memory", wanted ? text(" for a tensor of ", to_string(*wanted)) : "",
              "; ", catalog::kLessMemory);
}

std::optional<std::string> out_of_memory(const std::string& what) {
  if (what.find("Storage size calculation overflowed") != std::string::npos)
    return "out of memory: a tensor would have more bytes than can be counted; choose a smaller --batch-size, "
           "--seq-length or model";
  if (what.find("allocate memory") == std::string::npos && what.find("out of memory") == std::string::npos)
    return std::nullopt;
  constexpr std::string_view kBefore = "tried to allocate ";
  const auto at = what.find(kBefore);
  if (at == std::string::npos) return out_of_memory_text();
  const auto stated = split(what.substr(at + kBefore.size()), ' ');
  const auto bytes = parse_integer(stated.front());
  // A GPU's allocator states its own unit: its words are kept behind ours.
  if (!bytes || stated.size() < 2 || !stated[1].starts_with("bytes"))
    return text(out_of_memory_text(), " (", what.substr(0, what.find('\n')), ")");
  return out_of_memory_text(Bytes{*bytes});
}

namespace {

constexpr Seconds kPatience{3};

// Sixteen bytes of states for each parameter, and activations as wide as a square matrix of all of them, a hundred
// bytes each: far above what a small model needs.
bool is_tiny(const MemoryQuestion& question) {
  const auto& [spec, bench, work] =
      std::tie(question.experiment.model, question.experiment.bench, question.experiment.work);
  const auto size = models::size_of(spec.model, question.experiment.sizes, spec.options());
  const auto parameters = static_cast<double>(size.parameters);
  const double tokens = static_cast<double>(bench.batch_size) * static_cast<double>(work.seq_length);
  return 16 * (16 * parameters + 100 * tokens * std::sqrt(parameters)) < static_cast<double>(question.limit.count);
}

std::string answer(const MemoryQuestion& question) {
  const auto record = plan::dry_run(question.experiment, {.ranks = question.ranks,
                                                          .accelerator = question.accelerator,
                                                          .capacity = question.limit,
                                                          .patience = kPatience});
  const auto needed = std::max(record.peak.total, record.reserved);
  if (needed <= question.limit) return {};
  const auto remedy = plan::peak_remedy(record, question.experiment.options);
  return text("memory will probably not suffice: by the plan a rank needs ", to_string(needed),
              record.reserved.count > 0 ? " with what its allocator reserves" : " of tensors", ", and has ",
              to_string(question.limit), "; largest part: ", plan::largest_part(record), "; the peak is ",
              record.owner.describe(), remedy.empty() ? "" : text("; ", remedy, " needs less"));
}

}  // namespace

std::string memory_warning(const MemoryQuestion& question) noexcept {
  try {
    if (question.experiment.bench.work != measure::Work::step || is_tiny(question)) return {};
    return answer(question);
  } catch (...) {  // a run that can't be planned may still run
    return {};
  }
}

std::optional<measure::Experiment> experiment_of(const train::Recipe& recipe, int ranks) {
  if (recipe.budget.privacy_unit == privacy::PrivacyUnit::user) return std::nullopt;
  measure::Experiment out;
  static_cast<train::RunSpec&>(out) = recipe;
  const auto of_rank = (recipe.work.batch_size + ranks - 1) / ranks;
  out.bench.batch_size = std::min(parse_integer(recipe.work.micro_batch).value_or(1), of_rank);
  out.bench.grad_accum = out.bench.batch_size < of_rank ? 2 : 1;
  if (out.dp.is_private() && out.dp.sigma <= 0) out.dp.sigma = 1;  // computed from epsilon, later; it changes no size
  out.state_options();
  return out;
}

void warn_of_memory(const measure::Experiment& experiment, const comm::World& world, Bytes stated) {
  if (world.rank() != 0 || !log::enabled(log::Level::warning)) return;
  const auto device = world.device();
  MemoryQuestion question{.experiment = experiment, .ranks = world.size(), .limit = stated};
  question.experiment.data = {};  // a plan is made from sizes
  try {
    const auto available = device.is_cpu()
                               ? Bytes{profile::host_memory().available.count / world.place().local_size}
                               : profile::available_memory(device) + profile::device_memory(device).allocated;
    if (!device.is_cpu()) question.accelerator = available;
    if (stated.count == 0) question.limit = available;
  } catch (const std::exception&) {  // libtorch's too: how much memory there is isn't known
    return;
  }
  if (const auto words = memory_warning(question); !words.empty()) log::warning(words);
}

}  // namespace shade::cli
