// A size that crosses between ranks without a seal decides neither what is believed nor what is allocated.
#include "shade/checkpoint/agreement.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <deque>

#include "shade/comm/errors.h"

namespace shade::checkpoint {
namespace {

// A group of two in which somebody answers every all_reduce with a number of his own.
class ForgedSizes final : public comm::Transport {
 public:
  explicit ForgedSizes(std::deque<int64_t> answers) : answers_(std::move(answers)) {}
  std::shared_ptr<comm::Pending> submit(comm::Operation operation, comm::Hooks hooks) override {
    hooks.started(Clock::now());
    if (operation.kind == comm::Collective::all_reduce) {
      operation.output.fill_(answers_.front());
      answers_.pop_front();
    }
    hooks.ended(Clock::now(), {});
    struct Done final : comm::Pending {
      void wait() override {}
      bool done() const override { return true; }
    };
    return std::make_shared<Done>();
  }
  void refuse(std::exception_ptr) override {}
  void abort(std::exception_ptr) override {}

 private:
  std::deque<int64_t> answers_;
};

comm::Group forged_group(std::deque<int64_t> answers) {
  return comm::Group({.rank = 0,
                      .global_ranks = {0, 1},
                      .name = "g",
                      .transport = std::make_unique<ForgedSizes>(std::move(answers)),
                      .activity = std::make_shared<comm::Activity>(),
                      .traffic = std::make_shared<comm::TrafficLog>(),
                      .seals = std::make_shared<comm::Seals>(comm::Secret::of(comm::Secret::new_digits()))});
}

std::string words_of_fault(const std::function<void()>& work) {
  try {
    work();
  } catch (const comm::CommError& error) {
    return error.what();
  }
  return "none";
}

TEST(Agreement, RefusesForgedNumbers) {
  const auto refused = [](const std::string& fault) {
    return fault.find("it was changed on its way") != std::string::npos;
  };
  const auto fails = [] { throw Error("a fault of this rank"); };
  EXPECT_EQ(words_of_fault([] { together(forged_group({0}), "part", [] {}); }), "none");
  EXPECT_TRUE(refused(words_of_fault([&] { together(forged_group({0}), "part", fails); })))
      << "the fault would be hidden";
  EXPECT_TRUE(refused(words_of_fault([&] { together(forged_group({-1}), "part", fails); })));
  EXPECT_TRUE(refused(words_of_fault([&] { together(forged_group({int64_t{1} << 60}), "part", fails); })))
      << "too much to allocate";
  const auto words = [] { return std::string("words"); };
  EXPECT_TRUE(refused(words_of_fault([&] { from_rank0(forged_group({0, 4}), "part", words); }))) << "cut";
  EXPECT_TRUE(refused(words_of_fault([&] { from_rank0(forged_group({0, int64_t{1} << 40}), "part", words); })))
      << "too much to allocate";
}

}  // namespace
}  // namespace shade::checkpoint
