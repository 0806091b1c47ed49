// What a private step refuses by itself, whoever calls it: noise drawn twice, records that come twice, sums that would
// move by more than they should.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "shade/models/linear_stack.h"
#include "shade/optim/config.h"
#include "shade/privacy/clip/one_pass.h"
#include "shade/train/spec/computes_with.h"
#include "shade/train/step/slots.h"
#include "shade/train/step/step.h"
#include "tests/support/fault.h"
#include "tests/support/ranks.h"

namespace shade::train {
namespace {

using test::fault;

struct Linear {
  explicit Linear(comm::World& world, const shard::ShardConfig& config = {})
      : runtime(model.parameters(), shard::connect_groups(world, shard::policy_of(config, world.size())), config) {
    runtime.initialise(1);
  }
  Step step(const StepOptions& options) { return Step(model, runtime, *optimizer, optim::make_schedule({}), options); }

  models::LinearStack model{{.width = 4, .depth = 2}, {}};
  shard::Runtime runtime;
  std::unique_ptr<optim::Optimizer> optimizer = optim::make_optimizer({});
};

nn::Batch batch_of(const std::vector<int64_t>& records) {
  nn::Batch out;
  const auto size = static_cast<int64_t>(records.size());
  out.x_BD = at::arange(4 * size, at::kFloat).view({size, 4}).div(10).sin();
  out.y_BD = at::ones({size, 4});
  out.records = records;
  return out;
}

privacy::DpConfig words() { return {.dp = privacy::MethodName::bookkeeping, .sigma = 1}; }
StepOptions private_step() { return step_options(words(), {.micro_shapes = 4}); }

TEST(PrivateStep, DrawsTheNoiseOfAStepOnce) {
  auto world = comm::World::simulated(0, 1);
  Linear one(world);
  auto step = one.step(private_step());
  const std::vector batch{batch_of({0, 1})};
  step.run(batch, 2);
  step.run(batch, 2);
  one.optimizer->set_steps(1);  // as loading an earlier checkpoint does
  EXPECT_EQ(fault([&] { step.run(batch, 2); }),
            "the noise of step 1 was drawn before, or that of a later step (1); after going back to an earlier state "
            "make a new Step, whose key is another one");
  one.optimizer->set_steps(2);
  step.gradients(batch);
  EXPECT_NE(fault([&] { step.add_noise(); }).find("add_noise() is for rehearsals"), std::string::npos);
  EXPECT_EQ(step.noised(), 2);
}

// run() alone checks records and shapes, tells the ledger and draws the noise: an update by another way is refused,
// whatever sum is there, before, between and after the steps.
TEST(PrivateStep, IsTheOnlyOneToUpdateWeights) {
  auto world = comm::World::simulated(0, 1);
  Linear one(world);
  const std::vector batch{batch_of({0, 1})};
  const auto update = [&] { one.optimizer->step(slots_of(one.runtime.shards()), 0.1); };
  const auto refused = [&] { return fault(update).find("would release a sum without noise") != std::string::npos; };
  {
    auto step = one.step(private_step());
    step.gradients(batch);
    EXPECT_TRUE(refused());
    step.run(batch, 2);
    step.gradients(batch);
    EXPECT_TRUE(refused());
  }
  EXPECT_TRUE(refused());
  auto plain = one.step({});
  plain.gradients(batch);
  EXPECT_TRUE(refused()) << "a step that is not private takes nothing over";
}

// Until a tied table's second term is added, a sample of the micro-batch may count as 32 in what an exact sum has room
// for.
TEST(PrivateStep, RefusesMoreSamplesThanItsSumHasRoomFor) {
  auto world = comm::World::simulated(0, 1);
  Linear one(world);
  for (const auto& [micro_batch, streams, refused] :
       {std::tuple{1 << 14, false, true}, {(1 << 14) - 1, false, false}, {1 << 14, true, false}}) {
    auto dp = words();
    if (streams) dp.dp = privacy::MethodName::streaming;
    auto step = one.step(step_options(dp, {.micro_shapes = micro_batch}));
    EXPECT_EQ(fault([&] { step.run(std::vector{batch_of({0})}, 1); }).find("in micro-batches of up to 16384") !=
                  std::string::npos,
              refused)
        << micro_batch;
  }
}

// The model and the optimizer belong to the Step that was made last: an earlier one refuses before it spends noise, and
// its end leaves what is no longer its own.
TEST(PrivateStep, GivesWayToALaterOne) {
  auto world = comm::World::simulated(0, 1);
  Linear one(world);
  const std::vector batch{batch_of({0, 1})};
  auto first = std::make_unique<Step>(one.model, one.runtime, *one.optimizer, optim::make_schedule({}), private_step());
  int released = 0;
  auto options = private_step();
  options.before_noise = [&](int64_t, const hash::Digest&) { ++released; };
  auto second = std::make_unique<Step>(one.model, one.runtime, *one.optimizer, optim::make_schedule({}), options);
  const auto refused = [&](const std::function<void()>& call) {
    return fault(call).find("another Step was made for this model") != std::string::npos;
  };
  EXPECT_TRUE(refused([&] { first->run(batch, 2); }));
  EXPECT_TRUE(refused([&] { first->gradients(batch); }));
  EXPECT_EQ(first->noised(), 0);
  first.reset();
  EXPECT_EQ(fault([&] { second->run(batch, 2); }), "no error");
  second = std::make_unique<Step>(one.model, one.runtime, *one.optimizer, optim::make_schedule({}), options);
  EXPECT_EQ(fault([&] { second->run(batch, 2); }), "no error") << "assigned over the one before";
  EXPECT_EQ(released, 2);
  auto plain = one.step({});
  EXPECT_TRUE(refused([&] { second->run(batch, 2); })) << "sums would no longer be exact";
  EXPECT_EQ(released, 2);
  second.reset();
  EXPECT_NE(fault([&] { plain.run(batch, 2); }).find("outside its step"), std::string::npos)
      << "the optimizer outlives the private step, and stays closed";
}

// Also without a Job, which compares them earlier.
TEST(PrivateStep, RefusesRanksThatComputeDifferently) {
  test::run_ranks(2, test::As::processes, [&](comm::World& world) {
    at::set_num_threads(1 + world.rank());  // of a process
    Linear one(world, {.shard = shard::Strategy::ddp});
    EXPECT_NE(fault([&] { one.step(private_step()); }).find("rank 1: threads is 2, rank 0 has 1"), std::string::npos);
    EXPECT_EQ(fault([&] { one.step({}); }), "no error");
  });
}

// Where a rank's threads and libraries lie is its own; which libraries they are, is not.
TEST(PrivateStep, RanksShareWhatRounds) {
  const auto before = must_be_shared(at::kCPU);
  ASSERT_FALSE(before["libraries"].empty());
  for (const auto& [name, id] : before["libraries"].items()) EXPECT_FALSE(id.get<std::string>().empty()) << name;
  EXPECT_TRUE(before["libraries"].contains("libtorch_cpu.so")) << before["libraries"].dump();
  for (const auto& [variable, shared] : {std::pair{"OMP_PLACES", false},
                                         {"GOMP_CPU_AFFINITY", false},
                                         {"LD_LIBRARY_PATH", false},
                                         {"MKL_CBWR", true},
                                         {"LD_PRELOAD", true}}) {
    const char* const kept = std::getenv(variable);
    const auto old = kept == nullptr ? std::nullopt : std::optional<std::string>(kept);
    ::setenv(variable, "/another", 1);
    EXPECT_EQ(must_be_shared(at::kCPU) != before, shared) << variable;
    EXPECT_EQ(must_be_shared(at::kMeta)["variables"].size(), variable == std::string("LD_PRELOAD") ? 1U : 0U);
    old ? ::setenv(variable, old->c_str(), 1) : ::unsetenv(variable);
  }
}

// Libraries choose kernels by vendor and model where flags are the same, as in virtual machines and on ARM.
TEST(PrivateStep, ProcessorsThatMayRoundDifferentlyAreTold) {
  using Lines = std::vector<std::string>;
  const Lines x86{"vendor_id\t: GenuineIntel", "cpu family\t: 6", "model\t\t: 143", "model name\t: kvm64",
                  "flags\t\t: fpu sse2 avx2 fma"};
  const Lines arm{"Features\t: fp asimd sve bf16", "CPU implementer\t: 0x41", "CPU part\t: 0xd40"};
  const auto differs = [](Lines lines, size_t at, const std::string& line) {
    const auto before = rounding_processor(lines);
    lines[at] = line;
    return rounding_processor(lines) != before;
  };
  EXPECT_TRUE(differs(x86, 0, "vendor_id\t: AuthenticAMD"));
  EXPECT_TRUE(differs(x86, 1, "cpu family\t: 25"));
  EXPECT_TRUE(differs(x86, 2, "model\t\t: 85"));
  EXPECT_TRUE(differs(x86, 4, "flags\t\t: fpu sse2 avx2 fma avx512f"));
  EXPECT_FALSE(differs(x86, 4, "flags\t\t: fpu sse2 avx2 fma ibpb_exit_to_user")) << "a kernel's mitigation";
  EXPECT_TRUE(differs(arm, 2, "CPU part\t: 0xd4f"));
  EXPECT_TRUE(differs(arm, 1, "CPU implementer\t: 0xc0"));
  EXPECT_TRUE(differs(arm, 0, "Features\t: fp asimd sve"));
}

// A method whose take() fails once, as memory that runs out in backward does.
struct FailsOnce : privacy::OnePass {
  FailsOnce(const privacy::MethodSetup& setup, int* left)
      : OnePass(privacy::row_of(privacy::MethodName::bookkeeping), setup, {}), takes_left(left) {}
  void take(nn::LayerGrad grad) override {
    if ((*takes_left)-- == 0) throw UsageError("planted");
    OnePass::take(std::move(grad));
  }
  int* takes_left;
};

// What a failed step left behind must not reach the next sum: neither with the same Step nor with another one.
TEST(PrivateStep, IsBrokenByAFailure) {
  const std::vector batch{batch_of({0, 1}), batch_of({2})};
  for (int taken = 0; taken < 4; ++taken)
    for (const bool whole_step : {true, false}) {
      auto world = comm::World::simulated(0, 1);
      Linear one(world);
      int left = taken;
      auto options = private_step();
      options.method = [&left](const privacy::MethodSetup& setup) { return std::make_unique<FailsOnce>(setup, &left); };
      auto step = one.step(options);
      const auto said = [&](bool whole) {
        return fault([&] { whole ? (void)step.run(batch, 2) : (void)step.gradients(batch); });
      };
      ASSERT_EQ(said(whole_step), "planted") << taken;
      const auto refused = [](const std::string& text) {
        return text.find("failed before its end") != text.npos && text.find("last checkpoint") != text.npos;
      };
      EXPECT_PRED1(refused, said(true)) << taken;
      EXPECT_PRED1(refused, said(false)) << taken;
      EXPECT_PRED1(refused, fault([&] { step.add_noise(); })) << taken;
      EXPECT_EQ(step.noised(), 0);
      auto another = one.step(private_step());
      EXPECT_PRED1(refused, fault([&] { another.run(batch, 2); })) << "the same runtime, " << taken;
    }
}

// Bounds of norms are made for products of whole fp32 numbers.
TEST(PrivateStep, RefusesRoundedProducts) {
  const std::vector batch{batch_of({0, 1})};
  const auto said = [&] {
    auto world = comm::World::simulated(0, 1);
    Linear one(world);
    auto step = one.step(private_step());
    return fault([&] { step.run(batch, 2); });
  };
  using enum at::Float32Precision;
  for (const auto& [precision, refused] : {std::pair{BF16, true}, {TF32, true}, {IEEE, false}, {NONE, false}}) {
    at::globalContext().setFloat32Precision(at::Float32Backend::MKLDNN, at::Float32Op::MATMUL, precision);
    EXPECT_EQ(said().find("products of fp32 are rounded") != std::string::npos, refused);
  }
  for (const auto& [mode, refused] : {std::pair{"BF16", true}, {"ANY", true}, {"STRICT", false}}) {
    ::setenv("ONEDNN_DEFAULT_FPMATH_MODE", mode, 1);
    EXPECT_EQ(said() != "no error", refused) << mode;
  }
  ::unsetenv("ONEDNN_DEFAULT_FPMATH_MODE");
}

// Refused arguments have touched nothing: the step with others may follow.
TEST(PrivateStep, OutlivesRefusedArguments) {
  auto world = comm::World::simulated(0, 1);
  Linear one(world);
  auto step = one.step(private_step());
  EXPECT_NE(fault([&] { step.run({}, 2); }), "no error");
  EXPECT_NE(fault([&] { step.run(std::vector{batch_of({3, 3})}, 2); }), "no error");
  EXPECT_EQ(fault([&] { step.run(std::vector{batch_of({3, 4})}, 2); }), "no error");
}

// The count that moves C is released with noise for one step: gradients() before it must not be in it.
TEST(PrivateStep, CountsNoSampleOfEarlierSums) {
  const auto below = [](int before) {
    auto world = comm::World::simulated(0, 1);
    Linear one(world);
    auto adaptive = words();
    adaptive.clip.style = privacy::ClipStyle::adaptive;
    auto step = one.step(step_options(adaptive, {.micro_shapes = 4}));
    const std::vector batch{batch_of({0, 1, 2})};
    for (int i = 0; i < before; ++i) step.gradients(batch);
    return step.run(batch, 3).samples.below;
  };
  EXPECT_NE(below(0), 0);
  EXPECT_EQ(below(2), below(0));
}

TEST(PrivateStep, RefusesARecordThatComesTwice) {
  auto world = comm::World::simulated(0, 1);
  Linear one(world);
  auto step = one.step(private_step());
  const auto said = [&](const std::vector<nn::Batch>& batches) { return fault([&] { step.run(batches, 2); }); };
  EXPECT_EQ(said({batch_of({3, 4}), batch_of({5})}), "no error");
  EXPECT_EQ(said({batch_of({}), batch_of({})}), "no error");
  EXPECT_EQ(said({batch_of({3, 4}), batch_of({5, 3})}),
            "record 3 comes twice in one private step, on two ranks or in two micro-batches, so it would move the sum "
            "by twice the clip norm; deal each record to one place (train/feed/loader.h)");
  auto unknown = batch_of({3, 4});
  unknown.records.clear();
  EXPECT_NE(said({unknown}).find("must know which record each sample is"), std::string::npos);
  auto none = words();
  none.dp = privacy::MethodName::none;
  auto other_world = comm::World::simulated(0, 1);
  Linear other(other_world);
  auto plain = other.step(step_options(none));
  EXPECT_EQ(fault([&] { plain.run(std::vector{unknown}, 2); }), "no error");
}

TEST(PrivateStep, RefusesARecordThatTwoRanksBring) {
  for (const bool twice : {false, true})
    test::run_ranks(2, test::As::threads, [&](comm::World& world) {
      shard::ShardConfig config;
      config.shard = shard::Strategy::zero3;
      Linear mine(world, config);
      auto step = mine.step(private_step());
      const int64_t other = world.rank() == 0 ? 7 : twice ? 7 : 8;
      const std::vector<nn::Batch> batch{world.rank() == 0 ? batch_of({1, other}) : batch_of({other})};
      const auto said = fault([&] { step.run(batch, 2); });
      EXPECT_EQ(said.find("record 7 comes twice") != said.npos, twice) << said;
    });
}

TEST(PrivateStep, RefusesWhatWouldWeakenIt) {
  auto world = comm::World::simulated(0, 1);
  shard::ShardConfig narrow;
  narrow.reduce_dtype = nn::DType::bf16;
  Linear rounded(world, narrow);
  EXPECT_NE(fault([&] { rounded.step(private_step()); }).find("reduced in fp32, not bf16"), std::string::npos);
  EXPECT_EQ(fault([&] { rounded.step({}); }), "no error");
  auto another = comm::World::simulated(0, 1);
  Linear one(another);
  auto clocked = words();
  clocked.clip.norm_timing = true;
  auto timed = step_options(clocked);
  EXPECT_NE(fault([&] { one.step(timed); }).find("chooses by measured time"), std::string::npos);
  timed.rehearsal = true;
  EXPECT_EQ(fault([&] { one.step(timed); }), "no error");
}

// The loss that is reported leaves out samples without one; they are left out of the sum too.
TEST(PrivateStep, ReportsTheLossOfFiniteSamples) {
  auto world = comm::World::simulated(0, 1);
  Linear one(world);
  auto silent = words();
  silent.sigma = 0;
  auto step = one.step(step_options(silent, {.micro_shapes = 4}));
  const auto good = batch_of({0, 1, 2});
  auto bad = batch_of({0, 1, 2});
  bad.x_BD = good.x_BD.clone();
  bad.x_BD[1].fill_(std::nan(""));
  const auto alone = step.gradients(std::vector{good.rows(0, 1), good.rows(2, 1)});
  const auto record = step.run(std::vector{bad}, 3);
  EXPECT_EQ(record.samples.not_finite, 1);
  EXPECT_NEAR(record.loss, alone.sum / 2, 1e-6);
  auto other_world = comm::World::simulated(0, 1);
  Linear other(other_world);
  auto plain = other.step({});
  EXPECT_TRUE(std::isnan(plain.run(std::vector{bad}, 3).loss)) << "a run that is not private shows it";
}

}  // namespace
}  // namespace shade::train
