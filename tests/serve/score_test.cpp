// Figures of an evaluation beside those counted by hand.
#include "shade/serve/score.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace shade::serve {
namespace {

// "Predicts" the class that its texts begin with.
class Parrot : public models::Model {
 public:
  at::Tensor losses(const nn::Batch& batch) override { return at::zeros({batch.samples()}); }
  at::Tensor outputs(const nn::Batch& batch) override {
    return at::one_hot(batch.ids_BT.select(1, 0), 4).to(at::kFloat);
  }
};

nn::Batch labelled(const std::vector<int64_t>& predicted, const std::vector<int64_t>& labels) {
  return {.ids_BT = at::tensor(predicted).unsqueeze(1), .labels = at::tensor(labels)};
}

TEST(Tally, CountsClasses) {
  Parrot model;
  train::Tally tally(at::kCPU);
  tally.add(model, labelled({0, 0, 1}, {0, 1, 1}));
  tally.add(model, labelled({0, 2, 1}, {0, 0, 1}));
  const auto found = train::Tally::evaluation(tally.sums());
  EXPECT_EQ(found.records, 6);
  EXPECT_NEAR(*found.accuracy, 4 / 6.0, 1e-12);
  EXPECT_NEAR(*found.majority, 3 / 6.0, 1e-12);
  // class 0: 2 right, 3 there, 3 predicted; class 1: 2, 3, 2; class 2: 0, 0, 1; class 3 neither is nor was predicted
  EXPECT_NEAR(*found.f1, (2 * 2 / 6.0 + 2 * 2 / 5.0 + 0) / 3, 1e-12);
  EXPECT_FALSE(found.perplexity);
}

TEST(Tally, PartsAddUp) {
  Parrot model;
  train::Tally all(at::kCPU), first(at::kCPU), second(at::kCPU);
  const auto a = labelled({0, 3}, {0, 1}), b = labelled({2}, {2});
  all.add(model, a), all.add(model, b), first.add(model, a), second.add(model, b);
  EXPECT_TRUE(at::equal(all.sums(), first.sums() + second.sums()));
}

}  // namespace
}  // namespace shade::serve
