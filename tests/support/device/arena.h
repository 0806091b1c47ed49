// Addresses of device memory, and where its bytes are.
//
// A device address is one that nobody may touch (PROT_NONE); kernels find its byte at a fixed distance. So the host is
// kept out even while a kernel runs, and no protection is ever changed. A touch ends the process with a message.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shade::test::device {

uintptr_t reserve_addresses(size_t bytes);  // never given away again; `bytes` is a multiple of kGranule
void give_back_pages(uintptr_t address, size_t bytes);
bool in_arena(uintptr_t address);
void* bytes_at(const void* device_address);  // of this process, to read and write

constexpr size_t kGranule = 512;  // as CUDA's allocator rounds

}  // namespace shade::test::device
