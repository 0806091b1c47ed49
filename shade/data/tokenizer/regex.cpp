#include "shade/data/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

#include "shade/io/errors.h"
#include "shade/io/strict_json.h"

namespace shade::data {
namespace {

using io::FormatError;

// Reads a pattern of Oniguruma sign by sign and writes PCRE2's.
class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  std::string run() {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      if (c == '\\') {
        escape();
      } else if (in_class_) {
        class_sign(c);
      } else {
        sign(c);
      }
    }
    if (in_class_) refuse("a class without end");
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    throw FormatError(text("the pattern ", io::quote(pattern_), " has ", what, " at byte ", at_,
                           ", which is not read here; known are the patterns of Llama 3, Qwen2 and their kind"));
  }

  bool follows(std::string_view words) const { return pattern_.substr(at_).starts_with(words); }
  void copy(size_t bytes) {
    out_.append(pattern_.substr(at_, bytes));
    at_ += bytes;
  }

  void sign(char c) {
    if (c == '[') {
      in_class_ = true;
      copy(follows("[^") ? 2 : 1);
      if (follows("]")) refuse("an empty class");
    } else if (c == '(') {
      for (const auto* group : {"(?i:", "(?:", "(?!", "(?="})
        if (follows(group)) return copy(std::string_view(group).size());
      if (follows("(?") || follows("(*")) refuse("a group of an unknown kind");
      copy(1);
    } else if (c == '{') {
      repeat();
    } else if (c == '^' || c == '$' || c == '.' || c == '#') {
      refuse(text("'", c, "'"));
    } else {
      copy(1);
    }
  }

  void class_sign(char c) {
    if (c == '[') refuse("a class in a class");
    if (follows("&&")) refuse("'&&'");
    if (c == ']') in_class_ = false;
    copy(1);
  }

  // {2}, {1,3}, {2,}
  void repeat() {
    size_t end = at_ + 1;
    while (end < pattern_.size() && ((pattern_[end] >= '0' && pattern_[end] <= '9') || pattern_[end] == ',')) ++end;
    if (end == at_ + 1 || end >= pattern_.size() || pattern_[end] != '}' || pattern_[at_ + 1] == ',')
      refuse("'{' that is no repeat");
    copy(end + 1 - at_);
    if (follows("+")) refuse("'+' after a repeat");  // Oniguruma repeats the repeat, PCRE2 makes it possessive
  }

  void escape() {
    if (at_ + 1 == pattern_.size()) refuse("a backslash at its end");
    const char c = pattern_[at_ + 1];
    if (c == 's' || c == 'S') {
      at_ += 2;
      return class_of(kSpace, c == 'S');
    }
    if (c == 'p' || c == 'P') return property(c == 'P');
    if (c == 'r' || c == 'n' || c == 't') return copy(2);
    const bool word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c < 0;
    if (word) refuse(text("'\\", c < 0 ? '?' : c, "'"));
    copy(2);
  }

  void property(bool negated) {
    const auto end = pattern_.find('}', at_);
    if (pattern_.substr(at_ + 2, 1) != "{" || end == std::string_view::npos) refuse("'\\p' without {name}");
    const auto name = pattern_.substr(at_ + 3, end - at_ - 3);
    const auto* members = property_members(name);
    if (members == nullptr) refuse(text("the property ", io::quote(name)));
    at_ = end + 1;
    class_of(members, negated);
  }

  // `members` as they stand in a class.
  void class_of(const char* members, bool negated) {
    if (in_class_ && negated) refuse("a negation in a class");
    if (in_class_)
      out_ += members;
    else
      out_ += text(negated ? "[^" : "[", members, "]");
  }

  std::string_view pattern_;
  size_t at_ = 0;
  bool in_class_ = false;
  std::string out_;
};

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> words{};
  pcre2_get_error_message(error, words.data(), words.size());
  return reinterpret_cast<const char*>(words.data());
}

PCRE2_SPTR units(std::string_view words) { return reinterpret_cast<PCRE2_SPTR>(words.data()); }

}  // namespace

std::string translate_pattern(std::string_view pattern) {
  if (const auto at = io::first_not_utf8(pattern)) throw FormatError(text("the pattern is not UTF-8 at byte ", *at));
  return Translator(pattern).run();
}

struct Regex::Code {
  template <auto Free>
  struct Freed {
    template <class T>
    void operator()(T* thing) const {
      Free(thing);
    }
  };
  using MatchData = std::unique_ptr<pcre2_match_data, Freed<pcre2_match_data_free>>;

  std::unique_ptr<pcre2_code, Freed<pcre2_code_free>> compiled;
  std::unique_ptr<pcre2_match_context, Freed<pcre2_match_context_free>> context;
};

Regex::Regex(std::string_view pattern) : code_(std::make_unique<Code>()) {
  if (pattern.size() > 4096) throw FormatError(text("a pattern of ", pattern.size(), " bytes; at most 4096 are read"));
  const auto translated = translate_pattern(pattern);
  int error = 0;
  size_t at = 0;
  code_->compiled.reset(pcre2_compile(units(translated), translated.size(),
                                      PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &at, nullptr));
  if (code_->compiled == nullptr)
    throw FormatError(text("the pattern ", io::quote(pattern), " is not one: ", message_of(error)));
  // Refused where the processor has none; the same code is then interpreted.
  pcre2_jit_compile(code_->compiled.get(), PCRE2_JIT_COMPLETE);
  code_->context.reset(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(code_->context.get(), 50'000'000);
  bool empty = false;
  split("a", [&](std::string_view piece) { empty = empty || piece.empty(); });
  const Code::MatchData data(pcre2_match_data_create_from_pattern(code_->compiled.get(), nullptr));
  if (empty || pcre2_match(code_->compiled.get(), units(""), 0, 0, 0, data.get(), code_->context.get()) >= 0)
    throw FormatError(text("the pattern ", io::quote(pattern), " matches the empty text"));
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

void Regex::split(std::string_view words, const std::function<void(std::string_view)>& piece) const {
  const Code::MatchData data(pcre2_match_data_create_from_pattern(code_->compiled.get(), nullptr));
  const auto* found = pcre2_get_ovector_pointer(data.get());
  size_t done = 0;
  for (size_t from = 0; from < words.size();) {
    const int status = pcre2_match(code_->compiled.get(), units(words), words.size(), from, PCRE2_NO_UTF_CHECK,
                                   data.get(), code_->context.get());
    if (status == PCRE2_ERROR_NOMATCH) break;
    if (status < 0) throw Error(text("a text of ", words.size(), " bytes could not be cut: ", message_of(status)));
    const auto begin = found[0], end = found[1];
    if (begin > done) piece(words.substr(done, begin - done));
    if (end > begin) piece(words.substr(begin, end - begin));
    done = end;
    from = end;
    // An empty match cuts and takes nothing: on to the next character.
    while (end == begin && ++from < words.size() && (static_cast<unsigned char>(words[from]) & 0xC0) == 0x80) continue;
  }
  if (done < words.size()) piece(words.substr(done));
}

}  // namespace shade::data
