// Words that other programs use for something that has another name here. They are not accepted: an error about an
// unknown name suggests ours.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace shade {

// "; did you mean 'train'?" for "finetune" if 'train' is a candidate, or what to know about it; else empty. Case and
// dashes don't matter.
std::string synonym(std::string_view word, std::span<const std::string> candidates);

}  // namespace shade
