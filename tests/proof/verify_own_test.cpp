// What is brought from outside passes the same checks, by a public call; what is wrong fails them.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "shade/models/linear_stack.h"
#include "shade/proof/verify.h"
#include "tests/support/ranks.h"
#include "tests/train/own_method.h"

namespace shade::proof {
namespace {

std::vector<VerifyRow> rows_of(const VerifyConfig& config, int ranks) {
  std::vector<VerifyRow> out;
  test::run_ranks(ranks, test::As::threads, [&](comm::World& world) {
    at::set_num_threads(1);
    const auto rows = verify(world, config, {}, {});
    if (world.rank() == 0) out = rows;
  });
  return out;
}

TEST(VerifyOwn, AMethodFromOutside) {
  VerifyConfig config{.own_method = train::own_method()};
  const auto rows = rows_of(config, 2);
  EXPECT_FALSE(rows.empty());
  for (const auto& row : rows) EXPECT_TRUE(row.pass && row.method == "own") << row.json();
  config.model = "qwen2-nano";
  config.own_method = train::own_method({.factor = 1.01});
  for (const auto& row : rows_of(config, 1)) EXPECT_FALSE(row.pass) << row.json();
}

TEST(VerifyOwn, AModelFromOutside) {
  VerifyConfig config;
  config.own_model = [] {
    return std::make_unique<models::LinearStack>(models::LinearStackConfig{.width = 5, .depth = 2},
                                                 models::ModelOptions{});
  };
  const auto rows = rows_of(config, 2);
  EXPECT_FALSE(rows.empty());
  for (const auto& row : rows) EXPECT_TRUE(row.pass && row.model == "own") << row.json();
}

}  // namespace
}  // namespace shade::proof
