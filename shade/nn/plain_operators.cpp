#include "shade/nn/plain_operators.h"

#include <utility>

namespace shade::nn {
namespace {

thread_local bool plain = false;

}  // namespace

bool plain_operators() { return plain; }

PlainOperators::PlainOperators() : before_(std::exchange(plain, true)) {}
PlainOperators::~PlainOperators() { plain = before_; }

}  // namespace shade::nn
