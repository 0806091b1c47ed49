// Which settings differ between two starts of a run, by name.
#pragma once

#include <string>
#include <vector>

#include "shade/base/json.h"

namespace shade::train {

// What a checkpoint keeps to compare with: the recipe as it was resolved, the number of ranks, and what identity.h has
// of this machine and program. Nothing that follows from the records, and no seed of noise.
Json settings_of(Json recipe, int ranks, const Json& identity_parts);

// "optim.lr 0.001 -> 0.01", "ranks 2 -> 4", "program"; fields that one of them doesn't have are left out.
std::vector<std::string> changes(const Json& before, const Json& now);

// Of records known by "NUMBER FINGERPRINT": "data: 1 record more", or "data" if the number is the same.
std::string data_change(const std::string& before, const std::string& now);

}  // namespace shade::train
