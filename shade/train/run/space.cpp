#include "shade/train/run/space.h"

#include <ATen/ATen.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <map>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/checkpoint/owned.h"

namespace shade::train {
namespace {

namespace fs = std::filesystem;

fs::path existing(const fs::path& folder) {
  auto at = fs::absolute(folder).lexically_normal();
  while (at.has_relative_path() && !fs::exists(at)) at = at.parent_path();
  return at;
}

}  // namespace

void require_space(const std::vector<Need>& needs) {
  std::map<dev_t, std::vector<const Need*>> disks;
  for (const auto& need : needs) {
    struct stat about{};
    if (need.bytes.count > 0 && ::stat(existing(need.folder).c_str(), &about) == 0)
      disks[about.st_dev].push_back(&need);
  }
  for (const auto& [device, on_it] : disks) {
    struct statvfs disk{};
    if (::statvfs(existing(on_it[0]->folder).c_str(), &disk) != 0 || disk.f_blocks == 0) continue;  // it doesn't say
    const Bytes free{static_cast<int64_t>(disk.f_bavail) * static_cast<int64_t>(disk.f_frsize)};
    Bytes needed;
    std::vector<std::string> parts, remedies{"free some space"};
    for (const auto* need : on_it) {
      needed += need->bytes;
      parts.push_back(text(need->what, " in ", need->folder.string()));
      remedies.push_back(need->remedy);
    }
    SHADE_REQUIRE(free >= needed, "not enough space: ", join(parts, " and "), on_it.size() == 1 ? " needs " : " need ",
                  to_string(needed), ", and ", to_string(free), " is free there; ", join(remedies, ", or "));
  }
}

CheckpointBytes checkpoint_bytes(shard::Runtime& runtime, optim::Optimizer& optimizer) {
  auto bytes = at::zeros({2}, at::kDouble);
  for (const auto& piece : checkpoint::owned_by(runtime, optimizer))
    bytes[piece.trainable ? 0 : 1] += static_cast<double>(piece.values.nbytes());
  bytes /= static_cast<double>(runtime.policy().replicate);  // copies of a shard deal its pieces
  runtime.groups().control.all_reduce(bytes, {.label = "size of a checkpoint"}).wait();
  const auto whole = [&](int64_t i) { return Bytes{static_cast<int64_t>(bytes[i].item<double>())}; };
  return {whole(0), whole(1)};
}

Need checkpoint_need(const fs::path& folder, const CheckpointBytes& each, int64_t keep, int64_t there, int64_t saves) {
  const auto count = std::min(saves, std::max<int64_t>(1, keep + 1 - there));
  return {.what = text(count, count == 1 ? " checkpoint of " : " checkpoints of ", to_string(each.trained),
                       each.frozen.count > 0 ? text(" and ", to_string(each.frozen), " of frozen weights") : ""),
          .folder = folder,
          .bytes = count == 0 ? Bytes{0} : Bytes{count * each.trained.count} + each.frozen,
          .remedy = text("choose another directory (--output)", keep > 1 ? ", or keep fewer (--keep 1)" : "")};
}

}  // namespace shade::train
