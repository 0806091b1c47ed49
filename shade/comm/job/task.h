#pragma once

#include <functional>
#include <future>
#include <thread>

#include "shade/base/units.h"

namespace shade::comm {

// A thread that may never end. One that is left alone goes on; what it uses must stay.
class Task {
 public:
  Task() = default;
  explicit Task(std::function<void()> work) {
    std::packaged_task<void()> task(std::move(work));
    end_ = task.get_future();
    thread_ = std::thread(std::move(task));
  }
  bool ends_within(Seconds time) const { return !end_.valid() || end_.wait_for(time) == std::future_status::ready; }
  bool join_within(Seconds time) {
    if (!thread_.joinable()) return true;
    const bool ended = ends_within(time);
    ended ? thread_.join() : thread_.detach();
    return ended;
  }

 private:
  std::future<void> end_;
  std::thread thread_;
};

}  // namespace shade::comm
