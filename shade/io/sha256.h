// SHA-256 of files, for digests that others check: sha256sum is on every system, and model hubs show the SHA-256 of
// large files. Digests that only this program reads are BLAKE2b (digest.h), which is several times as fast.
#pragma once

#include <string>
#include <string_view>

#include "shade/io/mapped_file.h"

namespace shade::io {

// 64 hexadecimal digits in lower case, as sha256sum prints them. Pages are dropped as they are read.
std::string sha256_of(const MappedFile& file);
std::string sha256_of(std::string_view bytes);

}  // namespace shade::io
