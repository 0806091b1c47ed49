#include "shade/nn/attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "shade/nn/positions.h"

namespace shade::nn {
namespace {

struct Case {
  int64_t heads, kv_heads;
  bool causal, masked;
};

// The textbook formula on libtorch's autograd.
at::Tensor textbook(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Case& c,
                    const at::Tensor& visible) {
  const auto times = c.heads / c.kv_heads;
  const auto key = k.repeat_interleave(times, 2).transpose(1, 2), value = v.repeat_interleave(times, 2).transpose(1, 2);
  auto scores = at::matmul(q.transpose(1, 2), key.transpose(-1, -2)) / std::sqrt(static_cast<double>(q.size(3)));
  const auto t = q.size(1);
  if (c.causal) scores = scores.masked_fill(at::ones({t, t}, at::kBool).triu(1), -INFINITY);
  if (c.masked) scores = scores.masked_fill(visible.logical_not().view({-1, 1, 1, t}), -INFINITY);
  return at::matmul(at::softmax(scores, -1), value).transpose(1, 2);
}

TEST(Attention, BothKernelsEqualTheTextbook) {
  for (const auto kernel : {AttentionKernel::flash, AttentionKernel::standard}) {
    for (const auto& c :
         {Case{4, 4, false, false}, Case{4, 2, true, false}, Case{4, 1, false, true}, Case{6, 2, true, true}}) {
      const auto make = [&](int64_t heads) { return at::randn({2, 7, heads, 8}, at::kDouble); };
      const std::vector<at::Tensor> start{make(c.heads), make(c.kv_heads), make(c.kv_heads)};
      auto visible = at::ones({2, 7}, at::kBool);
      visible.index_put_({at::tensor({1, 1}), at::tensor({5, 6})}, at::zeros({2}, at::kBool));
      std::vector<at::Tensor> mine, theirs;
      for (const auto& tensor : start) {
        mine.push_back(tensor.clone().set_requires_grad(true));
        theirs.push_back(tensor.clone().set_requires_grad(true));
      }
      const auto a = attention(mine[0], mine[1], mine[2],
                               {.causal = c.causal, .kernel = kernel, .visible_BT = c.masked ? visible : at::Tensor()});
      const auto b = textbook(theirs[0], theirs[1], theirs[2], c, visible);
      EXPECT_TRUE(at::allclose(a, b, 1e-10, 1e-12));
      const auto g = at::randn(a.sizes(), at::kDouble);
      torch::autograd::backward({a}, {g});
      torch::autograd::backward({b}, {g});
      for (size_t i = 0; i < 3; ++i)
        EXPECT_TRUE(at::allclose(mine[i].grad(), theirs[i].grad(), 1e-10, 1e-12))
            << to_string(kernel) << " input " << i;
    }
  }
}

// Several runs in a sample are as many calls, forward and backward.
TEST(Attention, RunsSeeThemselvesAlone) {
  const auto documents = at::tensor({0, 0, 0, 1, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0}, at::kLong).view({2, 7});
  EXPECT_EQ(runs_of(documents), (std::vector<int64_t>{3, 2, 1, 1, 7}));
  EXPECT_TRUE(runs_of(documents.narrow(0, 0, 0)).empty());
  for (const auto kernel : {AttentionKernel::flash, AttentionKernel::standard}) {
    std::vector<at::Tensor> mine, theirs;
    for (const int64_t heads : {4, 2, 2}) {
      const auto start = at::randn({2, 7, heads, 8}, at::kDouble);
      mine.push_back(start.clone().set_requires_grad(true));
      theirs.push_back(start.clone().set_requires_grad(true));
    }
    const auto a = attention(mine[0], mine[1], mine[2], {.causal = true, .kernel = kernel, .runs = runs_of(documents)});
    std::vector<at::Tensor> parts;
    struct Run {
      int64_t sample, begin, size;
    };
    for (const auto& r : {Run{0, 0, 3}, Run{0, 3, 2}, Run{0, 5, 1}, Run{0, 6, 1}, Run{1, 0, 7}}) {
      const auto run = [&](const at::Tensor& x) { return x.narrow(0, r.sample, 1).narrow(1, r.begin, r.size); };
      parts.push_back(textbook(run(theirs[0]), run(theirs[1]), run(theirs[2]), {4, 2, true, false}, {}));
    }
    const auto b = at::cat(parts, 1).view({2, 7, 4, 8});
    EXPECT_TRUE(at::allclose(a, b, 1e-10, 1e-12));
    const auto g = at::randn(a.sizes(), at::kDouble);
    torch::autograd::backward({a}, {g});
    torch::autograd::backward({b}, {g});
    for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(at::allclose(mine[i].grad(), theirs[i].grad(), 1e-10, 1e-12)) << i;
  }
}

TEST(Attention, ShapesOnMeta) {
  const auto meta = at::TensorOptions(at::kMeta).dtype(at::kBFloat16);
  auto q = at::empty({1, 131072, 32, 128}, meta).set_requires_grad(true);
  const auto k = at::empty({1, 131072, 8, 128}, meta).set_requires_grad(true);
  const auto y = attention(q, k, k, {.causal = true});
  EXPECT_EQ(y.sizes(), q.sizes());
  torch::autograd::backward({y.sum()}, {});
  EXPECT_EQ(k.grad().sizes(), k.sizes());
}

TEST(Rope, TurnsBack) {
  const auto table =
      rope_table({.head_dim = 8, .theta = 10000, .scaling = RopeScaling{.original_max_position = 16}}, 9, at::kDouble);
  const auto x = at::randn({2, 9, 3, 8}, at::kDouble).set_requires_grad(true);
  const auto y = rotate(x, table);
  EXPECT_TRUE(at::allclose(y.norm(2, -1), x.norm(2, -1))) << "a rotation keeps lengths";
  EXPECT_TRUE(at::allclose(y.select(1, 0), x.select(1, 0))) << "position 0 stays";
  torch::autograd::backward({y}, {y.detach()});
  EXPECT_TRUE(at::allclose(x.grad(), x.detach())) << "the transpose is the inverse";
}

}  // namespace
}  // namespace shade::nn
