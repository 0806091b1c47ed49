// Private fine-tuning of a Llama that is sharded over all ranks: from a folder of weights in Hugging Face's layout, one
// line of the texts per record, to a new such folder.
//
//   shade launch -n 2 -- sharded_llama MODEL TEXTS RESULT
#include <shade/data/config.h>
#include <shade/models/registry.h>
#include <shade/shade.h>

using namespace shade;

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "usage: sharded_llama MODEL TEXTS RESULT\n"), 2;
  return shade::main(argc, argv, [&](World& world) {
    const std::string folder = argv[1], texts = argv[2], result = argv[3];
    // The model only declares its weights: nothing is allocated yet.
    const auto model = models::make_model(folder, {}, {.task = models::Task::lm});
    const auto data =
        data::open_dataset({.data_folder = texts, .tokenizer = "bytes", .text_unit = data::TextUnit::line},
                           /*seq_length=*/64, data::Task::lm);
    // Each rank holds its part of every unit of the model, and gathers a unit while it is used.
    Run run(world, *model, *data,
            {.budget = {{.epsilon = 8, .delta = 1e-5}},
             .batch_size = 128,
             .steps = 40,
             .micro_batch = 32,
             .optimizer = {.lr = 1e-2},
             .shard = shard::Strategy::zero3,
             .weights = folder,
             .tokenizer = "bytes",
             .export_folder = result});  // for transformers, with the tokenizer
    for (const auto& step : run)
      if (run.steps() % 2 == 1) world.print("step ", run.steps(), "  loss ", step.loss);
    world.print(run.privacy());
  });
}
