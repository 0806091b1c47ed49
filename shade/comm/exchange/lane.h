// A thread that carries out tasks one after another: a group's operations in the order they were issued.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace shade::comm {

// Thread-safe. Tasks must not throw. The destructor runs what is queued, then joins.
class Lane {
 public:
  explicit Lane(const std::string& name);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  void submit(std::function<void()> task);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace shade::comm
