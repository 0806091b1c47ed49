// Real numbers by intervals: what rounding leaves open is decided by more digits, never by a guess.
//
// An Enclosure holds a number between two floats of MPFR. Each operation gives an interval that holds the result for
// every number in its operands, at the precision of the more precise one. Slow, some microseconds each: for the few
// numbers that a fast computation with a known error can't decide.
#pragma once

#include <mpfr.h>

#include <cstdint>
#include <optional>
#include <span>

namespace shade::exact {

// A float of MPFR.
class Real {
 public:
  explicit Real(mpfr_prec_t precision) {
    // MPFR keeps constants for each thread, and leaves them to the thread to free.
    struct Constants {
      ~Constants() { mpfr_free_cache(); }
    };
    [[maybe_unused]] thread_local const Constants freed_with_the_thread;
    mpfr_init2(value_, precision);
  }
  Real(const Real& other) : Real(mpfr_get_prec(other.value_)) { mpfr_set(value_, other.value_, MPFR_RNDN); }
  Real(Real&& other) noexcept : Real(MPFR_PREC_MIN) { mpfr_swap(value_, other.value_); }
  Real& operator=(Real other) noexcept {
    mpfr_swap(value_, other.value_);
    return *this;
  }
  ~Real() { mpfr_clear(value_); }

  operator mpfr_ptr() { return value_; }
  operator mpfr_srcptr() const { return value_; }

 private:
  mpfr_t value_;
};

class Enclosure {
 public:
  Enclosure(double value);  // exactly that number
  // A number in [0, 1] whose first `bits` binary digits are known: the leading ones of `words`. Both ends are exact.
  static Enclosure fraction(std::span<const uint32_t> words, int bits);

  Enclosure operator-() const;
  friend Enclosure operator+(const Enclosure& a, const Enclosure& b);
  friend Enclosure operator*(const Enclosure& a, const Enclosure& b);
  friend Enclosure operator/(const Enclosure& a, const Enclosure& b);  // b doesn't hold 0
  Enclosure scaled(int exponent) const;                                // times 2^exponent

  // At `precision` more bits than this number has.
  Enclosure logarithm(int precision = 0) const;          // of a number of at least 0
  Enclosure logarithm_of_one_plus(int precision) const;  // of a number above -1
  Enclosure square_root() const;                         // of a number of at least 0

  struct Point;
  Point quarter_turn(int precision) const;

  // The integer that every number of the interval is rounded to (the even one of two), or that is its floor; nothing if
  // there are several. Integers beyond 2^53 are rounded to fp64.
  std::optional<double> nearest() const { return common(mpfr_roundeven); }
  std::optional<double> floor() const { return common(mpfr_floor); }
  double low() const { return mpfr_get_d(low_, MPFR_RNDD); }
  double high() const { return mpfr_get_d(high_, MPFR_RNDU); }

 private:
  explicit Enclosure(mpfr_prec_t precision) : low_(precision), high_(precision) {}
  std::optional<double> common(int (*integer)(mpfr_ptr, mpfr_srcptr)) const;
  mpfr_prec_t precision() const { return mpfr_get_prec(low_); }

  Real low_, high_;
};

// Cosine and sine of x pi/4 for x in [-1, 1].
struct Enclosure::Point {
  Enclosure cosine, sine;
};

}  // namespace shade::exact
