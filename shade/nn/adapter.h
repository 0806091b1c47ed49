// How weights of LoRA adapters are told from others: by their names, as Projection gives them and files carry them.
#pragma once

#include <string_view>

namespace shade::nn {

inline bool is_adapter(std::string_view weight) { return weight.find(".lora_") != std::string_view::npos; }

}  // namespace shade::nn
