// Results are shared, and a whole path tells of a machine and its user: of an absolute one only the last name stays.
#pragma once

#include <string>

#include "shade/base/json.h"

namespace shade {

// "/home/ann/llama" is ".../llama"; so are the paths in "--model=/home/ann/llama" and "@/home/ann/classes". Other words
// stay, relative paths among them.
std::string without_folders(const std::string& word);

Json without_folders(Json json);  // every text in it

}  // namespace shade
