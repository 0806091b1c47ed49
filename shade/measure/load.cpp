#include "shade/measure/load.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>

namespace shade::measure {
namespace {

// Of all cores since the system began, all but idle and waiting for disks.
Seconds busy_time() {
  std::ifstream in("/proc/stat");
  std::string name;
  double user = 0, nice = 0, system = 0, idle = 0, disk = 0, interrupts = 0, soft = 0, stolen = 0;
  in >> name >> user >> nice >> system >> idle >> disk >> interrupts >> soft >> stolen;
  return Seconds((user + nice + system + interrupts + soft + stolen) / static_cast<double>(::sysconf(_SC_CLK_TCK)));
}

double load_average() {
  double out = 0;
  std::ifstream("/proc/loadavg") >> out;
  return out;
}

}  // namespace

Json MachineLoad::json() const { return {{"others", others}, {"average", average}}; }

LoadMeter::LoadMeter() : busy_(busy_time()) {}

MachineLoad LoadMeter::end(Seconds own) const {
  const Seconds wall = Clock::now() - begin_;
  const auto cores = std::max(1U, std::thread::hardware_concurrency());
  const double share = (busy_time() - busy_ - own) / (wall * static_cast<double>(cores));
  return {.others = std::clamp(share, 0.0, 1.0), .average = load_average()};
}

}  // namespace shade::measure
