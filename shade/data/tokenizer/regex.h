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

// Classes of characters as Unicode 16 has them, in the signs of a PCRE2 class: what PCRE2 10.42 knows (Unicode 14) and
// what was added since. A PCRE2 that knows more reads the same. tests/data/regex_test.cpp compares every character.
inline constexpr const char* kSpace =
    "\\x09-\\x0d\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
inline constexpr const char* kLetter =
    "\\p{L}\\x{1c89}-\\x{1c8a}\\x{a7cb}-\\x{a7cd}\\x{a7da}-\\x{a7dc}\\x{105c0}-\\x{105f3}\\x{10d4a}-\\x{10d65}"
    "\\x{10d6f}-\\x{10d85}\\x{10ec2}-\\x{10ec4}\\x{1123f}-\\x{11240}\\x{11380}-\\x{11389}\\x{1138b}\\x{1138e}"
    "\\x{11390}-\\x{113b5}\\x{113b7}\\x{113d1}\\x{113d3}\\x{11bc0}-\\x{11be0}\\x{11f02}\\x{11f04}-\\x{11f10}"
    "\\x{11f12}-\\x{11f33}\\x{1342f}\\x{13441}-\\x{13446}\\x{13460}-\\x{143fa}\\x{16100}-\\x{1611d}"
    "\\x{16d40}-\\x{16d6c}\\x{18cff}\\x{1b132}\\x{1b155}\\x{1df25}-\\x{1df2a}\\x{1e030}-\\x{1e06d}"
    "\\x{1e4d0}-\\x{1e4eb}\\x{1e5d0}-\\x{1e5ed}\\x{1e5f0}\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}";
inline constexpr const char* kMark =
    "\\p{M}\\x{897}\\x{cf3}\\x{ece}\\x{10d69}-\\x{10d6d}\\x{10efc}-\\x{10eff}\\x{11241}\\x{113b8}-\\x{113c0}"
    "\\x{113c2}\\x{113c5}\\x{113c7}-\\x{113ca}\\x{113cc}-\\x{113d0}\\x{113d2}\\x{113e1}-\\x{113e2}"
    "\\x{11f00}-\\x{11f01}\\x{11f03}\\x{11f34}-\\x{11f3a}\\x{11f3e}-\\x{11f42}\\x{11f5a}\\x{13440}"
    "\\x{13447}-\\x{13455}\\x{1611e}-\\x{1612f}\\x{1e08f}\\x{1e4ec}-\\x{1e4ef}\\x{1e5ee}-\\x{1e5ef}";
inline constexpr const char* kNumber =
    "\\p{N}\\x{10d40}-\\x{10d49}\\x{116d0}-\\x{116e3}\\x{11bf0}-\\x{11bf9}\\x{11f50}-\\x{11f59}\\x{16130}-\\x{16139}"
    "\\x{16d70}-\\x{16d79}\\x{1ccf0}-\\x{1ccf9}\\x{1d2c0}-\\x{1d2d3}\\x{1e4f0}-\\x{1e4f9}\\x{1e5f1}-\\x{1e5fa}";

// Null for a property that is not read.
inline const char* property_members(std::string_view name) {
  if (name == "L") return kLetter;
  if (name == "M") return kMark;
  if (name == "N") return kNumber;
  return nullptr;
}

}  // namespace shade::data
