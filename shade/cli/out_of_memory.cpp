#include "shade/cli/out_of_memory.h"

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/catalog/remedies.h"

namespace shade::cli {

std::string out_of_memory_text(std::optional<Bytes> wanted) {
  return text("out of memory: cannot allocate memory", wanted ? text(" for a tensor of ", to_string(*wanted)) : "",
              "; ", catalog::kLessMemory);
}

std::optional<std::string> out_of_memory(const std::string& what) {
  if (what.find("Storage size calculation overflowed") != std::string::npos)
    return "out of memory: a tensor would have more bytes than can be counted; choose a smaller --batch-size, "
           "--seq-length or model";
  if (what.find("allocate memory") == std::string::npos && what.find("out of memory") == std::string::npos)
    return std::nullopt;
  constexpr std::string_view kBefore = "tried to allocate ";
  const auto at = what.find(kBefore);
  if (at == std::string::npos) return out_of_memory_text();
  const auto stated = split(what.substr(at + kBefore.size()), ' ');
  const auto bytes = parse_integer(stated.front());
  // A GPU's allocator states its own unit: its words are kept behind ours.
  if (!bytes || stated.size() < 2 || !stated[1].starts_with("bytes"))
    return text(out_of_memory_text(), " (", what.substr(0, what.find('\n')), ")");
  return out_of_memory_text(Bytes{*bytes});
}

}  // namespace shade::cli
