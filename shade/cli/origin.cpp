#include "shade/cli/origin.h"

#include <unistd.h>

#include <array>
#include <ctime>
#include <filesystem>

#include "shade/base/utc.h"
#include "shade/cli/version.h"

namespace shade::cli {
namespace {

std::string host() {
  std::array<char, 256> out{};
  return ::gethostname(out.data(), out.size() - 1) == 0 ? out.data() : "?";
}

std::string without_folders(const std::string& word) {
  const auto equals = word.starts_with("--") ? word.find('=') : std::string::npos;
  const auto begin = equals == std::string::npos ? 0 : equals + 1;
  if (word.size() <= begin || word[begin] != '/') return word;
  auto path = std::filesystem::path(word.substr(begin)).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return word.substr(0, begin) + ".../" + path.filename().string();
}

// So that a shell reads it as one word.
std::string quoted(const std::string& word) {
  if (!word.empty() &&
      word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=.,:/+@%") ==
          std::string::npos)
    return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

std::string command_text(const std::string& verb, const Arguments& arguments) {
  auto out = "shade " + verb;
  for (const auto& word : arguments) out += " " + quoted(without_folders(word));
  return out;
}

void add_origin(Json& environment, const std::string& verb, const Arguments& arguments) {
  environment.update({{"date", utc_text(std::time(nullptr))},
                      {"host", host()},
                      {"command", command_text(verb, arguments)},
                      {"shade", version()},
                      {"commit", commit()}});
}

}  // namespace shade::cli
