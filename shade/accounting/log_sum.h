// Sums of exponentials that never leave the logarithm.
#pragma once

#include <cmath>

namespace shade::privacy {

inline double log_expm1(double z) { return z > 30 ? z + std::log1p(-std::exp(-z)) : std::log(std::expm1(z)); }
inline double log1p_exp(double z) { return z > 40 ? z : std::log1p(std::exp(z)); }

class LogSum {
 public:
  void add(double term) {
    if (term == -INFINITY) return;
    if (term > largest_) {
      sum_ = sum_ * std::exp(largest_ - term) + 1;
      largest_ = term;
    } else {
      sum_ += std::exp(term - largest_);
    }
  }
  double log() const { return largest_ == -INFINITY ? -INFINITY : largest_ + std::log(sum_); }

 private:
  double largest_ = -INFINITY;
  double sum_ = 0;
};

}  // namespace shade::privacy
