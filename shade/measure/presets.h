// The five documents' experiments, as rows of options.
#pragma once

#include <string>
#include <vector>

namespace shade::measure {

enum class Scale { small, full };

struct Preset {
  const char* name;
  const char* what;
  const char* shared;       // options of both scales
  const char* small_sizes;  // a few minutes on two cores
  const char* full_sizes;   // as the document has it
};

const std::vector<Preset>& presets();
std::vector<std::string> preset_names();

// A word among a preset's options that stands for a folder of texts: who runs it makes one.
inline constexpr const char* kCorpus = "{corpus}";

// Throws UsageError with the nearest name.
std::vector<std::string> preset_arguments(const std::string& name, Scale scale);

}  // namespace shade::measure
