// Private fine-tuning of a Llama that is sharded over all ranks: from a folder of weights in Hugging Face's layout, one
// line of the texts per record, to a new such folder.
//
//   shade launch -n 2 -- sharded_llama MODEL TEXTS RESULT
#include <cstdio>

#include "shade/checkpoint/export.h"
#include "shade/comm/job/environment.h"
#include "shade/data/config.h"
#include "shade/models/registry.h"
#include "shade/privacy/accounting/calibrate.h"
#include "shade/train/run/model_states.h"
#include "shade/train/step/job.h"

using namespace shade;

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "usage: sharded_llama MODEL TEXTS RESULT\n"), 2;
  const std::string folder = argv[1], texts = argv[2], result = argv[3];
  auto world = comm::World::connect(comm::place_from_environment(), {});

  // The model only declares its weights: nothing is allocated yet.
  const auto model = models::make_model(folder, {}, {.task = models::Task::lm});
  const auto data = data::open_dataset({.data_folder = texts, .tokenizer = "bytes", .text_unit = data::TextUnit::line},
                                       /*seq_length=*/64, data::Task::lm);

  privacy::PrivacyEvent event{.mechanism = {.sample_rate = 128.0 / static_cast<double>(data->size())},
                              .divisor = 128,
                              .steps = 40,
                              .delta = 1e-5};
  event.mechanism.noise_multiplier =
      privacy::calibrate(privacy::Accountant::prv, event.accounted(), /*target_epsilon=*/8, event.delta).sigma;

  // Each rank holds its part of every unit, and gathers a unit while it is used.
  train::JobOptions options{.model = model.get(),
                            .data = data.get(),
                            .step = {.privacy = event},
                            .batch_size = 128,
                            .micro_batch = 32,
                            .seed = 1};
  options.shard.shard = shard::Strategy::zero3;
  options.optimizer.lr = 1e-2;
  options.weights = [&](shard::Runtime& runtime) {
    train::start_from(folder, model->parameters(), runtime, /*seed=*/1);
  };
  train::Job job(world, options);
  while (const auto record = job.step())
    if (world.rank() == 0 && job.steps() % 2 == 1)
      std::printf("step %2d  loss %.4f\n", static_cast<int>(job.steps()), record->loss);
  if (world.rank() == 0) std::printf("epsilon %.3f\n", job.spent()->epsilon);

  checkpoint::export_model(job.runtime(), result, model->config_json(), job.groups().control);
  world.leave();
}
