#include "shade/exact/enclosure.h"

#include <algorithm>
#include <array>

#include "shade/base/error.h"

namespace shade::exact {
namespace {

// The least and the greatest of the products of ends, or quotients. A NaN (0 times infinity) is the result, which then
// holds no number and decides nothing.
template <class Operation>
void over_ends(const std::array<mpfr_srcptr, 2>& a, const std::array<mpfr_srcptr, 2>& b, const Operation& operation,
               Real& low, Real& high) {
  Real each(mpfr_get_prec(low));
  bool first = true;
  for (auto* x : a)
    for (auto* y : b) {
      operation(each, x, y, MPFR_RNDD);
      if (first || mpfr_nan_p(each) != 0 || mpfr_less_p(each, low) != 0) mpfr_set(low, each, MPFR_RNDD);
      operation(each, x, y, MPFR_RNDU);
      if (first || mpfr_nan_p(each) != 0 || mpfr_greater_p(each, high) != 0) mpfr_set(high, each, MPFR_RNDU);
      if (mpfr_nan_p(each) != 0) return;
      first = false;
    }
}

// x pi/4, rounded towards `round`.
void eighth_of_turn(Real& out, mpfr_srcptr x, mpfr_rnd_t round) {
  const bool up = (round == MPFR_RNDU) == (mpfr_cmp_ui(x, 0) >= 0);  // away from what the sign makes smaller
  mpfr_const_pi(out, up ? MPFR_RNDU : MPFR_RNDD);
  mpfr_mul(out, out, x, round);
  mpfr_div_2ui(out, out, 2, round);
}

}  // namespace

Enclosure::Enclosure(double value) : Enclosure(mpfr_prec_t{53}) {
  mpfr_set_d(low_, value, MPFR_RNDD);
  mpfr_set_d(high_, value, MPFR_RNDU);
}

Enclosure Enclosure::fraction(std::span<const uint32_t> words, int bits) {
  SHADE_CHECK(bits > 0 && bits <= 32 * std::ssize(words), bits, " bits can't be taken from ", words.size(), " words");
  Enclosure out(mpfr_prec_t{bits + 1});  // the upper end can be 2^bits before it is scaled
  mpfr_set_ui(out.low_, 0, MPFR_RNDD);
  for (int done = 0; done < bits; done += 32) {
    const int taken = std::min(32, bits - done);
    mpfr_mul_2ui(out.low_, out.low_, static_cast<unsigned>(taken), MPFR_RNDD);
    mpfr_add_ui(out.low_, out.low_, words[static_cast<size_t>(done / 32)] >> (32 - taken), MPFR_RNDD);
  }
  mpfr_add_ui(out.high_, out.low_, 1, MPFR_RNDU);
  return out.scaled(-bits);
}

Enclosure Enclosure::operator-() const {
  Enclosure out(precision());
  mpfr_neg(out.low_, high_, MPFR_RNDD);
  mpfr_neg(out.high_, low_, MPFR_RNDU);
  return out;
}

Enclosure operator+(const Enclosure& a, const Enclosure& b) {
  Enclosure out(std::max(a.precision(), b.precision()));
  mpfr_add(out.low_, a.low_, b.low_, MPFR_RNDD);
  mpfr_add(out.high_, a.high_, b.high_, MPFR_RNDU);
  return out;
}

Enclosure operator*(const Enclosure& a, const Enclosure& b) {
  Enclosure out(std::max(a.precision(), b.precision()));
  over_ends({a.low_, a.high_}, {b.low_, b.high_}, mpfr_mul, out.low_, out.high_);
  return out;
}

Enclosure operator/(const Enclosure& a, const Enclosure& b) {
  Enclosure out(std::max(a.precision(), b.precision()));
  over_ends({a.low_, a.high_}, {b.low_, b.high_}, mpfr_div, out.low_, out.high_);
  return out;
}

Enclosure Enclosure::scaled(int exponent) const {
  Enclosure out(precision());
  mpfr_mul_2si(out.low_, low_, exponent, MPFR_RNDD);
  mpfr_mul_2si(out.high_, high_, exponent, MPFR_RNDU);
  return out;
}

Enclosure Enclosure::logarithm(int precision) const {
  Enclosure out(this->precision() + precision);
  mpfr_log(out.low_, low_, MPFR_RNDD);
  mpfr_log(out.high_, high_, MPFR_RNDU);
  return out;
}

Enclosure Enclosure::logarithm_of_one_plus(int precision) const {
  Enclosure out(this->precision() + precision);
  mpfr_log1p(out.low_, low_, MPFR_RNDD);
  mpfr_log1p(out.high_, high_, MPFR_RNDU);
  return out;
}

Enclosure Enclosure::square_root() const {
  Enclosure out(precision());
  mpfr_sqrt(out.low_, low_, MPFR_RNDD);
  mpfr_sqrt(out.high_, high_, MPFR_RNDU);
  return out;
}

// The sine grows over the whole quarter; the cosine falls with the distance from its middle.
Enclosure::Point Enclosure::quarter_turn(int precision) const {
  const auto more = this->precision() + precision;
  Point out{Enclosure(more), Enclosure(more)};
  Real from(more), to(more);
  eighth_of_turn(from, low_, MPFR_RNDD);
  eighth_of_turn(to, high_, MPFR_RNDU);
  mpfr_sin(out.sine.low_, from, MPFR_RNDD);
  mpfr_sin(out.sine.high_, to, MPFR_RNDU);
  const bool straddles = mpfr_cmp_ui(from, 0) < 0 && mpfr_cmp_ui(to, 0) > 0;
  const bool nearer_from = mpfr_cmpabs(from, to) < 0;
  mpfr_cos(out.cosine.low_, nearer_from ? to : from, MPFR_RNDD);
  if (straddles)
    mpfr_set_ui(out.cosine.high_, 1, MPFR_RNDU);
  else
    mpfr_cos(out.cosine.high_, nearer_from ? from : to, MPFR_RNDU);
  return out;
}

std::optional<double> Enclosure::common(int (*integer)(mpfr_ptr, mpfr_srcptr)) const {
  if (mpfr_number_p(low_) == 0 || mpfr_number_p(high_) == 0) return std::nullopt;
  Real from(precision()), to(precision());
  integer(from, low_);
  integer(to, high_);
  if (mpfr_equal_p(from, to) == 0) return std::nullopt;
  return mpfr_get_d(from, MPFR_RNDN);
}

}  // namespace shade::exact
