// The element types of files in libtorch's words.
#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <string_view>

#include "shade/io/dtype.h"

namespace shade::io {

at::ScalarType scalar_type(Dtype dtype);

// Throws UsageError for types that files don't hold; `tensor` is the name for the message.
Dtype dtype_of(at::ScalarType type, std::string_view tensor);

// As config.json has it; transformers makes the model in this type, whatever the files hold. Throws UsageError for
// types that weights don't have.
const char* hf_name(at::ScalarType type);
// The type of such a name, "torch.bfloat16" too; none if weights don't have it.
std::optional<at::ScalarType> from_hf_name(std::string_view name);

}  // namespace shade::io
