#include "shade/data/statistics.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "shade/base/terminal.h"

namespace shade::data {
namespace {

constexpr int64_t kShortest = 16;  // the first bucket's last length

size_t bucket_of(int64_t length) {
  return length <= kShortest ? 0 : std::bit_width(static_cast<uint64_t>((length - 1) / kShortest));
}

RecordsPerUser count_users(const TextDataset& dataset) {
  std::vector<int64_t> records(static_cast<size_t>(dataset.store().records()));
  std::iota(records.begin(), records.end(), 0);
  const Users users(dataset, records);
  std::vector<int64_t> counts;
  for (int64_t user = 0; user < users.size(); ++user) counts.push_back(std::ssize(users.records_of(user)));
  std::sort(counts.begin(), counts.end());
  return {users.size(), counts[counts.size() / 2], counts.back()};
}

}  // namespace

Statistics count_records(const TextDataset& dataset) {
  constexpr int64_t kAtOnce = 65536;
  const auto& store = dataset.store();
  Statistics out;
  out.labels.resize(store.classes().size());
  std::vector<int64_t> buckets;
  Progress progress("counting records", store.records());
  for (int64_t first = 0; first < store.records(); first += kAtOnce) {
    for (const auto& entry : store.entries(first, std::min(kAtOnce, store.records() - first))) {
      const auto length = dataset.full_length(entry);
      const auto bucket = bucket_of(length);
      if (bucket >= buckets.size()) buckets.resize(bucket + 1);
      ++buckets[bucket];
      out.longest = std::max(out.longest, length);
      out.mean_length += static_cast<double>(length) / static_cast<double>(store.records());
      if (length > dataset.options().seq_length) ++out.cut;
      if (entry.label < 0)
        ++out.unlabelled;
      else
        ++out.labels[static_cast<size_t>(entry.label)];
    }
    progress.advance_to(std::min(first + kAtOnce, store.records()));
  }
  for (size_t i = 0; i < buckets.size(); ++i)
    if (buckets[i] > 0 || !out.lengths.empty())
      out.lengths.push_back({i == 0 ? 1 : (kShortest << (i - 1)) + 1, kShortest << i, buckets[i]});
  if (store.has_users() && dataset.options().packing == Packing::records) out.users = count_users(dataset);
  return out;
}

}  // namespace shade::data
