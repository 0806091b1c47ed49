// What a device and its links can do, as data: the planner's figures for time. Eleven GPUs are known by name; a file
// (JSON, as `shade calibrate` writes it) describes any other machine.
//
//   spec       as the maker states it, dense
//   reachable  what a program gets: measured where a source has it, else a stated share of spec
#pragma once

#include <c10/core/ScalarType.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shade/base/json.h"
#include "shade/base/units.h"
#include "shade/comm/collective.h"

namespace shade::plan {

// How long work of one kind takes: a start-up time and a rate, or measured points.

// `amount` is FLOPs of matrix products and attention, bytes read and written of everything else, and bytes of the full
// buffer of collectives.
struct RatePoint {
  double amount = 0;
  Seconds time{0};
};

// start + amount / per_second. With points: between two of them the logarithm of the time is interpolated over the
// logarithm of the amount; below the first one the time is the first one's, above the last one the last one's rate
// holds.
struct Rate {
  Seconds start{0};
  double per_second = 0;
  std::vector<RatePoint> points{};  // ascending amounts

  bool known() const { return per_second > 0 || !points.empty(); }
  Seconds time(double amount) const;

  Json json() const;                                           // {"start_us", "per_second", "points": [[amount, s]]}
  static Rate from(const Json& json, const std::string& key);  // throws UsageError naming the key
};

// The start and the rate that fit the points best, by least squares of relative errors: a law that is held by small
// amounts and large ones alike. Needs two points or more.
Rate fitted(std::vector<RatePoint> points);

struct LinkProfile {
  Seconds latency{0};  // of a message
  double spec = 0;     // bytes per second in one direction, per device
  double reachable = 0;
};

// Measured collectives of one kind in a group of `ranks` ranks on `nodes` nodes, by bytes of the full buffer.
struct CollectiveRate {
  comm::Collective kind = comm::Collective::all_reduce;
  int ranks = 2;
  int nodes = 1;
  Rate rate;
};

// A product with a dimension this narrow reaches this share of the rate of a square one with the same FLOPs.
struct WidthShare {
  double width = 0;
  double share = 1;
};

struct DeviceProfile {
  std::string name;    // "h100-80g"
  std::string device;  // "NVIDIA H100 SXM"
  std::string source;
  Bytes memory;
  Bytes process, process_bf16;  // of a rank besides the pages of its tensors (plan/calibrate.cpp); 0: not known
  double bf16_spec = 0, tf32_spec = 0, fp32_spec = 0;  // FLOP/s; 0: not known
  double memory_spec = 0;                              // bytes per second

  std::map<std::string, Rate> products;   // by type: "bf16", "tf32", "fp32", "fp64"; of FLOPs
  std::vector<WidthShare> widths;         // ascending; none: all alike
  Rate attention;                         // fused kernels, of FLOPs
  Rate elementwise, copies, noise;        // of bytes read and written
  std::map<std::string, Rate> operators;  // by operator ("silu"): goes before the general rates

  bool asynchronous = true;  // the host issues operators ahead of the device, as on GPUs
  Seconds launch{0};         // of the host, per operator
  double contention = 0;     // share of the device's rate that is lost while a collective is under way

  LinkProfile inside, network;
  int ranks_per_node = 8;
  Seconds collective_start{0};  // of every collective, whatever its group
  std::vector<CollectiveRate> collectives;

  // Of products in this type; throws UsageError naming the profile if it has none.
  const Rate& product_rate(c10::ScalarType type) const;
  double width_share(double width) const;

  Json json() const;
  static DeviceProfile from(const Json& json);  // throws UsageError naming the key
};

// The known ones, in the order of docs/planning.md.
const std::vector<DeviceProfile>& known_profiles();

// A known name, or the path of a JSON file. Throws UsageError that lists the names.
DeviceProfile device_profile(const std::string& name_or_file);

}  // namespace shade::plan
