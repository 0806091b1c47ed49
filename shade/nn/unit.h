// Where units begin and end, in forward and in backward; activation checkpointing between the two.
#pragma once

#include <functional>
#include <vector>

#include "shade/nn/function.h"

namespace shade::nn {

// Identities that tell the observer. Everything a unit reads that needs a gradient passes through enter, everything it
// makes through leave: so backward enters before the unit's first gradient and leaves after its last.
Tensors enter_unit(const Wiring& wiring, UnitId unit, Tensors inputs);
// Marks the end of a unit. Other units must read the returned tensor, not `output`.
at::Tensor leave_unit(const Wiring& wiring, UnitId unit, const at::Tensor& output);

// Runs `block` without keeping anything but its inputs; backward runs it again. The weights it uses must be bound then.
using Block = std::function<at::Tensor(const Tensors&)>;
// Returns block(inputs). Tensors that the block reads besides `inputs` get no gradient.
at::Tensor checkpointed(const Block& block, const Tensors& inputs);

// A unit from enter to leave, with one result; checkpointed if wanted. `inputs` are all that the block reads and that
// may need a gradient. In a model's first unit none does (data): then the first floating one is hung on the unit, so
// that backward reaches the unit's layers. Throws UsageError if there is none such (ids: pass nn::anchor() through
// enter_unit, and what comes out to nn::Embedding).
at::Tensor run_unit(const Wiring& wiring, UnitId unit, const Block& block, Tensors inputs, bool checkpoint = false);

}  // namespace shade::nn
