// Files of a model folder: config.json, tokenizer.json, weights and all else that is looked for in it by name.
//
// A model folder is untrusted: it was downloaded or unpacked. A symbolic link in it could name any file that this user
// may read, and an export or a release would carry its content on. So every reader opens the files of a model folder
// here, and gets a regular file whose real path is below the real path of the folder. One layout with links that leave
// the folder is read too, the cache of the Hugging Face hub: models--X/snapshots/COMMIT/config.json ->
// models--X/blobs/H. What is checked is the open file itself, so that a path that changes in between makes no
// difference. Needs /proc.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "shade/base/json.h"
#include "shade/io/input_file.h"

namespace shade::io {

inline constexpr size_t kMaxModelText = size_t{16} << 20;  // bytes of a config, a list of tokens or a template

// Whether the folder has an entry of this name, whatever it is: a link that leads nowhere is there, and refused when it
// is opened.
bool has_model_file(const std::filesystem::path& folder, const std::filesystem::path& name);

// `folder` may be empty: the working folder. Throws FormatError naming the file, and where it leads to if that is
// outside the folder. Never waits: a named pipe is refused.
std::shared_ptr<const MappedFile> open_model_file(const std::filesystem::path& folder,
                                                  const std::filesystem::path& name);

// The same, as UTF-8 of at most `most` bytes.
std::string read_model_text(const std::filesystem::path& folder, const std::filesystem::path& name,
                            size_t most = kMaxModelText);

// The same, as a JSON object.
Json read_model_json(const std::filesystem::path& folder, const std::filesystem::path& name);

// The text of such a file, as a JSON object. Throws FormatError naming the file.
Json parse_model_json(std::string_view words, const std::filesystem::path& file);

}  // namespace shade::io
