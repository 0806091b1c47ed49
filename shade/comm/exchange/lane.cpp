#include "shade/comm/exchange/lane.h"

#include <pthread.h>

#include "shade/base/memory_scope.h"

namespace shade::comm {

Lane::Lane(const std::string& name) : thread_([this] { run(); }) {
  pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
}

Lane::~Lane() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Lane::submit(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
}

void Lane::run() {
  const MemoryScope scope(MemoryKind::communication);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closing_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    auto task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    task = nullptr;  // its tensors are freed before the next wait
    lock.lock();
  }
}

}  // namespace shade::comm
