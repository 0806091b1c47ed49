// Work of which a dry run on meta tensors sees the shapes alone: libtorch has no meta kernel for the operator, or no
// operator exists (the noise, an optimizer's update). The code that skips it there says what it would have done; a plan
// (plan/) listens.
#pragma once

#include <atomic>
#include <cstdint>

namespace shade {

struct ShapedWork {
  const char* name;              // a literal
  int64_t element_size = 4;      // of its main input, in bytes
  double read = 0, written = 0;  // bytes
  double flops = 0;
  int64_t rows = 0, inner = 0, columns = 0;  // of a matrix product
};

// Not heard by anything: costs one relaxed load.
class WorkSkipped {
 public:
  using Listener = void (*)(const ShapedWork& work);

  static void say(const ShapedWork& work) {
    if (const auto listener = listener_.load(std::memory_order_acquire)) listener(work);
  }
  static void listen(Listener listener) { listener_.store(listener); }

 private:
  inline static std::atomic<Listener> listener_{nullptr};
};

}  // namespace shade
