// What the tests of files share: a folder that goes away, and small ways to look at bytes and messages.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <typeinfo>

#include "shade/base/temporary_folder.h"

namespace shade::io {

class Scratch {
 public:
  const std::filesystem::path& path() const { return folder_.path(); }

  std::filesystem::path write(const std::string& name, std::string_view content) const {
    std::ofstream(path() / name, std::ios::binary) << content;
    return path() / name;
  }

 private:
  TemporaryFolder folder_{"shade_io"};
};

// The safetensors files that tools/golden/make_safetensors_corpus.py wrote.
inline std::filesystem::path corpus() {
  const char* source = std::getenv("SHADE_SOURCE");
  if (source == nullptr) throw std::runtime_error("set SHADE_SOURCE to the project's folder, as ctest does");
  return std::filesystem::path(source) / "tests/io/corpus";
}

inline std::string content(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Makes the folders that it is in, too.
inline void write_file(const std::filesystem::path& path, std::string_view content) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << content;
}

inline std::string words(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The message of the error, which must be exactly of type E; empty, and a failed test, if there is none.
template <class E, class Act>
std::string message_of(Act&& act) {
  try {
    act();
  } catch (const E& fault) {
    EXPECT_EQ(typeid(fault), typeid(E)) << fault.what();
    return fault.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

// A safetensors file: the header's length, the header, the data.
inline std::string safetensors(std::string_view header, std::string_view data = {}) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(header.size() >> (8 * i));
  return out.append(header).append(data);
}

}  // namespace shade::io
