#include "shade/comm/job/sealed_words.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "shade/comm/errors.h"

namespace shade::comm {
namespace {

at::Tensor tensor_of(std::vector<uint8_t>& bytes) {
  return at::from_blob(bytes.data(), {static_cast<int64_t>(bytes.size())}, at::kByte);
}

// Names are the number of the message: labels may differ from rank to rank.
std::vector<uint8_t> opened(const Group& group, const std::string& name, std::span<const uint8_t> sealed, int rank,
                            const std::string& label) {
  auto bytes = group.seals().secret.open(name, sealed);
  if (!bytes)
    throw CommError(text("'", label, "' of rank ", group.global_ranks()[static_cast<size_t>(rank)],
                         " doesn't open with the job secret: it was changed on its way. Let only the job's hosts reach "
                         "each other's ports (SECURITY.md)"));
  return *std::move(bytes);
}

}  // namespace

void share(const Group& group, std::span<uint8_t> bytes, const std::string& label) {
  if (group.size() == 1) return;
  const auto name = text("share ", group.seals().count++);
  auto sealed = group.seals().secret.seal(name, bytes);
  group.broadcast(tensor_of(sealed), {.label = label}).wait();
  const auto words = opened(group, name, sealed, 0, label);
  std::copy(words.begin(), words.end(), bytes.begin());
}

std::vector<std::string> gather_words(const Group& group, const std::string& words, size_t most,
                                      const std::string& label) {
  if (group.size() == 1) return {words};
  SHADE_CHECK(words.size() <= most, "words of ", words.size(), " bytes where ", most, " were agreed on");
  const auto name = [&, message = group.seals().count++](int rank) {
    return text("gather ", message, " from ", group.seals().solo ? group.rank() : rank);
  };
  std::vector<uint8_t> padded(words.begin(), words.end());
  padded.resize(most, 0);
  auto mine = group.seals().secret.seal(name(group.rank()), padded);
  std::vector<uint8_t> all(mine.size() * static_cast<size_t>(group.size()));
  group.all_gather(tensor_of(all), tensor_of(mine), {.label = label}).wait();
  std::vector<std::string> out;
  for (int rank = 0; rank < group.size(); ++rank) {
    const auto part = std::span(all).subspan(mine.size() * static_cast<size_t>(rank), mine.size());
    const auto bytes = opened(group, name(rank), part, rank, label);
    out.emplace_back(bytes.begin(), std::find(bytes.begin(), bytes.end(), 0));
  }
  return out;
}

}  // namespace shade::comm
