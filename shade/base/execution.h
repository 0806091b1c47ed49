// Who listens to what a thread does, and what its tensors stand for, while that is not the process's own: a dry run
// (plan/) makes a training step on tensors without values beside whatever else the process does.
//
// It is found by thread, because it could not be handed down: libtorch's allocator, functions of autograd and the
// kernels of layers ask for it, and autograd runs tensors of the CPU and of meta on the thread that calls backward.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "shade/base/units.h"

namespace shade {

class SpanListener;

// Hears of every tensor's memory. Thread-safe.
class MemoryObserver {
 public:
  virtual ~MemoryObserver() = default;
  virtual void put(const void* address, int64_t bytes) = 0;
  virtual bool take(const void* address) = 0;  // false: it never heard of it
  // Beside that, of a tensor on meta: its size, or 0 when it is freed.
  virtual void meta_changed(const void* /*storage*/, Bytes /*size*/) {}
};

// Work of which a dry run sees the shapes alone: libtorch has no meta kernel for the operator, or no operator exists
// (the noise, an optimizer's update). The code that skips it says what it would have done.
struct ShapedWork {
  const char* name;              // a literal
  int64_t element_size = 4;      // of its main input, in bytes
  double read = 0, written = 0;  // bytes
  double flops = 0;
  int64_t rows = 0, inner = 0, columns = 0;  // of a matrix product
};

class WorkListener {
 public:
  virtual ~WorkListener() = default;
  virtual void skipped(const ShapedWork& work) = 0;
};

struct Execution {
  std::shared_ptr<MemoryObserver> memory;          // of tensors that this thread makes; they keep it alive
  SpanListener* spans = nullptr;                   // must outlive the scope
  WorkListener* work = nullptr;                    // must outlive the scope
  Bytes accelerator_block{0};                      // of an accelerator that tensors stand for (nn/launches.h); 0: a CPU
  std::optional<Clock::time_point> deadline = {};  // a tensor on meta that is made later is an Error

  // Of this thread; null: what it does is the process's own.
  static Execution* here() noexcept { return here_; }

 private:
  friend class ExecutionScope;
  inline static thread_local Execution* here_ = nullptr;
};

class ExecutionScope {
 public:
  explicit ExecutionScope(Execution& execution) noexcept : before_(Execution::here_) { Execution::here_ = &execution; }
  ~ExecutionScope() { Execution::here_ = before_; }
  ExecutionScope(const ExecutionScope&) = delete;
  ExecutionScope& operator=(const ExecutionScope&) = delete;

 private:
  Execution* before_;
};

inline void say_skipped(const ShapedWork& work) {
  if (const auto* here = Execution::here(); here != nullptr && here->work != nullptr) here->work->skipped(work);
}

}  // namespace shade
