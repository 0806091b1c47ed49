// Loops that are divided among the threads of libtorch's OpenMP runtime, so that a process has one team of threads.
//
// at::parallel_for is a template that is compiled here, and it is serial unless the compiler itself generates OpenMP
// code; clang would bring a second runtime for that. So the runtime's entry point is called directly.
#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <mutex>

extern "C" {
void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);
int omp_get_thread_num();
int omp_get_num_threads();
}

namespace shade {

// body(from, to) for consecutive parts of [begin, end), each of at least `grain` elements, on up to
// at::get_num_threads() threads. Serial within another parallel region. If a part throws, one of the exceptions is
// thrown here after all parts have ended. Scopes of the calling thread (memory, gradients) don't hold on the others.
template <class Body>
void parallel_for(int64_t begin, int64_t end, int64_t grain, const Body& body) {
  if (begin >= end) return;
  const auto parts = std::min<int64_t>(at::get_num_threads(), (end - begin) / std::max<int64_t>(1, grain));
  if (parts <= 1 || at::in_parallel_region()) return body(begin, end);
  struct Loop {
    const Body& body;
    int64_t begin, end, parts;
    std::mutex mutex{};
    std::exception_ptr failure{};

    void run(int64_t part) noexcept {
      const auto size = end - begin, from = begin + size * part / parts, to = begin + size * (part + 1) / parts;
      try {
        body(from, to);
      } catch (...) {
        const std::lock_guard lock(mutex);
        failure = std::current_exception();
      }
    }
  } loop{body, begin, end, parts};
  GOMP_parallel(
      [](void* data) {
        auto& of = *static_cast<Loop*>(data);
        for (int64_t part = omp_get_thread_num(); part < of.parts; part += omp_get_num_threads()) of.run(part);
      },
      &loop, 0, 0);
  if (loop.failure) std::rethrow_exception(loop.failure);
}

}  // namespace shade
