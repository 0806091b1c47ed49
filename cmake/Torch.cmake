# shade::torch, the one imported target for libtorch, from the wheels that tools/bootstrap put into .deps/.
#
# find_package(Torch) is not used: it wants a CUDA toolkit and an architecture list even for a CPU build, and brings
# torch's own compile flags. Ours needs four things: headers (as SYSTEM, so that -Werror is about our code), two
# libraries, a run path, and C++20.
if(SHADE_CUDA)
  set(flavour cuda)
else()
  set(flavour cpu)
endif()
set(SHADE_DEPS "${PROJECT_SOURCE_DIR}/.deps/${flavour}" CACHE PATH "Folder with the torch wheel")

if(NOT EXISTS "${SHADE_DEPS}/torch/lib/libtorch_cpu.so")
  message(FATAL_ERROR "libtorch was not found in ${SHADE_DEPS}.\n  Run: tools/bootstrap ${flavour}")
endif()

add_library(shade_torch INTERFACE)
add_library(shade::torch ALIAS shade_torch)
target_include_directories(shade_torch SYSTEM INTERFACE
  "${SHADE_DEPS}/torch/include"
  "${SHADE_DEPS}/torch/include/torch/csrc/api/include")
target_compile_definitions(shade_torch INTERFACE USE_DISTRIBUTED)
set(torch_libraries torch_cpu c10)

if(SHADE_CUDA)
  target_include_directories(shade_torch SYSTEM INTERFACE
    "${SHADE_DEPS}/nvidia/cu13/include" "${SHADE_DEPS}/nvidia/nccl/include")
  list(PREPEND torch_libraries torch_cuda c10_cuda)
  # cuBLAS and the rest are found at run time through libtorch_cuda's own run path; the linker need not see them. The
  # NCCL must be the one that came with torch, not an older one of the system.
  target_link_options(shade_torch INTERFACE -Wl,--allow-shlib-undefined -Wl,--no-as-needed)
  set(cuda_libraries "${SHADE_DEPS}/nvidia/nccl/lib/libnccl.so.2" "${SHADE_DEPS}/nvidia/cu13/lib/libcudart.so.13")
endif()

foreach(name IN LISTS torch_libraries)
  target_link_libraries(shade_torch INTERFACE "${SHADE_DEPS}/torch/lib/lib${name}.so")
endforeach()
target_link_libraries(shade_torch INTERFACE ${cuda_libraries})
# libtorch_cpu names these without a run path of its own that the static linker would follow.
target_link_options(shade_torch INTERFACE "-Wl,-rpath-link,${SHADE_DEPS}/nvidia/cu13/lib")
