// Our own events in a file that Kineto wrote (Chrome's trace format, one JSON object with an array of events).
#pragma once

#include <chrono>
#include <fstream>
#include <string>

#include "shade/base/json.h"
#include "shade/base/units.h"

namespace shade::profile {

struct TraceEvent {
  std::string name;
  int64_t track;
  Clock::time_point begin, end;
  Json arguments;
};

// Appends in place: traces have hundreds of megabytes, and of Kineto's part only the last lines are written anew.
class TraceFile {
 public:
  TraceFile(const std::string& path, std::chrono::nanoseconds to_unix);

  void name_process(const std::string& name);
  void name_track(int64_t track, const std::string& name, int64_t order);  // lower orders are drawn higher
  void add(const TraceEvent& event);
  void close(const Json& about);  // facts beside the events; the file is whole again only after this

 private:
  void write(const Json& event);
  void describe(const char* what, int64_t track, const Json& arguments);

  std::string path_, tail_;
  std::fstream file_;
  std::chrono::nanoseconds origin_;  // Clock's time at which the file's times begin
};

}  // namespace shade::profile
