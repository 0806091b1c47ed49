#include "shade/privacy/variant.h"

#include <array>
#include <cstddef>

namespace shade::privacy {

std::span<const Variant> variants() {
  static constexpr std::array kAll{Variant::portable, Variant::avx2, Variant::avx512};
  static const size_t usable = [] {
#if SHADE_X86_VARIANTS
    if (__builtin_cpu_supports("x86-64-v4")) return size_t{3};
    if (__builtin_cpu_supports("x86-64-v3")) return size_t{2};
#endif
    return size_t{1};
  }();
  return std::span(kAll).first(usable);
}

}  // namespace shade::privacy
