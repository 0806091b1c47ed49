// Repeats of a matrix: in which order rows run, and when there are enough of them.
#pragma once

#include <optional>
#include <random>

#include "shade/measure/matrix.h"
#include "shade/measure/paired.h"

namespace shade::measure {

// Every round runs every row once; rows that are compared run next to each other, in random order (paired.h says why).
class Rounds {
 public:
  Rounds(const std::vector<MatrixRow>& rows, const RepeatRule& rule);

  // After whole rounds: the number that was asked for, or all ratios precise, or the next round wouldn't end in time.
  bool enough();
  int64_t done() const { return done_; }
  std::vector<size_t> next_round();  // begins it: rows in their order, without those that failed
  void record(size_t row, double time_ms) { times_[row].push_back(time_ms); }
  void failed(size_t row) { failed_[row] = true; }

  std::optional<Ratio> ratio(size_t row) const;  // empty: it is compared with none, or one of the two failed
  // Why ratios are not as precise as they should be, and what to do; empty: they are, or nothing is compared.
  std::string advice() const;

 private:
  bool compared(size_t row) const;
  bool all_precise() const;
  Seconds budget() const;

  RepeatRule rule_;
  std::vector<std::string> names_;
  std::vector<std::optional<size_t>> references_;
  std::vector<std::vector<size_t>> groups_;
  std::vector<std::vector<double>> times_;
  std::vector<bool> failed_;
  std::mt19937_64 random_{std::random_device{}()};
  int64_t done_ = 0;
  Clock::time_point begin_ = Clock::now(), round_begin_ = begin_;
  Seconds first_round_{0}, longest_round_{0};
};

// Which row of a matrix each row is compared with.

// The same row with another method: without privacy if the matrix has that, else the first. If it has the first
// method itself: the same row with the first strategy, and so on through the other axes. Axes that change the amount of
// work (lengths, batches, sizes, models) are not compared over: empty if only those differ.
std::vector<std::optional<size_t>> references_of(const std::vector<MatrixRow>& rows);

// Rows that are compared with each other, directly or not: they run next to each other. Indices, by group.
std::vector<std::vector<size_t>> groups_of(const std::vector<std::optional<size_t>>& references);

}  // namespace shade::measure
