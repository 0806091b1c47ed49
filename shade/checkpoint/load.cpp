#include "shade/checkpoint/load.h"

#include <ATen/ATen.h>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/checkpoint/agreement.h"
#include "shade/checkpoint/owned.h"
#include "shade/io/scalar_type.h"
#include "shade/io/tensor_info.h"

namespace shade::checkpoint {
namespace {

Reader::Range range_of(const Owned& piece) { return {piece.part, piece.weight, piece.begin, piece.values.numel()}; }

std::string kind(const SavedWeight& weight) {
  return text(weight.trainable ? "trained " : "frozen ", io::print_shape(weight.shape));
}

void require_same_model(const Reader& reader, const shard::Runtime& runtime) {
  std::map<std::string, const SavedWeight*> saved;
  for (const auto& weight : reader.manifest().weights) saved.emplace(weight.name, &weight);
  for (const auto& weight : weights_of(runtime)) {
    const auto found = saved.find(weight.name);
    SHADE_REQUIRE(found != saved.end(), reader.path(), " has no weight '", weight.name,
                  "', which the model needs; make the model as it was when it was saved");
    SHADE_REQUIRE(*found->second == weight, reader.path(), ": weight '", weight.name, "' was ", kind(*found->second),
                  ", in this model it is ", kind(weight), "; make the model as it was when it was saved");
    saved.erase(found);
  }
  SHADE_REQUIRE(saved.empty(), reader.path(), " has the weight '", saved.empty() ? "" : saved.begin()->first,
                "', which this model doesn't; make the model as it was when it was saved");
}

void require_same_optimizer(const Reader& reader, const optim::Optimizer& optimizer) {
  const auto& saved = reader.manifest().states;
  SHADE_REQUIRE(saved == optimizer.state_names(), reader.path(), " was saved with an optimizer that keeps [",
                join(saved, ", "), "]; this one keeps [", join(optimizer.state_names(), ", "),
                "]; choose the same optimizer and average (--ema)");
}

void require_same_types(const Reader& reader, const std::vector<Owned>& owned) {
  for (const auto& piece : owned) {
    const auto saved = reader.dtype(piece.part, piece.weight), here = io::dtype_of(piece.values.scalar_type(), "");
    SHADE_REQUIRE(saved == here, reader.path(), ": ", piece.part, " of '", piece.weight, "' was saved as ",
                  to_string(saved), ", here it is ", to_string(here), "; choose the same types");
  }
}

}  // namespace

Manifest load(const std::filesystem::path& folder, shard::Runtime& runtime, optim::Optimizer& optimizer,
              const comm::Group& group, const std::optional<io::Digest>& expected) {
  std::optional<Reader> reader;
  std::vector<Owned> owned;
  const auto what = text("loading ", folder);
  together(group, what, [&] { reader.emplace(folder, expected); });
  const auto first = from_rank0(group, what, [&] { return io::to_hex(reader->digest()); });
  together(group, what, [&] {
    SHADE_REQUIRE(io::to_hex(reader->digest()) == first, folder,
                  " is not the checkpoint that rank 0 loads; all ranks must", " see the same folder");
    require_same_model(*reader, runtime);
    require_same_optimizer(*reader, optimizer);
    owned = owned_by(runtime, optimizer);
    require_same_types(*reader, owned);
    for (const auto& piece : owned) reader->check(range_of(piece));
  });
  const at::NoGradGuard no_graph;
  for (const auto& piece : owned) reader->read(range_of(piece), piece.values);
  optimizer.set_steps(reader->manifest().steps);
  runtime.updated();
  return reader->manifest();
}

}  // namespace shade::checkpoint
