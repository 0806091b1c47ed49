// How an operator of the device is computed.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace shade::test::device {

// By its CPU kernel, as one launch on the current stream.
void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace shade::test::device
