// Non-blocking copies between pinned memory and a device, from their launch until the host knows that they are over.
//
//   to the host     the destination is poisoned at the launch and filled when the host synchronises: what is read
//                   before is not the result
//   to the device   the source must still hold at the end what it held at the launch; it throws otherwise
//
// A later copy of a stream that comes after such a copy finishes it first, as the device would.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "tests/support/device/clock.h"

namespace shade::test::device {

// The copy's host side stays alive until the copy is over.
void leave_to_host(const Moment& moment, const std::string& op, at::Tensor destination, at::Tensor result);
void leave_to_device(const Moment& moment, const std::string& op, at::Tensor source);

void finish_host_copies(const Clock& clock);           // those that `clock` covers
void finish_host_copies_of(const at::Tensor& memory);  // those that share memory with it

}  // namespace shade::test::device
