#include "shade/cli/serving.h"

#include <cstdio>

#include "shade/base/error.h"
#include "shade/base/visible_text.h"

namespace shade::cli {

void ServedModel::add_argument(CommandLine& line) {
  line.app()
      .add_option("MODEL,--model", place,
                  "run directory of shade train or one of its checkpoints; model folder; name on the Hugging Face hub "
                  "with a copy in the local cache; or folder of LoRA adapters (PEFT)")
      ->required();
}

void ServedModel::declare(Fields& f) {
  f.add("base", base,
        {.help = "folder of the base model of LoRA adapters; if not set, the one that the adapters name",
         .flags = {"--base"}});
  f.add("dtype", dtype, {.help = "data type of weights and computation", .flags = {"--dtype"}});
  f.add("threads", threads,
        {.help = "number of compute threads; 0: libtorch's choice", .min = 0, .max = 4096, .flags = {"--threads"}});
}

void ServedModel::check(const CommandLine& line) const {
  SHADE_REQUIRE(!line.ranks || *line.ranks == 1, "a model is used by one process; drop --ranks");
}

serve::OpenedModel ServedModel::open(const std::string& tokenizer) const {
  use_threads(threads, comm::Place{});
  auto out = serve::open_model(place, {.type = train::scalar_type(dtype), .tokenizer = tokenizer, .base = base});
  std::fprintf(stderr, "%s: %s\n", visible(out.title).c_str(), visible(out.model->describe()).c_str());
  return out;
}

}  // namespace shade::cli
