#include "shade/checkpoint/agreement.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "shade/base/strings.h"
#include "shade/comm/errors.h"

namespace shade::checkpoint {
namespace {

constexpr size_t kMostWords = 600;  // bytes of a rank's message: of thousands of ranks, too, they stay readable
const std::string kUsage = "u", kOther = "e";  // how a message begins: the kind of error

at::Tensor bytes_of(const std::string& words) {
  auto out = at::zeros({std::max<int64_t>(1, static_cast<int64_t>(words.size()))}, at::kByte);
  std::memcpy(out.mutable_data_ptr(), words.data(), words.size());
  return out;
}

std::string words_of(const at::Tensor& bytes, int64_t size) {
  return {static_cast<const char*>(bytes.const_data_ptr()), static_cast<size_t>(size)};
}

int64_t largest(const comm::Group& group, const std::string& what, int64_t here) {
  auto number = at::full({1}, here, at::kLong);
  group.all_reduce(number, {.reduce = comm::Reduce::max, .label = what}).wait();
  return number.item<int64_t>();
}

// Every rank's words, known to be at most `most` bytes.
std::vector<std::string> gather(const comm::Group& group, const std::string& what, std::string words, int64_t most) {
  const auto length = most + 1;
  words.resize(static_cast<size_t>(length), '\0');
  auto all = at::zeros({group.size() * length}, at::kByte);
  group.all_gather(all, bytes_of(words), {.label = what}).wait();
  std::vector<std::string> out;
  for (int rank = 0; rank < group.size(); ++rank) {
    const auto part = words_of(all.narrow(0, rank * length, length), length);
    out.push_back(part.substr(0, part.find('\0')));
  }
  return out;
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
  } catch (const std::exception& error) {
    fault = kOther + text(error.what()).substr(0, kMostWords);
  }
  const auto most = largest(group, what, static_cast<int64_t>(fault.size()));
  if (most == 0) return;
  // The same words of several ranks are said once.
  std::vector<std::pair<std::string, std::vector<int>>> told;
  const auto faults = gather(group, what, fault, most);
  for (int rank = 0; rank < group.size(); ++rank) {
    const auto& words = faults[static_cast<size_t>(rank)];
    if (words.empty()) continue;
    const auto known = std::find_if(told.begin(), told.end(), [&](const auto& t) { return t.first == words; });
    if (known == told.end())
      told.push_back({words, {rank}});
    else
      known->second.push_back(rank);
  }
  std::vector<std::string> lines;
  bool usage = true;
  for (const auto& [words, ranks] : told) {
    usage = usage && words.starts_with(kUsage);
    lines.push_back(text(ranks.size() == 1 ? "rank " : "ranks ", ranges(ranks), ": ", words.substr(1)));
  }
  const auto message = text(what, " failed on ", join(lines, "; "));
  if (usage) throw UsageError(message);
  throw Error(message);
}

std::string from_rank0(const comm::Group& group, const std::string& what, const std::function<std::string()>& part) {
  std::string words;
  together(group, what, [&] {
    if (group.rank() == 0) words = part();
  });
  const auto size = largest(group, what, static_cast<int64_t>(words.size()));
  words.resize(static_cast<size_t>(size));
  auto bytes = bytes_of(words);
  group.broadcast(bytes, {.label = what}).wait();
  return words_of(bytes, size);
}

}  // namespace shade::checkpoint
