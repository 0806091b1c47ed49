// Every collective x backend x W x dtype x size, equal to a computation in one process. Data differs by rank, sizes
// don't divide by W. Equality is to the bit on the CPU, for sums too: the order of addition is part of the contract.
// Sums of a device keep to sum_tolerance. NCCL's cases are there if each rank finds a device.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "shade/comm/backends/simulated.h"
#include "shade/comm/partition.h"
#include "tests/support/ranks.h"

namespace shade::comm {
namespace {

struct Case {
  std::string backend;
  int ranks;
  at::ScalarType type;
  int64_t elements;
};

// What every rank puts in and what must come out, computed once by one thread.
struct Expected {
  explicit Expected(const Case& c) {
    // all_to_all sends up to 2 W^2 elements more than N.
    const auto room = c.elements + 2 * c.ranks * c.ranks;
    const auto base = at::arange(room, at::kInt).mul_(40503).bitwise_and_(0xffff).to(at::kFloat).div_(977).sub_(31);
    for (int rank = 0; rank < c.ranks; ++rank) {
      inputs.push_back((base * static_cast<float>(rank + 1) + static_cast<float>(rank)).to(c.type));
      const auto part = inputs.back().narrow(0, 0, c.elements).to(at::kFloat);
      sum = rank == 0 ? part : sum + part;
      magnitude = rank == 0 ? part.abs() : magnitude + part.abs();
      max = rank == 0 ? part : at::maximum(max, part);
      min = rank == 0 ? part : at::minimum(min, part);
    }
    for (auto* reduced : {&sum, &max, &min}) *reduced = reduced->to(c.type);
  }
  at::Tensor input(int rank, int64_t elements) const {
    return inputs[static_cast<size_t>(rank)].narrow(0, 0, elements).clone();
  }
  std::vector<at::Tensor> inputs;
  at::Tensor sum, max, min;
  at::Tensor magnitude;  // the sum of absolute values
};

void expect_same(const at::Tensor& found, const at::Tensor& expected, const char* what) {
  EXPECT_TRUE(at::equal(found.cpu(), expected))
      << what << ": largest difference "
      << (found.cpu().to(at::kDouble) - expected.to(at::kDouble)).abs().max().item<double>();
}

// One more rounding, of results in bf16, may fall to the other side.
void expect_near(const at::Tensor& found, const at::Tensor& expected, const at::Tensor& magnitude, int ranks,
                 const char* what) {
  const double rounding = expected.scalar_type() == at::kBFloat16 ? 0x1p-7 : 0;
  const auto limit = magnitude.to(at::kDouble) * sum_tolerance(ranks) + expected.to(at::kDouble).abs() * rounding;
  const auto off = (found.cpu().to(at::kDouble) - expected.to(at::kDouble)).abs() - limit;
  EXPECT_LE(off.max().item<double>(), 0) << what;
}

void check_all(const Case& c, const Expected& expected, const Group& group, at::Device device = at::kCPU) {
  const int rank = group.rank();
  const auto mine = slice_of(c.elements, c.ranks, rank);
  const auto options = at::TensorOptions(c.type).device(device);
  const auto input = [&](int of, int64_t elements) { return expected.input(of, elements).to(device); };

  auto gathered = at::empty({c.elements}, options);
  const auto whole = expected.inputs[0].narrow(0, 0, c.elements);
  group.all_gather(gathered, whole.narrow(0, mine.begin, mine.size).clone().to(device)).wait();
  expect_same(gathered, whole, "all_gather");

  for (const auto& [reduce, result] :
       {std::pair{Reduce::sum, &expected.sum}, {Reduce::max, &expected.max}, {Reduce::min, &expected.min}}) {
    auto slice = at::empty({mine.size}, options);
    group.reduce_scatter(slice, input(rank, c.elements), {.reduce = reduce}).wait();
    auto all = input(rank, c.elements);
    group.all_reduce(all, {.reduce = reduce}).wait();
    if (reduce == Reduce::sum && !device.is_cpu() && mine.size > 0) {
      expect_near(slice, result->narrow(0, mine.begin, mine.size), expected.magnitude.narrow(0, mine.begin, mine.size),
                  c.ranks, "reduce_scatter");
      expect_near(all, *result, expected.magnitude, c.ranks, "all_reduce");
    } else {
      expect_same(slice, result->narrow(0, mine.begin, mine.size), "reduce_scatter");
      expect_same(all, *result, "all_reduce");
    }
    if (c.elements > 1'000'000) break;
  }

  auto sent = input(rank, c.elements);
  group.broadcast(sent, {.root = c.ranks - 1}).wait();
  expect_same(sent, expected.input(c.ranks - 1, c.elements), "broadcast");

  // Rank r sends r + j + N / W elements to rank j.
  std::vector<int64_t> out, in;
  std::vector<at::Tensor> parts;
  const auto length = [&](int from, int to) { return from + to + c.elements / c.ranks; };
  for (int peer = 0; peer < c.ranks; ++peer) {
    in.push_back(length(rank, peer));
    out.push_back(length(peer, rank));
    int64_t before = 0;
    for (int j = 0; j < rank; ++j) before += length(peer, j);
    parts.push_back(expected.inputs[static_cast<size_t>(peer)].narrow(0, before, out.back()));
  }
  const auto total = [](const std::vector<int64_t>& splits) {
    return std::accumulate(splits.begin(), splits.end(), int64_t{0});
  };
  auto received = at::empty({total(out)}, options);
  group.all_to_all(received, input(rank, total(in)), {.output_splits = out, .input_splits = in}).wait();
  expect_same(received, at::cat(parts), "all_to_all");

  group.barrier().wait();
}

void run_simulated(const Case& c, const Expected& expected) {
  const auto meeting = make_meeting(c.ranks);
  std::vector<int> ranks(static_cast<size_t>(c.ranks));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < c.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      auto backend = make_simulated(
          rank, c.ranks, {.journal = std::make_shared<Journal>(), .global_ranks = ranks, .meeting = meeting});
      check_all(c, expected,
                Group({.rank = rank,
                       .global_ranks = ranks,
                       .name = "simulated",
                       .transport = make_native(std::move(backend), rank, c.ranks),
                       .activity = std::make_shared<Activity>(),
                       .traffic = std::make_shared<TrafficLog>()}));
    });
  }
  for (auto& thread : threads) thread.join();
}

class Conformance : public testing::TestWithParam<Case> {};

TEST_P(Conformance, EqualsOneProcess) {
  const auto& c = GetParam();
  const Expected expected(c);
  if (c.backend == "simulated") return run_simulated(c, expected);
  test::run_ranks(c.ranks, test::As::threads,
                  [&](World& world) {
                    const auto algorithms = c.backend == "gloo_stock" ? Algorithms::native : Algorithms::best;
                    check_all(c, expected, world.group("g", {}, algorithms), world.device());
                  },
                  {.backend = c.backend == "nccl" ? BackendKind::nccl : BackendKind::gloo});
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* backend : {"gloo", "simulated", "nccl"})
    for (int ranks = 1; ranks <= (backend == std::string("nccl") ? nccl_devices() : 5); ++ranks)
      for (const auto type : {at::kFloat, at::kBFloat16})
        for (const int64_t elements : {int64_t{1}, int64_t{7}, int64_t{100'003},
                                       (int64_t{64} << 20) / static_cast<int64_t>(at::elementSize(type))})
          all.push_back({backend, ranks, type, elements});
  // The stock collectives through our contract: padding and widening around a backend that lacks them.
  for (const int64_t elements : {int64_t{1}, int64_t{100'003}}) all.push_back({"gloo_stock", 2, at::kFloat, elements});
  return all;
}

std::string name_of(const testing::TestParamInfo<Case>& info) {
  const auto& c = info.param;
  return text(c.backend, "_W", c.ranks, "_", c.type == at::kFloat ? "fp32" : "bf16", "_",
              c.elements > 1'000'000 ? "64MiB" : std::to_string(c.elements));
}

INSTANTIATE_TEST_SUITE_P(All, Conformance, testing::ValuesIn(cases()), name_of);

}  // namespace
}  // namespace shade::comm
