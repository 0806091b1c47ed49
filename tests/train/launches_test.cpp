// What a private micro-step asks of an accelerator (tests/support/device): launches of one layer of a Llama, forward,
// recomputed and backward, with its norms and clipped sums; and how often the host waits.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/device/device.h"
#include "tests/support/ranks.h"
#include "tests/train/scaled_models.h"

namespace shade::train {
namespace {

using privacy::MethodName;
using test::device::Counters;

struct Shape {
  int64_t samples = 2, positions = 256, width = 128;
};

Counters asked(const shard::Groups& groups, int64_t layers, const Shape& shape, MethodName method, nn::DType dtype) {
  const models::DecoderConfig config{
      .hidden = shape.width, .layers = layers, .heads = 4, .kv_heads = 2, .ffn = 2 * shape.width, .vocab = 256};
  models::Decoder model(config, {.task = models::Task::lm, .checkpointing = models::Checkpointing::block});
  const auto device = test::device::shadow();
  shard::Runtime runtime(model.parameters(), groups, {}, {.compute = dtype, .device = device});
  runtime.initialise(1);
  const auto optimizer = optim::make_optimizer({});
  Step step(model, runtime, *optimizer, optim::make_schedule({}),
            step_options({.dp = method, .noise_seed = 1}, {.micro_shapes = shape.samples, .rehearsal = true}));
  const std::vector batch{
      model.synthetic({.samples = shape.samples, .seq_length = shape.positions}, 1, nn::scalar_type(dtype)).to(device)};
  step.gradients(batch);  // looks whether samples are apart, once
  test::device::reset_counters(device.index());
  step.gradients(batch);
  return test::device::counters(device.index());
}

// Of one layer, by what a third one adds to two.
std::map<std::string, int64_t> of_a_layer(const Counters& two, const Counters& three) {
  auto out = three.launched;
  for (const auto& [name, count] : two.launched) out[name] -= count;
  std::erase_if(out, [](const auto& entry) { return entry.second == 0; });
  return out;
}

std::string listed(const std::map<std::string, int64_t>& counts) {
  std::string out;
  for (const auto& [name, count] : counts) out += text("\n  ", count, " ", name);
  return out;
}

struct Bound {
  MethodName method;
  int64_t positions, most;
};

TEST(Launches, OfALayer) {
  test::run_ranks(1, test::As::threads, [](comm::World& world) {
    const auto groups = shard::connect_groups(world, {});
    for (const auto dtype : {nn::DType::bf16, nn::DType::fp32})
      // auto keeps gradients where samples are long, and books of short ones. Both backwards of ghost and flash count.
      for (const auto& [method, positions, most] :
           {Bound{MethodName::none, 256, 98}, Bound{MethodName::automatic, 256, 190},
            Bound{MethodName::automatic, 8, 320}, Bound{MethodName::bookkeeping, 256, 320},
            Bound{MethodName::flash_bookkeeping, 256, 270}, Bound{MethodName::ghost, 256, 386},
            Bound{MethodName::flash, 256, 344}}) {
        const Shape shape{.positions = positions};
        const auto two = asked(groups, 2, shape, method, dtype), three = asked(groups, 3, shape, method, dtype);
        const auto layer = three.launches - two.launches;
        const auto what = text(to_string(method), " ", to_string(dtype), ", ", positions, " positions");
        std::printf("%s: %ld launches a layer, %ld synchronisations\n", what.c_str(), layer, three.synchronisations);
        EXPECT_LE(layer, most) << what << listed(of_a_layer(two, three));
        EXPECT_LE(three.synchronisations, 1) << what << ": the losses";
        // Neither samples nor positions nor widths make it more.
        for (const Shape& other :
             {Shape{.samples = 5, .positions = positions}, Shape{.positions = positions + positions / 4},
              Shape{.positions = positions, .width = 192}}) {
          if (method == MethodName::automatic && positions == 8 && other.width != shape.width) continue;
          EXPECT_EQ(asked(groups, 3, other, method, dtype).launches, three.launches)
              << what << ": " << other.samples << " x " << other.positions << " x " << other.width;
        }
      }
  });
}

}  // namespace
}  // namespace shade::train
