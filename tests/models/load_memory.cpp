// Loads a model's folder in bf16, as a program that trains it would, and prints what memory that took, as JSON.
//
//   load_memory FOLDER         a folder of random_checkpoint: the first and last elements of every weight are checked
#include <cstdio>

#include "shade/base/error.h"
#include "shade/base/json.h"
#include "shade/io/weight_folder.h"
#include "shade/models/registry.h"
#include "shade/models/weights.h"
#include "shade/profile/memory.h"
#include "tests/models/random_checkpoint.h"

namespace shade::models {
namespace {

Bytes size_of_files(const std::filesystem::path& folder) {
  Bytes total;
  for (const auto& file : io::WeightFolder(folder).files())
    total += Bytes{static_cast<int64_t>(std::filesystem::file_size(file))};
  return total;
}

void check(const nn::Weight& weight) {
  const auto flat = weight.value().view(-1);
  const auto count = std::min<int64_t>(1000, flat.numel());
  for (const int64_t begin : {int64_t{0}, flat.numel() - count})
    SHADE_REQUIRE(at::equal(flat.narrow(0, begin, count), test::random_part(weight, begin, count)), weight.name(),
                  " differs from what was written, in the ", count, " elements from ", begin);
}

Json load(const std::filesystem::path& folder) {
  profile::TensorMemory::track();
  const auto before = profile::process_memory();
  const auto begin = Clock::now();
  const auto model = make_model(folder.string(), {}, {});
  load_weights(model->parameters(), folder, at::kBFloat16);
  const Seconds took = Clock::now() - begin;
  const auto after = profile::process_memory();
  const auto tensors = profile::TensorMemory::peak();
  for (const auto& weight : model->parameters().weights()) check(weight);
  return {{"files_bytes", size_of_files(folder).count},
          {"weights_bytes", 2 * model->parameters().count()},
          {"tensors_peak_bytes", tensors.count},
          {"resident_before_bytes", before.resident.count},
          {"resident_peak_bytes", after.peak_resident.count},
          {"resident_after_bytes", after.resident.count},
          {"anonymous_after_bytes", after.anonymous.count},
          {"load_s", took.count()}};
}

}  // namespace
}  // namespace shade::models

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: load_memory FOLDER\n");
    return 2;
  }
  try {
    std::puts(shade::models::load(argv[1]).dump(2).c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "load_memory: %s\n", error.what());
    return 1;
  }
}
