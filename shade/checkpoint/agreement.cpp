#include "shade/checkpoint/agreement.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "shade/base/strings.h"
#include "shade/comm/errors.h"
#include "shade/comm/job/sealed_store.h"
#include "shade/io/errors.h"

namespace shade::checkpoint {
namespace {

constexpr size_t kMostWords = 600;  // bytes of a rank's message: of thousands of ranks, too, they stay readable
constexpr size_t kMostShared = size_t{256} << 20;  // bytes that rank 0 sends to all: a ledger or a list of shards
const std::string kUsage = "u", kFormat = "f", kOther = "e";  // how a message begins: the kind of error

int64_t largest(const comm::Group& group, const std::string& what, int64_t here) {
  auto number = at::full({1}, here, at::kLong);
  group.all_reduce(number, {.reduce = comm::Reduce::max, .label = what}).wait();
  return number.item<int64_t>();
}

// The number is not authenticated within a host: too small a one would hide a fault, or cut what rank 0 sends,
// and too large a one would exhaust the memory.
void require_between(size_t here, int64_t largest, size_t most, const std::string& what) {
  if (largest >= 0 && static_cast<size_t>(largest) >= here && static_cast<size_t>(largest) <= most) return;
  throw comm::CommError(text("'", what, "': the largest of all sizes came back as ", largest, ", and this rank has ",
                             here, " of at most ", most, " bytes",
                             ": it was changed on its way. Let only the job's hosts reach each other's ports "
                             "(SECURITY.md)"));
}

}  // namespace

void together(const comm::Group& group, const std::string& what, const std::function<void()>& part) {
  if (group.size() == 1) return part();
  std::string fault;
  try {
    part();
  } catch (const comm::CommError&) {
    throw;
  } catch (const UsageError& error) {
    fault = kUsage + text(error.what()).substr(0, kMostWords);
  } catch (const io::FormatError& error) {
    fault = kFormat + text(error.what()).substr(0, kMostWords);
  } catch (const std::exception& error) {
    fault = kOther + text(error.what()).substr(0, kMostWords);
  }
  const auto most = largest(group, what, static_cast<int64_t>(fault.size()));
  require_between(fault.size(), most, kMostWords + 1, what);
  if (most == 0) return;
  // The same words of several ranks are said once.
  std::vector<std::pair<std::string, std::vector<int>>> found;
  const auto faults = comm::gather_texts(group, fault, static_cast<size_t>(most), what);
  for (int rank = 0; rank < group.size(); ++rank) {
    const auto& words = faults[static_cast<size_t>(rank)];
    if (words.empty()) continue;
    const auto known = std::find_if(found.begin(), found.end(), [&](const auto& t) { return t.first == words; });
    if (known == found.end())
      found.push_back({words, {rank}});
    else
      known->second.push_back(rank);
  }
  std::vector<std::string> lines;
  bool usage = true, format = false;
  for (const auto& [words, ranks] : found) {
    usage = usage && words.starts_with(kUsage);
    format = format || words.starts_with(kFormat);
    lines.push_back(text(ranks.size() == 1 ? "rank " : "ranks ", ranges(ranks), ": ", words.substr(1)));
  }
  const auto message = text(what, " failed on ", join(lines, "; "));
  if (format) throw io::FormatError(message);
  if (usage) throw UsageError(message);
  throw Error(message);
}

std::string from_rank0(const comm::Group& group, const std::string& what, const std::function<std::string()>& part) {
  std::string words;
  together(group, what, [&] {
    if (group.rank() == 0) words = part();
  });
  SHADE_CHECK(words.size() <= kMostShared, what, ": ", words.size(), " bytes are more than ranks accept");
  const auto size = largest(group, what, static_cast<int64_t>(words.size()));
  require_between(words.size(), size, kMostShared, what);
  words.resize(static_cast<size_t>(size));
  comm::share(group, {reinterpret_cast<uint8_t*>(words.data()), words.size()}, what);
  return words;
}

}  // namespace shade::checkpoint
