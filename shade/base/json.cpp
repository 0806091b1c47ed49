#include "shade/base/json.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "shade/base/error.h"
#include "shade/base/output_file.h"

namespace shade {

namespace {

constexpr int kDeepest = 200;

template <class Input>
Json parse(Input&& input) {
  const auto shallow = [](int depth, Json::parse_event_t, const Json&) {
    if (depth > kDeepest) throw Error(text("is nested more than ", kDeepest, " levels deep"));
    return true;
  };
  try {
    return Json::parse(std::forward<Input>(input), shallow);
  } catch (const Json::parse_error& fault) {
    throw Error(text("is not valid JSON (byte ", fault.byte, "): ", fault.what()));
  } catch (const Json::exception& fault) {  // a number beyond all numbers
    throw Error(text("is not valid JSON: ", fault.what()));
  }
}

}  // namespace

Json parse_json(std::string_view words) {
  try {
    return parse(words);
  } catch (const Error& fault) {
    throw Error(text("it ", fault.what()));
  }
}

Json read_json(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw Error(text("cannot read ", file, ": ", std::strerror(errno)));
  try {
    return parse(in);
  } catch (const Error& fault) {
    throw Error(text(file, " ", fault.what()));
  }
}

void write_json(const std::filesystem::path& file, const Json& value) { write_output(file, value.dump(2) + "\n"); }

}  // namespace shade
