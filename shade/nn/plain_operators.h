// Layers as plain operators of libtorch, which autograd differentiates by itself.
//
// A layer is a function of ours, whose backward is written by hand and reports activations and output gradients to the
// tap. What judges those reports must not read them: while a PlainOperators lives, the layers that this thread calls
// are made of libtorch's own operators. Then a weight is an ordinary leaf (bound with requires_grad), no tap hears of
// anything, no unit is entered and nothing is recomputed. It concerns forward alone: the graph that was made stays
// plain.
//
// Slower, and of more memory: for checks (proof/reference.h). A layer from outside that has a function of its own may
// ask plain_operators() too; one that doesn't is checked by differences of losses (proof/differences.h).
#pragma once

namespace shade::nn {

bool plain_operators();  // for layers: of this thread, now

class PlainOperators {
 public:
  PlainOperators();
  ~PlainOperators();
  PlainOperators(const PlainOperators&) = delete;
  PlainOperators& operator=(const PlainOperators&) = delete;

 private:
  bool before_;
};

}  // namespace shade::nn
