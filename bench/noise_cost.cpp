// Time of the noise per number, on one thread: the best of several rounds. bench/noise_cost.py compares two builds.
//
// usage: noise_cost [elements = 2^20] [rounds = 20]
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "shade/privacy/noise.h"

int main(int count, char** words) {
  using Clock = std::chrono::steady_clock;
  const int64_t elements = count > 1 ? std::atoll(words[1]) : 1 << 20;
  const int rounds = count > 2 ? std::atoi(words[2]) : 20;
  at::set_num_threads(1);
  const shade::privacy::Noise noise(shade::privacy::seeded_key(1));
  auto sums = at::zeros({elements}, at::kDouble);
  double best = 1e300;
  for (int round = -1; round < rounds; ++round) {  // the first warms up
    const auto begin = Clock::now();
    noise.add(sums, 0.5, static_cast<uint64_t>(round + 1), 0, 0);
    const std::chrono::duration<double, std::nano> time = Clock::now() - begin;
    if (round >= 0) best = std::min(best, time.count() / static_cast<double>(elements));
  }
  std::printf("%.4f ns per number\n", best);
}
