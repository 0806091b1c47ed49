// Small operations on text that more than one module needs.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shade {

std::vector<std::string> split(std::string_view words, char separator);
std::string join(std::span<const std::string> parts, std::string_view separator);
std::string_view trim(std::string_view word);

// An option as it is spelled here: in --batch_size=a_b the underscores of the name become dashes. Other words stay.
std::string dashed(std::string_view option);

// Whole-word numbers: "12abc" is not a number. Empty on failure.
std::optional<int64_t> parse_integer(std::string_view word);
std::optional<double> parse_real(std::string_view word);

// The candidate a person most likely meant by `word`, if one is near enough to be worth suggesting.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);

// "; did you mean 'x'?" or nothing: the tail of every unknown-name error.
std::string suggestion(std::string_view word, std::span<const std::string> candidates);

// {0, 1, 2, 5} -> "0-2, 5"; long lists of ranks stay readable.
std::string ranges(std::span<const int> numbers);

}  // namespace shade
