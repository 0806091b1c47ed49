// Results are shared, and a whole path tells of a machine and its user: of an absolute one, and of one that leads out
// of the working folder, only the last name stays.
#pragma once

#include <string>
#include <string_view>

#include "shade/base/json.h"

namespace shade {

// "/home/ann/llama" is ".../llama"; so are the paths in "--model=/home/ann/llama", "@/home/ann/classes" and the list
// "nano,/home/ann/llama", and "../../ann/llama". Other words stay, relative paths below the working folder among them.
std::string without_folders(const std::string& word);

// The same for every path in a sentence; one with spaces must be in double quotes.
std::string without_folders_within(std::string_view sentence);

Json without_folders(Json json);  // every text in it

}  // namespace shade
