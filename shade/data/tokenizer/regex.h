// The patterns by which tokenizers cut text into words: Oniguruma's language, run by PCRE2.
//
// Tokenizer files are written for Oniguruma. Where PCRE2 means something else by the same sign the pattern is rewritten
// or refused, so that a cut is either the same or not made:
//   \s           PCRE2's includes U+180E, which has not been a space since Unicode 6.3: written out
//   \p{L,M,N}    PCRE2 10.42 knows Unicode 14, Oniguruma 16: what was added since is written out
//   anchors, '.', \w, \d, \b, classes in classes, backreferences, ...: refused
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace shade::data {

// The same pattern in PCRE2's language. Throws io::FormatError for what is refused.
std::string translate_pattern(std::string_view pattern);

// Const methods are thread-safe.
class Regex {
 public:
  // Throws io::FormatError: no pattern, one that is refused, one that matches the empty text.
  explicit Regex(std::string_view pattern);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  // All of `text` (UTF-8) in order: what matches, and what lies between, as pieces of their own. Throws Error if the
  // pattern takes more steps than a pattern should.
  void split(std::string_view text, const std::function<void(std::string_view)>& piece) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

}  // namespace shade::data
