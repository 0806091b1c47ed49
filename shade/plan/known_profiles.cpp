// The GPUs that are known by name.
//
// bf16 rates, memory and links: the makers' figures as collected by ml-engineering, llm-analysis and torchtitan, with
// the fastest matrix product that ml-engineering measured (MAMF). fp32 and tf32: the makers' data sheets. All dense.
// What no source has is a stated share, the same for all: see the constants.
#include <algorithm>

#include "shade/plan/device_profile.h"

namespace shade::plan {
namespace {

constexpr double kTera = 1e12, kGiga = 1e9;

// Where no product was measured: the measured ones reach 73 to 87 % of spec (51 % on MI300X).
constexpr double kProductShare = 0.75;
// FlashAttention-2, of spec: the middle of the 50 to 73 % of an A100 in its paper, and the 35 % of an H100 in the paper
// of FlashAttention-3. Elsewhere half of the rate of the best product is assumed.
constexpr double kAmpereAttention = 0.615, kHopperAttention = 0.35, kAttentionShare = 0.5;
// With overlapped collectives a step of A100, H100, MI210 and MI250 takes 18.9 % longer than its compute alone, and one
// after the other 10.2 % longer than that (arXiv 2507.03114, means): what is lost, as a share of the collectives' time.
constexpr double kContention = 0.189 / (1.189 * 1.102 - 1);
// Large element-wise passes against the memory's spec.
constexpr double kMemoryShare = 0.85;
// Large collectives against the spec of a link.
constexpr double kLinkShare = 0.8;
// Until a product has filled the device and drained it again.
constexpr double kProductStart_us = 8, kPassStart_us = 2;
// Of eager operators issued by C++; a device that waits for its host is seen as `idle` in a prediction.
constexpr double kLaunch_us = 5;
// NCCL's own cost model (tuning.cc): a ring's start and its steps over NVLink, PCIe and the network.
constexpr double kRingStart_us = 8.4, kNvlinkStep_us = 3.4, kPcieStep_us = 5.7, kNetworkStep_us = 14;
// The host draws and adds the noise (docs/gpu.md): 8 cores at 1.3 GB/s, as one of ours reaches, and the sum's way there
// and back over PCIe at 25 GB/s.
constexpr double kHostNoise = 7e9;
// A product narrower than a tile of tensor cores pays for the whole tile.
constexpr double kTile = 64;

struct Row {
  const char* name;
  const char* device;
  double bf16, reachable;  // TFLOP/s; reachable 0: not measured
  double tf32, fp32;       // TFLOP/s
  int64_t memory;          // GiB
  double memory_speed;     // GB/s
  double inside;           // GB/s to another GPU of the node, one direction
  bool nvlink;             // or xGMI; else PCIe
  double network;          // GB/s per GPU
  int per_node;
  double attention;  // share of spec; 0: not measured
  const char* source;
};

constexpr const char* kMlEngineering = "ml-engineering, llm-analysis; MAMF measured by ml-engineering";

// clang-format off
constexpr Row kRows[] = {
    {"a100-40g", "NVIDIA A100 SXM 40 GB", 312, 271, 156, 19.5, 40, 1555, 300, true, 25, 8, kAmpereAttention, kMlEngineering},
    {"a100-80g", "NVIDIA A100 SXM 80 GB", 312, 271, 156, 19.5, 80, 2039, 300, true, 25, 8, kAmpereAttention, kMlEngineering},
    {"h100-80g", "NVIDIA H100 SXM 80 GB", 989, 794.5, 494.5, 67, 80, 3350, 450, true, 50, 8, kHopperAttention, kMlEngineering},
    {"h200-141g", "NVIDIA H200 SXM 141 GB", 989, 794.5, 494.5, 67, 141, 4800, 450, true, 50, 8, kHopperAttention, "ml-engineering; MAMF of H100"},
    {"b200-180g", "NVIDIA B200 SXM 180 GB", 2250, 1745, 1100, 75, 180, 8000, 900, true, 50, 8, 0, "ml-engineering, torchtitan; MAMF measured by ml-engineering"},
    {"gb200-186g", "NVIDIA GB200, per GPU 186 GB", 2500, 1822, 1250, 80, 186, 8000, 900, true, 50, 4, 0, "ml-engineering, torchtitan; MAMF measured by ml-engineering"},
    {"l40s-48g", "NVIDIA L40S 48 GB", 362, 0, 183, 91.6, 48, 864, 31, false, 25, 8, 0, "ml-engineering, torchtitan"},
    {"rtx4090-24g", "NVIDIA GeForce RTX 4090 24 GB", 165.2, 0, 82.6, 82.6, 24, 1008, 31, false, 12.5, 8, 0, "published data sheets; fp32 accumulation"},
    {"a10g-24g", "NVIDIA A10G 24 GB", 70, 0, 35, 31.5, 24, 600, 31, false, 12.5, 4, 0, "llm-analysis"},
    {"l4-24g", "NVIDIA L4 24 GB", 121, 0, 60, 30.3, 24, 300, 31, false, 12.5, 8, 0, "published data sheets"},
    {"mi300x-192g", "AMD MI300X 192 GB", 1307, 668, 653.7, 163.4, 192, 5300, 448, true, 50, 8, 0, "ml-engineering; MAMF with torch 2.5"},
};
// clang-format on

Rate product_rate(double spec, double share) {
  return {.start = Seconds(kProductStart_us / 1e6), .per_second = spec * kTera * share};
}

DeviceProfile profile(const Row& row) {
  const double share = row.reachable > 0 ? row.reachable / row.bf16 : kProductShare;
  const auto pass = Rate{.start = Seconds(kPassStart_us / 1e6), .per_second = row.memory_speed * kGiga * kMemoryShare};
  DeviceProfile out;
  out.name = row.name;
  out.device = row.device;
  out.source = row.source;
  out.memory = GiB(row.memory);
  out.bf16_spec = row.bf16 * kTera;
  out.tf32_spec = row.tf32 * kTera;
  out.fp32_spec = row.fp32 * kTera;
  out.memory_spec = row.memory_speed * kGiga;
  out.products = {{"bf16", product_rate(row.bf16, share)},
                  {"tf32", product_rate(row.tf32, share)},
                  {"fp32", product_rate(row.fp32, share)}};
  out.widths = {{kTile, 1}};
  out.attention = product_rate(row.bf16, row.attention > 0 ? row.attention : share * kAttentionShare);
  out.elementwise = out.copies = pass;
  out.noise = {.per_second = kHostNoise};
  out.launch = Seconds(kLaunch_us / 1e6);
  out.contention = kContention;
  out.inside = {.latency = Seconds((row.nvlink ? kNvlinkStep_us : kPcieStep_us) / 1e6),
                .spec = row.inside * kGiga,
                .reachable = row.inside * kGiga * kLinkShare};
  out.network = {.latency = Seconds(kNetworkStep_us / 1e6),
                 .spec = row.network * kGiga,
                 .reachable = row.network * kGiga * kLinkShare};
  out.ranks_per_node = row.per_node;
  out.collective_start = Seconds(kRingStart_us / 1e6);
  return out;
}

}  // namespace

const std::vector<DeviceProfile>& known_profiles() {
  static const auto all = [] {
    std::vector<DeviceProfile> out;
    std::transform(std::begin(kRows), std::end(kRows), std::back_inserter(out), profile);
    return out;
  }();
  return all;
}

}  // namespace shade::plan
