// Where a rank's job secret comes from. The first of
//
//   SHADE_SECRET_FILE   a file that only its owner may read
//   SHADE_SECRET        the secret itself; `shade launch` and --ranks make one for every start and set it
//   on one host         this user's own file in the folder for temporary files, made when it is first needed
//
// Ranks on several hosts have no such file in common: without one of the variables they are refused.
#pragma once

#include <filesystem>

#include "shade/comm/job/environment.h"
#include "shade/comm/job/secret.h"

namespace shade::comm {

inline constexpr const char* kSecretVariable = "SHADE_SECRET";
inline constexpr const char* kSecretFileVariable = "SHADE_SECRET_FILE";

Secret job_secret(const Place& place);
Secret job_secret(const Place& place, const Getenv& get, const std::filesystem::path& temporary);

}  // namespace shade::comm
