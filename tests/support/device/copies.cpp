// Copies between host and devices, and the one element that .item() takes.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <atomic>

#include "tests/support/device/device.h"
#include "tests/support/device/host_copies.h"
#include "tests/support/device/host_view.h"
#include "tests/support/device/memory.h"

namespace shade::test::device {
namespace {

const std::string kCopy = "aten::copy_";
std::atomic<int> g_refuse_pageable{0};

// A DMA engine copies bytes as they are: other types or strides go through a temporary, which isn't pinned.
bool pinned_for(const at::Tensor& host, const at::Tensor& other) {
  return is_pinned(host.storage().data()) && host.scalar_type() == other.scalar_type() &&
         host.sizes() == other.sizes() && host.is_contiguous() && other.is_contiguous();
}

void refuse_pageable(const c10::Stream& stream, const at::Tensor& tensor, bool non_blocking, bool pinned) {
  if (g_refuse_pageable > 0 && non_blocking && !pinned)
    throw DeviceFault(text(kCopy, " on ", name_of_stream(number_of(stream)), " between ", describe(tensor),
                           " and pageable memory of the host isn't asynchronous: pin the memory"));
}

void to_device(const at::Tensor& source, const at::Tensor& destination, bool non_blocking) {
  const auto stream = current_stream(destination.device().index());
  const bool pinned = pinned_for(source, destination);
  refuse_pageable(stream, destination, non_blocking, pinned);
  count_copy(destination.device().index(), pinned ? &Counters::to_device_pinned : &Counters::to_device_pageable,
             destination.nbytes());
  {
    const Turn turn(stream);
    access(turn, kCopy, source, false);
    access(turn, kCopy, destination, true);
    turn.await_unfinished();
    if (pinned) finish_host_copies_of(source);
    host_view(destination).copy_(source);
    if (pinned && non_blocking) return leave_to_device(turn.moment(), kCopy, source);
  }
  synchronise(stream);
}

void to_host(const at::Tensor& source, const at::Tensor& destination, bool non_blocking) {
  const auto stream = current_stream(source.device().index());
  const bool pinned = pinned_for(destination, source);
  refuse_pageable(stream, source, non_blocking, pinned);
  count_copy(source.device().index(), pinned ? &Counters::to_host_pinned : &Counters::to_host_pageable,
             source.nbytes());
  {
    const Turn turn(stream);
    access(turn, kCopy, source, false);
    access(turn, kCopy, destination, true);
    turn.await_unfinished();
    if (pinned) finish_host_copies_of(destination);
    if (pinned && non_blocking) return leave_to_host(turn.moment(), kCopy, destination, host_view(source).clone());
    destination.copy_(host_view(source));
  }
  synchronise(stream);
}

// On the source's stream, between the two devices' current streams, as CUDA does it.
void on_device(const at::Tensor& source, const at::Tensor& destination) {
  const auto stream = current_stream(source.device().index());
  const auto other = current_stream(destination.device().index());
  count_copy(source.device().index(), &Counters::on_device, destination.nbytes());
  count_launch(source.device().index(), kCopy);
  if (stream != other) stream_waits(stream, clock_of(other));
  const Turn turn(stream);
  access(turn, kCopy, source, false);
  access(turn, kCopy, destination, true);
  turn.await_unfinished();
  host_view(destination).copy_(host_view(source));
  if (stream != other) stream_waits(other, turn.clock());
}

at::Tensor copy_from(const at::Tensor& source, const at::Tensor& destination, bool non_blocking) {
  const auto whole = source.expand_as(destination);
  if (destination.numel() == 0) return destination;
  if (whole.is_cpu())
    to_device(whole, destination, non_blocking);
  else if (destination.is_cpu())
    to_host(whole, destination, non_blocking);
  else
    on_device(whole, destination);
  return destination;
}

at::Tensor copy_from_and_resize(const at::Tensor& source, const at::Tensor& destination) {
  if (source.sizes() != destination.sizes()) destination.resize_(source.sizes());
  return copy_from(source, destination, false);
}

at::Scalar item(const at::Tensor& self) {
  static const std::string kItem = "aten::_local_scalar_dense";
  const auto stream = current_stream(self.device().index());
  at::Scalar value;
  {
    const Turn turn(stream);
    access(turn, kItem, self, false);
    turn.await_unfinished();
    value = at::_local_scalar_dense(host_view(self));
  }
  synchronise(stream);
  return value;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("_copy_from", copy_from);
  library.impl("_copy_from_and_resize", copy_from_and_resize);
  library.impl("_local_scalar_dense", item);
}

}  // namespace

RefusePageable::RefusePageable() { ++g_refuse_pageable; }
RefusePageable::~RefusePageable() { --g_refuse_pageable; }

}  // namespace shade::test::device
