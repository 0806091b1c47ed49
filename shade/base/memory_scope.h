// What an allocation is for. Any module may say so; who counts memory (profile/) reads it when a tensor is allocated.
//
//   const MemoryScope scope(MemoryKind::gathered);      // ends with the scope
#pragma once

#include <atomic>

#include "shade/base/names.h"

namespace shade {

enum class MemoryKind {
  parameters,
  gathered,
  gradients,
  optimizer,
  activations,
  kept,
  norms,
  gram,
  temporary,
  communication,
  data,
  other
};
inline constexpr int kMemoryKinds = 12;
inline std::span<const Name<MemoryKind>> names_of(MemoryKind) {
  static constexpr Name<MemoryKind> kNames[] = {{"parameters", MemoryKind::parameters},
                                                {"gathered_parameters", MemoryKind::gathered},
                                                {"gradients", MemoryKind::gradients},
                                                {"optimizer", MemoryKind::optimizer},
                                                {"activations", MemoryKind::activations},
                                                {"kept_for_private_step", MemoryKind::kept},
                                                {"norm_samples", MemoryKind::norms},
                                                {"gram_matrices", MemoryKind::gram},
                                                {"temporary", MemoryKind::temporary},
                                                {"communication", MemoryKind::communication},
                                                {"data", MemoryKind::data},
                                                {"other", MemoryKind::other}};
  return kNames;
}

// Of this thread; scopes nest.
class MemoryScope {
 public:
  explicit MemoryScope(MemoryKind kind) : previous_(current_) { current_ = kind; }
  ~MemoryScope() { current_ = previous_; }
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

  static MemoryKind current() { return current_; }

 private:
  inline static thread_local MemoryKind current_ = MemoryKind::other;
  MemoryKind previous_;
};

// Memory that is now for something else than when it was allocated: an activation that is kept beyond its backward.
// `address` is where its storage begins. Does nothing without a listener.
class MemoryUse {
 public:
  using Listener = void (*)(const void* address, MemoryKind kind);

  static void changed(const void* address, MemoryKind kind) {
    if (const auto listener = listener_.load(std::memory_order_acquire)) listener(address, kind);
  }
  static void listen(Listener listener) { listener_.store(listener); }

 private:
  inline static std::atomic<Listener> listener_{nullptr};
};

}  // namespace shade
