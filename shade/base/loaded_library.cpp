#include "shade/base/loaded_library.h"

#include <dlfcn.h>

#include "shade/base/error.h"

namespace shade {

LoadedLibrary::LoadedLibrary(std::string file, const std::string& advice) : file_(std::move(file)) {
  handle_ = ::dlopen(file_.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) why_not_ = text(file_, " was not loaded (", ::dlerror(), "); ", advice);
}

void* LoadedLibrary::find(const char* name) const {
  SHADE_REQUIRE(loaded(), why_not_);
  void* const function = ::dlsym(handle_, name);
  SHADE_REQUIRE(function != nullptr, file_, " has no ", name, ": it is of another build than this program");
  return function;
}

}  // namespace shade
