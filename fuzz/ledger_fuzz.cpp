// Any bytes as a ledger's file, or as what a crash left behind a good one: refused with a FormatError, or every line is
// there, and sealing what is torn gives a file with all of them and the seal.
#include <cstddef>
#include <cstdint>
#include <string>

#include "shade/checkpoint/chain.h"
#include "shade/io/errors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace shade::checkpoint;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  shade::hash::Digest head{};
  std::string good = next_line(head, "{\"one\":1}");
  good += next_line(head, "{\"two\":2}");
  for (auto file : {bytes, good + bytes}) {
    Chain chain;
    try {
      chain = read_chain(file);
    } catch (const shade::io::FormatError&) {
      continue;
    }
    SHADE_CHECK(file.size() == bytes.size() || chain.records.size() >= 2, "lines before the damage are lost");
    if (chain.torn == 0) continue;
    const auto torn = file.substr(file.size() - chain.torn);
    auto end = chain.head;
    file += next_line(end, "{\"torn\":1}", torn);
    const auto sealed = read_chain(file);
    SHADE_CHECK(sealed.torn == 0 && sealed.records.size() == chain.records.size() + 1 &&
                    sealed.records.back() == "{\"torn\":1}" && sealed.head == end,
                "a seal that doesn't hold");
  }
  return 0;
}
