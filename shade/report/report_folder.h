// Folders that a report makes in the one that the user named.
#pragma once

#include <filesystem>

#include "shade/base/private_file.h"

namespace shade::report {

// As make_folder(). For `owner` a symbolic link is refused (UsageError): what it leads to stays as open as it is.
void make_report_folder(const std::filesystem::path& folder, Readers readers);

}  // namespace shade::report
