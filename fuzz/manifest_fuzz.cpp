// Any bytes as a checkpoint's manifest: refused with a FormatError, or read back as printed. The checksum is put right
// first, or nothing would come past it.
#include <cstddef>
#include <cstdint>
#include <string>

#include "shade/checkpoint/manifest.h"
#include "shade/io/errors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace shade::checkpoint;
  const std::string body(reinterpret_cast<const char*>(data), size);
  Manifest manifest;
  try {
    manifest = parse_manifest(
        shade::text(body, ",\n\"checksum\": \"", shade::hash::to_hex(shade::hash::digest_of(body)), "\"}\n"));
  } catch (const shade::io::FormatError& fault) {
    const std::string message(fault.what());
    SHADE_CHECK(message.size() < 1000 && message.find_first_of("\n\r\t\x1b\x7f") == message.npos, message);
    return 0;
  }
  SHADE_CHECK(static_cast<int64_t>(manifest.files.size()) == int64_t{manifest.replicate} * manifest.shard, "files");
  SHADE_CHECK(parse_manifest(print_manifest(manifest)) == manifest, "what we print we read");
  return 0;
}
