// Laws of every optimizer: it computes the textbook, and its bits don't depend on how a buffer is cut.
#include "shade/optim/optimizer.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "shade/base/error.h"
#include "tests/optim/cases.h"

namespace shade::optim {
namespace {

// Of the noise that a step is said to have, before and after it is scaled. Only adambc asks.
constexpr double kScale = 1 / 48.0, kNoise = 40, kPhi = kNoise * kScale * kNoise * kScale;

// The textbook, one element at a time, in fp64.
struct Textbook {
  double w, m = 0, v = 0;

  void adam(double g, int t, double lr, double decay, const std::function<double(double)>& denominator) {
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    w -= lr * decay * w;
    w -= lr * (m / (1 - std::pow(0.9, t))) / denominator(v / (1 - std::pow(0.999, t)));
  }
  void sgd(double g, double lr, double decay, double momentum, bool nesterov) {
    g += decay * w;
    m = momentum * m + g;
    w -= lr * (nesterov ? g + momentum * m : m);
  }
  void step(const std::string& algorithm, double g, int t, double lr, double decay) {
    const auto plain = [](double second) { return std::sqrt(second) + 1e-8; };
    const auto corrected = [](double second) { return std::sqrt(std::max(second - kPhi, 0.3 * kPhi)); };
    if (algorithm == "adamw") return adam(g, t, lr, decay, plain);
    if (algorithm == "adambc") return adam(g, t, lr, decay, corrected);
    sgd(g, lr, decay, algorithm == "sgd" ? 0 : 0.9, algorithm == "nesterov");
  }
};

class EveryOptimizer : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, EveryOptimizer, testing::ValuesIn(all_cases()), name_of);

TEST_P(EveryOptimizer, ComputesTheTextbook) {
  at::manual_seed(1);
  constexpr int64_t kElements = 203;
  Slot decaying{.name = "a", .master = at::randn(kElements)};
  Slot mixed{.name = "b", .master = at::randn(kElements), .without_decay = {{0, 5}, {30, 120}, {202, kElements}}};
  const auto decay_of = [](const Slot& slot, int64_t i) {
    for (const auto& [begin, end] : slot.without_decay)
      if (begin <= i && i < end) return 0.0;
    return 0.1;
  };
  std::vector<Textbook> expected;
  for (const auto* slot : {&decaying, &mixed})
    for (int64_t i = 0; i < kElements; ++i) expected.push_back({.w = slot->master[i].item<double>()});
  const auto optimizer = GetParam().make(StateType::fp32);
  for (int t = 1; t <= 5; ++t) {
    const double lr = 0.01 * t;
    size_t e = 0;
    for (auto* slot : {&decaying, &mixed}) {
      slot->gradient = at::randn(kElements) * 50;
      for (int64_t i = 0; i < kElements; ++i)
        expected[e++].step(GetParam().name, slot->gradient[i].item<double>() * kScale, t, lr, decay_of(*slot, i));
    }
    optimizer->step(std::vector{decaying, mixed}, lr, kScale, kNoise);
  }
  EXPECT_EQ(optimizer->steps(), 5);
  const auto near = [](const at::Tensor& found, double value) {
    EXPECT_NEAR(found.item<double>(), value, 1e-6 * (1 + std::abs(value)));
  };
  const auto& names = optimizer->state_names();
  size_t e = 0;
  for (const auto* slot : {&decaying, &mixed})
    for (int64_t i = 0; i < kElements; ++i, ++e) {
      near(slot->master[i], expected[e].w);
      if (!names.empty()) near(optimizer->state(slot->name, names[0])[i], expected[e].m);
      if (names.size() > 1) near(optimizer->state(slot->name, names[1])[i], expected[e].v);
    }
}

// Of the whole buffer, in the test below.
const std::vector<Range> kConstant{{3, 20}, {777, 5000}, {60'000, 70'004}, {149'990, 150'007}};

// What of it lies in [begin, end), counted from there.
std::vector<Range> constant_in(int64_t begin, int64_t end) {
  std::vector<Range> out;
  for (const auto& range : kConstant) {
    const Range part{std::max(begin, range.begin) - begin, std::min(end, range.end) - begin};
    if (part.begin < part.end) out.push_back(part);
  }
  return out;
}

// Three steps of a buffer that is cut at the given places; master and states put together again.
std::vector<at::Tensor> train_cut(const Case& c, StateType type, const std::vector<int64_t>& cuts) {
  at::manual_seed(2);
  const auto elements = cuts.back();
  const auto master = at::randn(elements);
  const auto optimizer = c.make(type);
  std::vector<Slot> parts;
  for (size_t i = 0; i + 1 < cuts.size(); ++i)
    parts.push_back({.name = "unit",
                     .master = master.slice(0, cuts[i], cuts[i + 1]).clone(),
                     .offset = cuts[i],
                     .without_decay = constant_in(cuts[i], cuts[i + 1])});
  // Every part is a rank of its own, with an optimizer of its own.
  std::vector<std::unique_ptr<Optimizer>> ranks;
  for (size_t i = 0; i < parts.size(); ++i) ranks.push_back(c.make(type));
  for (int t = 0; t < 3; ++t) {
    const auto gradient = at::randn(elements);
    for (size_t i = 0; i < parts.size(); ++i) {
      parts[i].gradient = gradient.slice(0, cuts[i], cuts[i + 1]).clone();
      ranks[i]->step({&parts[i], 1}, 1e-2, 0.37, 0.9);
    }
  }
  std::vector<at::Tensor> out;
  const auto join = [&](const auto& of) {
    std::vector<at::Tensor> pieces;
    for (size_t i = 0; i < parts.size(); ++i) pieces.push_back(of(i));
    out.push_back(at::cat(pieces));
  };
  join([&](size_t i) { return parts[i].master; });
  for (const auto& name : optimizer->state_names()) join([&](size_t i) { return ranks[i]->state("unit", name); });
  return out;
}

TEST_P(EveryOptimizer, BitsDontDependOnTheCut) {
  constexpr int64_t kElements = 150'007;  // several threads and, in bf16, several blocks
  for (const auto type : {StateType::fp32, StateType::bf16}) {
    const auto whole = train_cut(GetParam(), type, {0, kElements});
    for (const std::vector<int64_t>& cuts : {std::vector<int64_t>{0, 1, 18, 18, 100, 777, 5001, 70'003, kElements},
                                             {0, kElements / 2, kElements},
                                             {0, 50'003, 100'006, kElements}}) {
      const auto parts = train_cut(GetParam(), type, cuts);
      ASSERT_EQ(parts.size(), whole.size());
      for (size_t i = 0; i < whole.size(); ++i)
        EXPECT_TRUE(at::equal(whole[i], parts[i]))
            << to_string(type) << ", tensor " << i << ": " << (whole[i] != parts[i]).sum().item<int64_t>()
            << " elements differ";
    }
  }
}

TEST(WeightDecay, OnAllOrWithoutDecayAtAllIsOneRange) {
  const auto after = [](const std::unique_ptr<Optimizer>& optimizer, const std::vector<Range>& constant) {
    at::manual_seed(4);
    Slot slot{.name = "w", .master = at::randn(300), .gradient = at::randn(300), .without_decay = constant};
    optimizer->step({&slot, 1}, 0.1);
    return slot.master;
  };
  const std::vector<Range> part{{10, 200}};
  EXPECT_FALSE(at::equal(after(make_adamw({}), part), after(make_adamw({}), {})));
  EXPECT_TRUE(at::equal(after(make_adamw({.decay_all = true}), part), after(make_adamw({}), {})));
  EXPECT_TRUE(at::equal(after(make_sgd({.weight_decay = 0.1, .decay_all = true}), part),
                        after(make_sgd({.weight_decay = 0.1}), {})));
  EXPECT_TRUE(at::equal(after(make_adamw({}), {{0, 300}}), after(make_adamw({.weight_decay = 0}), {})));
}

TEST_P(EveryOptimizer, BitsDontDependOnThreads) {
  const auto threads = at::get_num_threads();
  std::vector<at::Tensor> first;
  for (const int n : {1, 2, 3}) {
    at::set_num_threads(n);
    const auto found = train_cut(GetParam(), StateType::fp32, {0, 150'007});
    if (first.empty()) first = found;
    for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(at::equal(first[i], found[i])) << n << " threads";
  }
  at::set_num_threads(threads);
}

// Remove the staging in optimizer.cpp when this fails: libtorch's kernel has become indifferent to the cut.
TEST(FusedKernel, TreatsTheTailDifferently) {
  at::manual_seed(3);
  const auto cut_in = [](int64_t length) {
    at::manual_seed(3);
    const auto w = at::randn(4096), g = at::randn(4096), m = at::randn(4096), v = at::rand(4096);
    for (int64_t i = 0; i < 4096; i += length) {
      const auto part = [&](const at::Tensor& t) { return std::vector{t.narrow(0, i, length)}; };
      at::_fused_adamw_(part(w), part(g), part(m), part(v), {}, {at::ones({})}, 1e-2, 0.9, 0.999, 0, 1e-8, false,
                        false);
    }
    return v;
  };
  EXPECT_TRUE(at::equal(cut_in(4096), cut_in(64)));
  EXPECT_FALSE(at::equal(cut_in(4096), cut_in(1)));
}

TEST_P(EveryOptimizer, RefusesOtherSlotsThanPrepared) {
  const auto slot = [](const char* name, int64_t elements) {
    return Slot{.name = name, .master = at::ones(elements), .gradient = at::ones(elements)};
  };
  const auto optimizer = GetParam().make(StateType::fp32);
  optimizer->prepare(std::vector{slot("a", 3), slot("b", 0)});
  EXPECT_THROW(optimizer->step(std::vector{slot("a", 3)}, 1), Error);
  EXPECT_THROW(optimizer->step(std::vector{slot("a", 3), slot("c", 0)}, 1), Error);
  auto short_gradient = slot("a", 3);
  short_gradient.gradient = at::ones(2);
  EXPECT_THROW(optimizer->step(std::vector{short_gradient, slot("b", 0)}, 1), Error);
  for (const std::vector<Range>& ranges : {std::vector<Range>{{1, 4}}, {{1, 1}}, {{-1, 1}}, {{1, 2}, {0, 1}}}) {
    auto outside = slot("a", 3);
    outside.without_decay = ranges;
    EXPECT_THROW(optimizer->step(std::vector{outside, slot("b", 0)}, 1), Error);
  }
  auto half = slot("a", 3);
  half.master = half.master.to(at::kBFloat16);
  EXPECT_THROW(optimizer->step(std::vector{half, slot("b", 0)}, 1), Error);
  EXPECT_THROW(optimizer->step(std::vector{slot("a", 3), slot("b", 0)}, 1, NAN), Error);
  EXPECT_THROW(optimizer->step(std::vector{slot("a", 3), slot("b", 0)}, 1, 1, -1), Error);
  EXPECT_EQ(optimizer->steps(), 0) << "a refused step is none";
  optimizer->step(std::vector{slot("a", 3), slot("b", 0)}, 1);
  EXPECT_EQ(optimizer->steps(), 1);
}

}  // namespace
}  // namespace shade::optim
