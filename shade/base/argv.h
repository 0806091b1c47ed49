// Words for exec.
#pragma once

#include <string>
#include <vector>

namespace shade {

// A pointer to each word, and a null pointer at the end. The words must outlive them.
inline std::vector<char*> argv_of(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (auto& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace shade
