# shade::torch, the one imported target for libtorch, from the folder SHADE_TORCH: torch/ of a wheel. Used by this build
# and, installed, by shadeConfig.cmake.
#
# find_package(Torch) is not used: it wants a CUDA toolkit and an architecture list even for a CPU build, and brings
# torch's own compile flags. Ours needs four things: headers (as SYSTEM, so that warnings are about one's own code), two
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
set(shade_torch_libraries torch_cpu c10)
set(shade_cuda_libraries "")
set(SHADE_RUN_PATH "${SHADE_TORCH}/lib")  # of programs

if(SHADE_CUDA)
  target_include_directories(shade::torch SYSTEM INTERFACE
    "${shade_wheels}/nvidia/cu13/include" "${shade_wheels}/nvidia/nccl/include")
  list(PREPEND shade_torch_libraries torch_cuda c10_cuda)
  # cuBLAS and the rest are found at run time through libtorch_cuda's own run path; the linker need not see them. The
  # NCCL must be the one that came with torch, not an older one of the system.
  target_link_options(shade::torch INTERFACE -Wl,--allow-shlib-undefined -Wl,--no-as-needed)
  set(shade_cuda_libraries
    "${shade_wheels}/nvidia/nccl/lib/libnccl.so.2" "${shade_wheels}/nvidia/cu13/lib/libcudart.so.13")
  list(APPEND SHADE_RUN_PATH "${shade_wheels}/nvidia/nccl/lib" "${shade_wheels}/nvidia/cu13/lib")
endif()

foreach(shade_library IN LISTS shade_torch_libraries)
  target_link_libraries(shade::torch INTERFACE "${SHADE_TORCH}/lib/lib${shade_library}.so")
endforeach()
target_link_libraries(shade::torch INTERFACE ${shade_cuda_libraries})
# libtorch_cpu names these without a run path of its own that the static linker would follow.
target_link_options(shade::torch INTERFACE "-Wl,-rpath-link,${shade_wheels}/nvidia/cu13/lib")
