// What an allocation is for. Any room may say so; who counts memory (profile/) reads it when a tensor is allocated.
//
//   const MemoryScope scope(MemoryKind::gathered);      // ends with the scope
#pragma once

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
  temporary,
  communication,
  data,
  other
};
inline constexpr int kMemoryKinds = 11;
inline std::span<const Name<MemoryKind>> names_of(MemoryKind) {
  static constexpr Name<MemoryKind> kNames[] = {{"parameters", MemoryKind::parameters},
                                                {"gathered_parameters", MemoryKind::gathered},
                                                {"gradients", MemoryKind::gradients},
                                                {"optimizer", MemoryKind::optimizer},
                                                {"activations", MemoryKind::activations},
                                                {"kept_for_private_step", MemoryKind::kept},
                                                {"norm_samples", MemoryKind::norms},
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

}  // namespace shade
