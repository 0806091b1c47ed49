#include "shade/base/json.h"

#include <utility>

#include "shade/base/error.h"
#include "shade/base/files.h"
#include "shade/base/input_text.h"

namespace shade {

namespace {

constexpr int kDeepest = 200;
const Bytes kMostJson = GiB(1);

// The library begins its messages with its own label, "[json.exception.parse_error.101] ".
std::string without_label(std::string words) {
  const auto end = words.find("] ");
  return words.starts_with('[') && end != std::string::npos ? words.substr(end + 2) : words;
}

template <class Input>
Json parse(Input&& input) {
  const auto shallow = [](int depth, Json::parse_event_t, const Json&) {
    if (depth > kDeepest) throw Error(text("is nested more than ", kDeepest, " levels deep"));
    return true;
  };
  try {
    return Json::parse(std::forward<Input>(input), shallow);
  } catch (const Json::parse_error& fault) {
    throw Error(text("is not valid JSON (byte ", fault.byte, "): ", without_label(fault.what())));
  } catch (const Json::exception& fault) {  // a number beyond all numbers
    throw Error(text("is not valid JSON: ", without_label(fault.what())));
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
  const auto words = read_text(file, kMostJson);
  try {
    return parse(words);
  } catch (const Error& fault) {
    throw Error(text(file, " ", fault.what()));
  }
}

// Names of files need not be UTF-8: a result is not lost for the sake of one.
void write_json(const std::filesystem::path& file, const Json& value) {
  write_output(file, value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace shade
