// Clipping: from norms to coefficients, and from coefficients to the sum of clipped samples.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <cmath>

#include "shade/nn/launches.h"
#include "shade/privacy/clip/method.h"
#include "tests/support/fault.h"

namespace shade::privacy {
namespace {

using test::fault;

constexpr double kInf = std::numeric_limits<double>::infinity();

// Three units; four modules, one of them frozen.
struct Modules {
  Modules() {
    parameters.begin_unit("first");
    parameters.add("a.weight", {3, 2}, {});
    parameters.add("a.bias", {3}, {});
    parameters.add("a.norm.weight", {3}, {});
    parameters.begin_unit("second");
    parameters.add("b.weight", {2, 3}, {});
    parameters.begin_unit("third");
    parameters.add("frozen.weight", {2, 3}, {}).freeze();
  }
  nn::Parameters parameters;
};

PrivacyEvent with_sigma(double sigma) { return {.mechanism = {.noise_multiplier = sigma}}; }

std::vector<double> coefficients(const Clipper& clipper, std::vector<double> squares) {
  const auto c = clipper.coefficients(at::tensor(squares, at::kDouble));
  return {c.data_ptr<double>(), c.data_ptr<double>() + c.numel()};
}

TEST(Clipper, FlatScalesDownToTheNorm) {
  const Modules modules;
  const Clipper clipper(modules.parameters, {.clip_norm = 2}, {});
  EXPECT_TRUE(clipper.flat());
  EXPECT_EQ(clipper.sensitivity(), 2);
  const double margin = clipper.margin();
  const auto c = coefficients(clipper, {0, 1, 4, 16, 1e40, -1e-12});
  const std::vector<double> wanted{1, 1, 1 - margin, 0.5 * (1 - margin), 2e-20 * (1 - margin), 1};
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_DOUBLE_EQ(c[i], wanted[i]) << i;
  EXPECT_EQ(coefficients(clipper, {1e61})[0], 0) << "products of fp32 may have overflowed";
}

// h sqrt(P), twice the rounding of a term on the grid of the sum, is covered: C (1 - margin) + h sqrt(P) <= C.
TEST(Clipper, TheMarginCoversTheGrid) {
  for (const double clip_norm : {1e-10, 0.7, 1.0, 1.9999, 3e7})
    for (const double weights : {1.0, 1e3, 1e6, 1e9, 7e10})
      EXPECT_LE(sum_spacing(clip_norm) * std::sqrt(weights),
                clip_norm * (clip_margin(static_cast<int64_t>(weights)) - 0.9e-9))
          << clip_norm << ", " << weights;
  EXPECT_LT(clip_margin(70'000'000'000), 1e-4);
}

TEST(Clipper, NotFiniteNormsGetNothing) {
  const Modules modules;
  for (const auto style :
       {ClipStyle::flat, ClipStyle::per_layer, ClipStyle::group, ClipStyle::automatic, ClipStyle::adaptive}) {
    const Clipper clipper(modules.parameters, {}, {.style = style});
    EXPECT_EQ(coefficients(clipper, {kInf, std::nan(""), -kInf}), (std::vector<double>{0, 0, 0})) << to_string(style);
  }
}

TEST(Clipper, ThresholdsOfGroupsAddUpToTheNorm) {
  const Modules modules;
  const auto& weights = modules.parameters.weights();
  for (const auto& [style, groups] : {std::pair{ClipStyle::per_layer, 3}, {ClipStyle::group, 2}}) {
    const Clipper clipper(modules.parameters, {.clip_norm = 3}, {.style = style});
    ASSERT_EQ(clipper.groups(), static_cast<size_t>(groups)) << to_string(style) << ": what is frozen has no threshold";
    EXPECT_EQ(clipper.group_of(weights[0]), clipper.group_of(weights[1]));
    EXPECT_EQ(clipper.group_of(weights[0]) == clipper.group_of(weights[2]), style == ClipStyle::group);
    EXPECT_NE(clipper.group_of(weights[0]), clipper.group_of(weights[3]));
    const double norm = 1e3;
    double squares = 0;
    for (int k = 0; k < groups; ++k) squares += std::pow(norm * coefficients(clipper, {norm * norm})[0], 2);
    EXPECT_NEAR(std::sqrt(squares), clipper.sensitivity() * (1 - clipper.margin()), 1e-12) << to_string(style);
    EXPECT_EQ(clipper.sensitivity(), 3);
  }
}

TEST(Clipper, AutomaticStaysBelowTheNorm) {
  const Modules modules;
  const Clipper clipper(modules.parameters, {.clip_norm = 2}, {.style = ClipStyle::automatic, .gamma = 0.5});
  const auto c = coefficients(clipper, {0, 0.25, 9, 1e12});
  EXPECT_DOUBLE_EQ(c[0], 4 * (1 - clipper.margin()));
  EXPECT_DOUBLE_EQ(c[1], 2 * (1 - clipper.margin()));
  EXPECT_DOUBLE_EQ(c[2], 2 / 3.5 * (1 - clipper.margin()));
  EXPECT_LT(c[3] * 1e6, 2 * (1 - clipper.margin()));
}

TEST(Clipper, AdaptivePaysForItsCount) {
  const Modules modules;
  const Clipper clipper(modules.parameters, with_sigma(0.8), {.style = ClipStyle::adaptive, .count_sigma = 3});
  const double g = clipper.gradient_sigma();
  EXPECT_GT(g, 0.8);
  // The count has sensitivity 1/2: both releases together are one with sigma.
  EXPECT_NEAR(1 / (g * g) + 0.25 / (clipper.count_sigma() * clipper.count_sigma()), 1 / (0.8 * 0.8), 1e-12);
  EXPECT_EQ(Clipper(modules.parameters, with_sigma(0), {.style = ClipStyle::adaptive}).gradient_sigma(), 0);
  EXPECT_EQ(Clipper(modules.parameters, with_sigma(0.8), {}).gradient_sigma(), 0.8);
}

TEST(Clipper, AdaptiveFollowsTheQuantile) {
  const Modules modules;
  const ClipOptions options{.style = ClipStyle::adaptive, .quantile = 0.75, .rate = 0.2, .count_sigma = 10};
  const auto after = [&](double count) {
    Clipper clipper(modules.parameters, {.clip_norm = 2}, options);
    clipper.follow(count, 8);
    EXPECT_EQ(clipper.sensitivity(), clipper.clip_norm());
    return clipper.clip_norm();
  };
  EXPECT_DOUBLE_EQ(after(4), 2 * std::exp(-0.2 * 0.25));  // all 8 below: smaller
  EXPECT_DOUBLE_EQ(after(-4), 2 * std::exp(0.2 * 0.75));  // none: larger
  EXPECT_DOUBLE_EQ(after(2), 2);                          // 6 of 8: as wanted
}

// A model that diverged has no norms below C, whatever C is.
TEST(Clipper, AdaptiveStaysWithinWhatItAccepts) {
  const Modules modules;
  for (const double count : {-4.0, 4.0}) {
    Clipper clipper(modules.parameters, {.clip_norm = 2}, {.style = ClipStyle::adaptive, .rate = 1, .count_sigma = 10});
    for (int step = 0; step < 2000; ++step) clipper.follow(count, 8);
    EXPECT_EQ(clipper.clip_norm(), count < 0 ? 1e30 : 1e-10);
    Clipper next(modules.parameters, {.clip_norm = 2}, {.style = ClipStyle::adaptive, .count_sigma = 10});
    next.continue_at(clipper.clip_norm());
    EXPECT_EQ(fault([&] { next.continue_at(1e31); }), "clip norm 1e+31 of an earlier process; expected 1e-10 to 1e+30");
  }
}

// The extremes that are accepted: sums are finite, and a sample without a gradient adds nothing.
TEST(Clipper, ExtremesGiveFiniteCoefficients) {
  const Modules modules;
  for (const double clip_norm : {1e-10, 1e30}) {
    const Clipper clipper(modules.parameters, {.clip_norm = clip_norm},
                          {.style = ClipStyle::automatic, .gamma = 1e-30});
    for (const double c : coefficients(clipper, {0, 1e-300, 1, 1e59})) EXPECT_TRUE(std::isfinite(c)) << clip_norm;
    EXPECT_TRUE(std::isfinite(0x1.8p52 * sum_spacing(clip_norm)));
  }
}

TEST(Clipper, RefusesNonsense) {
  const Modules modules;
  const auto refused = [&](const PrivacyEvent& event, const ClipOptions& options) {
    return fault([&] { const Clipper clipper(modules.parameters, event, options); });
  };
  EXPECT_EQ(refused({.clip_norm = 0}, {}), "clip norm 0 is out of range; expected 1e-10 to 1e+30: --max-grad-norm");
  EXPECT_EQ(refused({.clip_norm = kInf}, {}),
            "clip norm inf is out of range; expected 1e-10 to 1e+30: --max-grad-norm");
  EXPECT_EQ(refused({.clip_norm = 0x1p1010}, {}),
            "clip norm 1.09722e+304 is out of range; expected 1e-10 to 1e+30: --max-grad-norm");
  EXPECT_EQ(refused({}, {.style = ClipStyle::automatic, .gamma = 0}),
            "gamma 0 is out of range; automatic clipping needs 1e-30 or more: --dp.gamma");
  EXPECT_NE(refused({}, {.style = ClipStyle::automatic, .gamma = 1e-320}), "no error") << "C / gamma is infinite";
  EXPECT_EQ(refused(with_sigma(4), {.style = ClipStyle::adaptive, .count_sigma = 2}),
            "count_sigma 2 leaves nothing for the gradient; adaptive clipping with --sigma 4 needs more than half of "
            "that");
}

// A layer of a user, y = gain_t x + square_d x^2: its gradients, and its norms if it says them itself.
struct OwnRule : nn::LayerRule {
  std::vector<const nn::Weight*> weights() const override { return {gain, square}; }
  std::vector<at::Tensor> sample_gradients() const override {
    return {(x_BTD * g_BTD).sum(2), (x_BTD * x_BTD * g_BTD).sum(1)};
  }
  std::vector<at::Tensor> squares() const override {
    if (!norms) return {};
    std::vector<at::Tensor> out;
    for (const auto& each : sample_gradients()) out.push_back(each.to(at::kDouble).square().sum(1));
    return out;
  }
  at::Tensor x_BTD, g_BTD;
  const nn::Weight *gain = nullptr, *square = nullptr;
  bool norms = false;
};

// A layer of each kind, a table tied to the head among them; T, D, P and V differ.
constexpr int64_t kB = 3, kT = 4, kD = 2, kP = 3, kV = 6;
struct Layers {
  explicit Layers(at::ScalarType type = at::kDouble) : sink(at::kDouble) {
    const auto random = [&](at::IntArrayRef shape) { return at::randn(shape, generator, at::kDouble).to(type); };
    parameters.begin_unit("only");
    const auto weight = [&](const char* name, std::vector<int64_t> shape) { return &parameters.add(name, shape, {}); };
    linear = {random({kB, kT, kD}), random({kB, kT, kP}), weight("linear.weight", {kP, kD}),
              weight("linear.bias", {kP})};
    norm = {random({kB, kT, kD}), random({kB, kT, kD}), weight("norm.weight", {kD}), weight("norm.bias", {kD})};
    added = {random({kB, kT, kD}), weight("positions", {kT, kD})};
    const auto* table = weight("table.weight", {kV, kD});
    const auto ids = at::tensor({1, 1, 4, 0, 3, 1, 0, 0, 5, 2, 5, 5}, at::kLong).view({kB, kT});
    head = {.a_BTD = random({kB, kT, kD}),
            .g_BTP = random({kB, kT, kV}),
            .weight = table,
            .bias = nullptr,
            .looked_up_BT = ids};
    lookup = {ids, random({kB, kT, kD}), table, /*padding=*/0};
    own.x_BTD = random({kB, kT, kD}), own.g_BTD = random({kB, kT, kD});
    own.gain = weight("own.gain", {kT}), own.square = weight("own.square", {kD});
    nn::bind_all(parameters, at::kDouble, 1);
  }

  std::vector<nn::LayerGrad> all() const {  // in backward order
    return {head, norm, linear, nn::OwnGrad{own.g_BTD, std::make_shared<OwnRule>(own)}, added, lookup};
  }

  // Each sample's gradient, weight by weight.
  std::vector<std::vector<at::Tensor>> sample_gradients() const {
    std::vector<std::vector<at::Tensor>> out;
    const auto of = [](const at::Tensor& x, int64_t b) { return x[b].to(at::kDouble); };
    for (int64_t b = 0; b < kB; ++b) {
      auto table = at::mm(of(head.g_BTP, b).t(), of(head.a_BTD, b));
      for (int64_t t = 0; t < kT; ++t)
        if (const auto id = lookup.ids_BT[b][t].item<int64_t>(); id != lookup.padding)
          table[id] += of(lookup.g_BTD, b)[t];
      out.push_back({at::mm(of(linear.g_BTP, b).t(), of(linear.a_BTD, b)), of(linear.g_BTP, b).sum(0),
                     (of(norm.xhat_BTD, b) * of(norm.g_BTD, b)).sum(0), of(norm.g_BTD, b).sum(0), of(added.g_BTD, b),
                     table, (of(own.x_BTD, b) * of(own.g_BTD, b)).sum(1),
                     (of(own.x_BTD, b).square() * of(own.g_BTD, b)).sum(0)});
    }
    return out;
  }

  // Clipped one by one and summed, the samples in `left_out` not at all.
  std::vector<at::Tensor> clipped(double norm_bound, const std::vector<int64_t>& left_out = {}) const {
    std::vector<at::Tensor> sum;
    const auto samples = sample_gradients();
    for (int64_t b = 0; b < kB; ++b) {
      if (std::find(left_out.begin(), left_out.end(), b) != left_out.end()) continue;
      const auto& parts = samples[static_cast<size_t>(b)];
      double square = 0;
      for (const auto& part : parts) square += part.square().sum().item<double>();
      const double c = std::min(1.0, norm_bound * (1 - clip_margin(parameters.count_trainable())) / std::sqrt(square));
      for (size_t w = 0; w < parts.size(); ++w) {
        if (sum.size() <= w) sum.push_back(at::zeros_like(parts[w]));
        sum[w] += c * parts[w];
      }
    }
    return sum;
  }

  // As a step does: backward passes, then the second phase.
  void run(Method& method, const at::Tensor& losses_B = at::ones({kB}, at::kDouble), int64_t blank = 0) {
    method.begin(kB, blank);
    for (size_t pass = 0; pass < method.passes().size(); ++pass) {
      method.objective(losses_B, pass);
      for (const auto& grad : all()) method.take(grad);
    }
    method.finish();
  }

  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(3);
  nn::Parameters parameters;
  nn::PlainGradients sink{at::kDouble};
  nn::LinearGrad linear, head;
  nn::ScaleShiftGrad norm;
  nn::AddedGrad added;
  nn::EmbeddingGrad lookup;
  OwnRule own;
};

const auto kMethods = catalog::private_methods();

std::unique_ptr<Method> made(Layers& layers, MethodName name, double bound, const ClipOptions& options = {}) {
  return method_of(name,
                   options)({.parameters = layers.parameters, .sink = layers.sink, .event = {.clip_norm = bound}});
}

void expect_equal(const Layers& layers, const std::vector<at::Tensor>& wanted, double mark, const std::string& what) {
  for (const auto& weight : layers.parameters.weights())
    EXPECT_TRUE(at::allclose(layers.sink.of(weight), wanted[static_cast<size_t>(weight.id())], mark, mark))
        << what << ", " << weight.name();
}

TEST(Methods, SumTheClippedSamplesOfEveryKindOfLayer) {
  for (const auto name : kMethods) {
    Layers layers;
    const double bound = 5;
    const auto method = made(layers, name, bound, {.tile_size = 3});
    layers.run(*method);
    expect_equal(layers, layers.clipped(bound), 1e-8, to_string(name));
    const auto counts = method->drain_counts();
    EXPECT_EQ(counts.samples, kB);
    EXPECT_EQ(counts.not_finite, 0);
    layers.run(*method);  // a second micro-batch is added
    auto twice = layers.clipped(bound);
    for (auto& sum : twice) sum *= 2;
    expect_equal(layers, twice, 1e-8, to_string(name));
  }
}

// An own layer's norms are asked for where its samples' gradients are not kept, and only there.
TEST(Methods, AnOwnLayerMaySayItsNorms) {
  for (const auto name : kMethods) {
    Layers layers;
    layers.own.norms = true;
    const auto method = made(layers, name, 5);
    layers.run(*method);
    expect_equal(layers, layers.clipped(5), 1e-8, to_string(name));
    layers.own.g_BTD[1][2].fill_(kInf);
    layers.sink.clear();
    layers.run(*method);
    expect_equal(layers, layers.clipped(5, {1}), 1e-8, to_string(name));
  }
}

// As with dropout in a forward that is computed again: what the first pass measured doesn't bound the second. Signs and
// orders leave the norms of factors as they are, and change that of their product.
TEST(Methods, TwoPassesMustGiveTheSameGradients) {
  struct Change {
    std::string weight;  // that it is noticed at
    std::function<void(Layers&)> make;
    bool on_accelerators = false;
  };
  const auto reversed = [](at::Tensor x_TD) { x_TD.copy_(x_TD.flip(0).clone()); };
  const std::vector<Change> changes = {
      {"linear.weight", [](Layers& l) { l.linear.g_BTP[1].mul_(3); }},
      {"linear.weight", [](Layers& l) { l.linear.a_BTD[1].mul_(3); }},
      {"linear.weight", [](Layers& l) { l.linear.g_BTP[1][0].neg_(); }},
      {"linear.weight", [&](Layers& l) { reversed(l.linear.a_BTD[1]); }},
      {"linear.weight", [](Layers& l) { l.linear.a_BTD[1][0][0].mul_(1 + 1e-15); }},
      {"linear.weight",
       [](Layers& l) { l.linear.a_BTD = l.linear.a_BTD.view({kB, l.linear.a_BTD.size(2), l.linear.a_BTD.size(1)}); }},
      {"norm.weight", [](Layers& l) { l.norm.xhat_BTD[1].mul_(3); }},
      {"positions", [&](Layers& l) { reversed(l.added.g_BTD[1]); }},
      {"table.weight", [](Layers& l) { l.lookup.ids_BT = l.lookup.ids_BT.clone(), l.lookup.ids_BT[1].fill_(5); }},
      {"table.weight", [](Layers& l) { l.head.looked_up_BT = at::full_like(l.head.looked_up_BT, 5); }},
      {"own.gain", [](Layers& l) { l.own.x_BTD[1].mul_(3); }, true},
      {"own.gain", [](Layers& l) { l.own.norms = true, l.own.x_BTD[1].mul_(3); }, true},
  };
  const bool accelerator = nn::few_launches(at::empty({0}));
  for (const auto name : {MethodName::ghost, MethodName::flash})
    for (size_t i = 0; i < changes.size(); ++i) {
      if (accelerator && !changes[i].on_accelerators) continue;  // not compared there
      Layers layers;
      const auto wanted = layers.clipped(0.5, {1})[7];
      const auto method = made(layers, name, 0.5);
      method->begin(kB);
      for (size_t pass = 0; pass < 2; ++pass) {
        method->objective(at::ones({kB}, at::kDouble), pass);
        const auto error = fault([&] {
          for (const auto& grad : layers.all()) method->take(grad);
        });
        if (pass == 0 || accelerator)
          EXPECT_EQ(error, "no error") << i;
        else
          EXPECT_EQ(
              error,
              text("weight ", changes[i].weight,
                   ": the second backward pass of a clipping method gave other gradients than the first, whose "
                   "norms don't bound them; a layer draws random numbers in a forward that is computed again, or a "
                   "kernel rounds by where its operands lie. Draw random numbers with the batch, or use a "
                   "method of one pass (--dp auto)"))
              << i;
        changes[i].make(layers);
      }
      if (accelerator) {
        EXPECT_TRUE(at::allclose(layers.sink.of(*layers.own.square), wanted, 1e-8, 1e-8))
            << to_string(name) << ": left out";
      }
    }
}

TEST(Methods, TwoPassesMustReportTheSameLayers) {
  if (nn::few_launches(at::empty({0}))) GTEST_SKIP() << "not compared on accelerators";
  const std::string missing = "by the first backward pass and not by the second",
                    another = "where the first reported another";
  const std::vector<std::pair<std::string, std::function<void(Layers&, std::vector<nn::LayerGrad>&)>>> changes = {
      {missing, [](Layers&, auto& all) { all.pop_back(); }},
      {another, [](Layers&, auto& all) { all.push_back(all.back()); }},
      {another, [](Layers& l, auto& all) { l.lookup.padding = 5, all = l.all(); }}};
  for (const auto& [expected, change] : changes) {
    Layers layers;
    const auto method = made(layers, MethodName::ghost, 0.5);
    method->begin(kB);
    method->objective(at::ones({kB}, at::kDouble), 0);
    auto all = layers.all();
    for (const auto& grad : all) method->take(grad);
    method->objective(at::ones({kB}, at::kDouble), 1);
    change(layers, all);
    const auto error = fault([&] {
      for (const auto& grad : all) method->take(grad);
      method->finish();
    });
    EXPECT_NE(error.find(expected), std::string::npos) << error;
  }
}

// What is not a number where nothing is counted is no difference, and neither is a sample that is left out anyhow.
TEST(Methods, TwoPassesMayHoldWhatIsNotANumber) {
  for (const auto name : {MethodName::ghost, MethodName::flash}) {
    Layers layers;
    layers.lookup.g_BTD[1][2].fill_(std::nan(""));  // of a padding id
    const auto method = made(layers, name, 5);
    layers.run(*method);
    layers.lookup.g_BTD[1][2].fill_(0);
    expect_equal(layers, layers.clipped(5), 1e-8, to_string(name));
  }
}

// Norms that a layer says itself may be rounded otherwise than its gradients; its sum is within what it said.
TEST(Methods, AnOwnLayerStaysWithinTheNormsItSaid) {
  for (const auto name : {MethodName::ghost, MethodName::flash}) {
    Layers layers;
    layers.own.norms = true;
    const auto method = made(layers, name, 0.5);
    method->begin(kB);
    method->objective(at::ones({kB}, at::kDouble), 0);
    for (const auto& grad : layers.all()) method->take(grad);
    const auto wanted = layers.clipped(0.5);
    layers.own.x_BTD[1].mul_(1 + 1e-4);  // the gain's gradient, and its norm
    method->objective(at::ones({kB}, at::kDouble), 1);
    for (const auto& grad : layers.all()) method->take(grad);
    EXPECT_TRUE(at::allclose(layers.sink.of(*layers.own.gain), wanted[6], 1e-8, 1e-8)) << to_string(name);
  }
}

TEST(Methods, MaxGradNormIsWhatClips) {
  for (const double bound : {0.01, 3.0, 8.0, 1e6}) {
    Layers layers;
    const auto method = made(layers, MethodName::bookkeeping, bound);
    layers.run(*method);
    expect_equal(layers, layers.clipped(bound), 1e-9 * std::max(10.0, bound), text("C = ", bound));  // the grid
    EXPECT_EQ(method->clipper()->sensitivity(), bound);
    int64_t clipped = 0;
    for (const auto& parts : layers.sample_gradients()) {
      double square = 0;
      for (const auto& part : parts) square += part.square().sum().item<double>();
      clipped += std::sqrt(square) > bound ? 1 : 0;
    }
    const auto counts = method->drain_counts();
    EXPECT_EQ(counts.clipped, clipped);
    EXPECT_EQ(counts.below, kB / 2.0 - static_cast<double>(clipped));
  }
}

// 0 times infinity is no 0: a sample that is not finite is left out, and counted.
TEST(Methods, NotFiniteSamplesAreLeftOut) {
  for (const auto name : kMethods)
    for (const double bad : {kInf, std::nan("")}) {
      Layers layers;
      for (auto* g : {&layers.linear.g_BTP, &layers.norm.g_BTD, &layers.added.g_BTD, &layers.head.g_BTP,
                      &layers.lookup.g_BTD, &layers.own.g_BTD})
        (*g)[1][2].fill_(bad);
      const auto method = made(layers, name, 5);
      layers.run(*method);
      expect_equal(layers, layers.clipped(5, {1}), 1e-8, text(to_string(name), " ", bad));
      EXPECT_EQ(method->drain_counts().not_finite, 1) << to_string(name);
    }
}

TEST(Methods, ASampleWithoutAFiniteLossIsLeftOut) {
  for (const auto name : kMethods) {
    Layers layers;
    const auto method = made(layers, name, 5);
    layers.run(*method, at::tensor({1.0, 1.0, std::nan("")}, at::kDouble));
    expect_equal(layers, layers.clipped(5, {2}), 1e-8, to_string(name));
    EXPECT_EQ(method->drain_counts().not_finite, 1) << to_string(name);
  }
}

// A coefficient that is rounded up to bf16 would lift its sample above the norm by up to 0.4 %, and so would a norm of
// gradients that are rounded to it.
TEST(Methods, NarrowTypesDoNotLiftASampleAboveItsNorm) {
  for (const auto name : kMethods) {
    double mean = 0;
    for (const double bound : {0.1, 0.1004, 0.1008, 0.1012, 0.1016, 0.102, 0.1023, 0.1027}) {
      Layers layers(at::kBFloat16);
      for (auto* g : {&layers.linear.g_BTP, &layers.norm.g_BTD, &layers.added.g_BTD, &layers.head.g_BTP,
                      &layers.lookup.g_BTD, &layers.own.g_BTD})
        for (const int64_t b : {1, 2}) (*g)[b].fill_(std::nan(""));  // sample 0 alone counts
      const auto method = made(layers, name, bound);
      layers.run(*method);
      double square = 0;
      for (const auto& weight : layers.parameters.weights())
        square += layers.sink.of(weight).square().sum().item<double>();
      EXPECT_LE(std::sqrt(square), bound) << to_string(name);
      mean += std::sqrt(square) / bound / 8;
    }
    EXPECT_GT(mean, 0.99) << to_string(name);
  }
}

// One weight, one position: the product of two bf16 numbers lies between two of them.
TEST(Methods, SumWhatTheyMeasureInBf16) {
  for (const auto name : kMethods)
    for (const auto& [a, g] : {std::pair{7, 9}, {7, 11}, {9, 25}, {3, 3}, {127, 127}, {64, 65}}) {
      nn::Parameters parameters;
      parameters.begin_unit("only");
      const auto& weight = parameters.add("weight", {1, 1}, {});
      nn::bind_all(parameters, at::kFloat, 1);
      nn::PlainGradients sink(at::kDouble);
      const auto number = [](int share) { return at::full({1, 1, 1}, 1 + share / 128.0, at::kBFloat16); };
      constexpr double kBound = 0.1;
      const auto method = method_of(name)({.parameters = parameters, .sink = sink, .event = {.clip_norm = kBound}});
      method->begin(1);
      for (size_t pass = 0; pass < method->passes().size(); ++pass) {
        method->objective(at::ones({1}, at::kFloat), pass);
        method->take(nn::LinearGrad{number(a), number(g), &weight, nullptr});
      }
      method->finish();
      const auto sum = sink.of(weight).item<double>();
      EXPECT_LE(sum, kBound) << to_string(name) << " " << a << " " << g;
      EXPECT_GT(sum, kBound * 0.995) << to_string(name) << " " << a << " " << g;
    }
}

// The gradients of lookup and head nearly cancel, to less than the rounding of either: what is left is still clipped.
TEST(Methods, TiedTablesThatCancelStayWithinTheNorm) {
  constexpr int64_t kRows = 6, kWidth = 5;
  for (const auto name : kMethods)
    for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16})
      for (const double left : {1e-2, 1e-4, 1e-5, 0.0})
        for (uint64_t seed = 0; seed < 10; ++seed) {
          auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
          nn::Parameters parameters;
          parameters.begin_unit("only");
          const auto* table = &parameters.add("table", {kRows, kWidth}, {});
          nn::bind_all(parameters, at::kFloat, 1);
          nn::PlainGradients sink(at::kDouble);
          const auto ids = at::arange(kRows).view({1, kRows});
          auto z = at::zeros({1, kRows, kRows}, type), x = at::zeros({1, kRows, kWidth}, type);
          z[0][3].copy_(at::randn({kRows}, generator)), x[0][3].copy_(at::randn({kWidth}, generator));
          const auto h = at::bmm(z.to(at::kDouble).transpose(1, 2), x.to(at::kDouble));
          const nn::EmbeddingGrad lookup{ids, (left * at::randn(h.sizes(), generator, at::kDouble) - h).to(type), table,
                                         -1};
          const nn::LinearGrad head{.a_BTD = x, .g_BTP = z, .weight = table, .bias = nullptr, .looked_up_BT = ids};
          for (const double bound : {1e-2, 1e-4, 1e-6}) {
            sink.clear();
            const auto method =
                method_of(name)({.parameters = parameters, .sink = sink, .event = {.clip_norm = bound}});
            method->begin(1);
            for (size_t pass = 0; pass < method->passes().size(); ++pass) {
              method->objective(at::ones({1}, at::kFloat), pass);
              method->take(head);
              method->take(lookup);
            }
            method->finish();
            EXPECT_LE(sink.of(*table).to(at::kDouble).norm().item<double>(), bound)
                << to_string(name) << " " << toString(type) << ", left " << left << ", seed " << seed;
          }
        }
}

// A micro-batch that failed in the middle of backward leaves nothing for the next one, whose coefficients are others.
TEST(Methods, ForgetAMicroBatchThatFailed) {
  for (const auto name : kMethods)
    for (size_t taken = 0; taken <= Layers().all().size(); ++taken) {
      Layers layers;
      const auto method = made(layers, name, 5);
      method->begin(kB);
      method->objective(at::ones({kB}, at::kDouble), 0);
      auto failed = layers.all();
      failed.resize(taken);
      for (const auto& grad : failed) method->take(grad);
      layers.sink.clear();
      layers.run(*method);
      expect_equal(layers, layers.clipped(5), 1e-8, to_string(name) + ", failed after " + std::to_string(taken));
    }
}

// Blank samples fill a micro-batch up: their factors are in no sum, and they in no count, whatever they are.
TEST(Methods, BlankSamplesWeighNothingAndCountNowhere) {
  for (const auto name : kMethods) {
    Layers layers;
    for (auto* g : {&layers.linear.g_BTP, &layers.norm.g_BTD, &layers.added.g_BTD, &layers.head.g_BTP,
                    &layers.lookup.g_BTD, &layers.own.g_BTD})
      (*g)[2].fill_(name == MethodName::flash ? std::nan("") : 3.0);
    const auto method = made(layers, name, 5);
    method->record_norms(true);
    layers.run(*method, at::ones({kB}, at::kDouble), /*blank=*/1);
    expect_equal(layers, layers.clipped(5, {2}), 1e-8, to_string(name));
    const auto counts = method->drain_counts();
    EXPECT_EQ(counts.samples, kB - 1) << to_string(name);
    EXPECT_EQ(counts.not_finite, 0) << to_string(name);
    EXPECT_LE(counts.clipped, kB - 1) << to_string(name);
    EXPECT_LE(std::abs(counts.below), (kB - 1) / 2.0) << to_string(name);
    EXPECT_EQ(method->drain_norms().at(0).squares_B.numel(), kB - 1) << to_string(name);
  }
}

// An empty batch is a batch: every weight gets its (empty) sum, and nothing is counted.
TEST(Methods, AnEmptyBatchSumsToZero) {
  for (const auto name : kMethods) {
    Layers layers;
    const auto none = at::empty({0}, at::kLong);
    const auto empty = [&](auto&... tensors) { ((tensors = tensors.index_select(0, none)), ...); };
    empty(layers.linear.a_BTD, layers.linear.g_BTP, layers.norm.xhat_BTD, layers.norm.g_BTD, layers.added.g_BTD,
          layers.head.a_BTD, layers.head.g_BTP, layers.head.looked_up_BT, layers.lookup.ids_BT, layers.lookup.g_BTD,
          layers.own.x_BTD, layers.own.g_BTD);
    const auto method = made(layers, name, 1);
    method->begin(0);
    for (size_t pass = 0; pass < method->passes().size(); ++pass) {
      method->objective(at::empty({0}, at::kDouble), pass);
      for (const auto& grad : layers.all()) method->take(grad);
    }
    method->finish();
    for (const auto& weight : layers.parameters.weights())
      EXPECT_TRUE(layers.sink.of(weight).equal(at::zeros(weight.shape(), at::kDouble))) << to_string(name);
    EXPECT_EQ(method->drain_counts().samples, 0);
  }
}

}  // namespace
}  // namespace shade::privacy
