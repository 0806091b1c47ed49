#include "shade/base/cuda_library.h"

#include <dlfcn.h>
#include <link.h>

#include "shade/base/error.h"

namespace shade {
namespace {

// Of the libtorch that this process runs on; empty if it runs on none.
std::string libtorch_folder() {
  void* const library = ::dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return "";
  link_map* place = nullptr;
  const bool known = ::dlinfo(library, RTLD_DI_LINKMAP, &place) == 0;
  const std::string path = known ? place->l_name : "";
  ::dlclose(library);
  return path.substr(0, path.rfind('/') + 1);
}

}  // namespace

int visible_gpus() {
  static const int count = [] {
    void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (driver == nullptr) return 0;
    const auto init = reinterpret_cast<int (*)(unsigned)>(::dlsym(driver, "cuInit"));
    const auto ask = reinterpret_cast<int (*)(int*)>(::dlsym(driver, "cuDeviceGetCount"));
    int devices = 0;
    return init != nullptr && ask != nullptr && init(0) == 0 && ask(&devices) == 0 ? devices : 0;
  }();
  return count;
}

CudaLibrary::CudaLibrary() {
  const auto folder = libtorch_folder();
  // By its full path, so that it is of the same build as the libtorch that is in use, wherever another one may be.
  // What it needs itself it finds through its own run path. Our library then takes the one that is loaded.
  if (::dlopen((folder + "libtorch_cuda.so").c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    why_not_ = text("libtorch in ", folder, " can't use CUDA (", ::dlerror(), "); install it: tools/bootstrap cuda");
    return;
  }
  library_.emplace("libshade_cuda.so",
                   "build it: tools/bootstrap cuda nvcc && cmake --preset release && cmake --build --preset release");
  why_not_ = library_->why_not();
}

const CudaLibrary& CudaLibrary::get() {
  static const CudaLibrary library;
  return library;
}

void CudaLibrary::require_loaded() const { SHADE_REQUIRE(loaded(), why_not_); }

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
