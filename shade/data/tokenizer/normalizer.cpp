#include "shade/data/tokenizer/normalizer.h"

#include "shade/data/tokenizer/nfc.h"

namespace shade::data {

std::string_view Normalizer::operator()(std::string_view words, std::string& storage) const {
  using Kind = NormalizerStep::Kind;
  for (const auto& [kind, from, to] : steps_) {
    std::string made;
    if (kind == Kind::nfc && nfc(words, made).data() == words.data()) continue;
    if (kind == Kind::prepend && words.empty()) continue;
    if (kind == Kind::prepend) made = to + std::string(words);
    if (kind == Kind::replace) made = replaced(words, from, to);
    storage = std::move(made);
    words = storage;
  }
  return words;
}

std::string replaced(std::string_view words, std::string_view from, std::string_view to) {
  std::string out;
  size_t done = 0;
  for (size_t at = words.find(from); at != std::string_view::npos; at = words.find(from, done)) {
    out += words.substr(done, at - done);
    out += to;
    done = at + from.size();
  }
  return out += words.substr(done);
}

}  // namespace shade::data
