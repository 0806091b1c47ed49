#include "shade/data/tokenizer/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <memory>

#include "shade/base/error.h"

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

namespace {

struct LaterRange {
  int32_t first, last;
};

// Characters since Unicode 9 that move or combine: marks with a class, and U+11930, which joins U+11935.
constexpr LaterRange kLater[] = {
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},     {0xC3C, 0xC3C},
    {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x1715, 0x1715},   {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},
    {0xA82C, 0xA82C},   {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50},
    {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E}, {0x11839, 0x1183A},
    {0x11930, 0x11930}, {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34},
    {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97},
    {0x11F41, 0x11F42}, {0x16FF0, 0x16FF1}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE},
    {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}};

bool is_later(int32_t character) {
  const auto* range = std::partition_point(std::begin(kLater), std::end(kLater),
                                           [&](const LaterRange& one) { return one.last < character; });
  return range != std::end(kLater) && range->first <= character;
}

const utf8proc_uint8_t* utf8_units(std::string_view words) {
  return reinterpret_cast<const utf8proc_uint8_t*>(words.data());
}

void append_normalized(std::string_view words, std::string& out) {
  if (words.empty()) return;
  utf8proc_uint8_t* made = nullptr;
  const auto size = utf8proc_map(utf8_units(words), static_cast<utf8proc_ssize_t>(words.size()), &made,
                                 static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(made, &std::free);
  if (size < 0)
    throw Error(text("a text of ", words.size(), " bytes could not be normalized: ", utf8proc_errmsg(size)));
  out.append(reinterpret_cast<const char*>(made), static_cast<size_t>(size));
}

}  // namespace

std::string_view nfc(std::string_view words, std::string& storage) {
  // Characters below U+0300, the first mark, neither combine nor change; they are the ones without a byte from 0xCC.
  if (std::none_of(words.begin(), words.end(), [](char c) { return static_cast<unsigned char>(c) >= 0xCC; }))
    return words;
  storage.clear();
  size_t done = 0;
  for (size_t at = 0; at < words.size();) {
    utf8proc_int32_t character = 0;
    const auto size =
        utf8proc_iterate(utf8_units(words) + at, static_cast<utf8proc_ssize_t>(words.size() - at), &character);
    SHADE_CHECK(size > 0, "the text is not UTF-8 at byte ", at);
    if (is_later(character)) {  // nothing passes it or joins it: what is before and behind are two texts
      append_normalized(words.substr(done, at - done), storage);
      storage.append(words.substr(at, static_cast<size_t>(size)));
      done = at + static_cast<size_t>(size);
    }
    at += static_cast<size_t>(size);
  }
  append_normalized(words.substr(done), storage);
  return storage;
}

}  // namespace shade::data
