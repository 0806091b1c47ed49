# shade::torch, the one imported target for libtorch, from the folder SHADE_TORCH: torch/ of a wheel. Used by this build
# and, installed, by shadeConfig.cmake.
#
# find_package(Torch) is not used: it wants a CUDA toolkit and an architecture list even for a CPU build, and brings
# torch's own compile flags. Ours needs four things: headers (as SYSTEM, so that warnings are about one's own code), three
# libraries, a run path, and C++20.
get_filename_component(shade_wheels "${SHADE_TORCH}" DIRECTORY)

set(SHADE_TORCH_VERSION "unknown")  # major.minor
set(shade_version_header "${SHADE_TORCH}/include/torch/headeronly/version.h")
if(EXISTS "${shade_version_header}")
  file(STRINGS "${shade_version_header}" shade_numbers REGEX "define TORCH_VERSION_(MAJOR|MINOR) ")
  string(REGEX REPLACE "[^0-9]*([0-9]+)[^0-9]+([0-9]+)" "\\1.\\2" SHADE_TORCH_VERSION "${shade_numbers}")
endif()

add_library(shade::torch INTERFACE IMPORTED GLOBAL)
target_include_directories(shade::torch SYSTEM INTERFACE
  "${SHADE_TORCH}/include"
  "${SHADE_TORCH}/include/torch/csrc/api/include")
target_compile_definitions(shade::torch INTERFACE USE_DISTRIBUTED)
set(SHADE_RUN_PATH "${SHADE_TORCH}/lib")  # of programs

foreach(shade_library IN ITEMS torch_cpu c10)
  target_link_libraries(shade::torch INTERFACE "${SHADE_TORCH}/lib/lib${shade_library}.so")
endforeach()
# Its OpenMP runtime, for loops of our own (base/parallel.h).
file(GLOB shade_openmp "${SHADE_TORCH}/lib/libgomp*.so*")
list(APPEND shade_openmp "${SHADE_TORCH}/lib/libgomp.so.1")  # where there is none, the linker names this one
list(GET shade_openmp 0 shade_openmp)
target_link_libraries(shade::torch INTERFACE "${shade_openmp}")
# libtorch_cpu names these without a run path of its own that the static linker would follow.
target_link_options(shade::torch INTERFACE "-Wl,-rpath-link,${shade_wheels}/nvidia/cu13/lib")
