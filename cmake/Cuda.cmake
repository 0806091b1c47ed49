# shade_cuda: libshade_cuda.so, what needs CUDA (shade/base/cuda_library.h). Built where tools/bootstrap has put libtorch
# with CUDA and nvcc; everything else is compiled once and serves machines with and without GPUs.
set(SHADE_CUDA_WHEELS "${PROJECT_SOURCE_DIR}/.deps/cuda" CACHE PATH "Folder of the wheels of libtorch with CUDA")
set(SHADE_CUDA_ARCHITECTURES "80;90;100" CACHE STRING "GPUs that kernels are compiled for; the last also as PTX")
find_program(SHADE_NVCC nvcc PATHS "${PROJECT_SOURCE_DIR}/.deps/nvcc/nvidia/cu13/bin" NO_DEFAULT_PATH)
find_program(SHADE_NVCC nvcc PATHS /usr/local/cuda/bin DOC "nvcc of CUDA 13: tools/bootstrap's, else a toolkit's")

# Sets `reason` to why the library can't be built, or to nothing.
function(shade_cuda_absence reason)
  set(${reason} "" PARENT_SCOPE)
  if(SHADE_SANITIZE)
    set(${reason} "sanitizers are for the program" PARENT_SCOPE)
    return()
  endif()
  if(NOT EXISTS "${SHADE_CUDA_WHEELS}/torch/lib/libtorch_cuda.so")
    set(${reason} "there is no libtorch with CUDA in ${SHADE_CUDA_WHEELS} (tools/bootstrap cuda)" PARENT_SCOPE)
    return()
  endif()
  # The program is compiled against one libtorch and may run on the other: they must be of one commit.
  file(STRINGS "${SHADE_TORCH}/version.py" here REGEX "^git_version")
  file(STRINGS "${SHADE_CUDA_WHEELS}/torch/version.py" there REGEX "^git_version")
  if(NOT here STREQUAL there)
    set(${reason} "${SHADE_CUDA_WHEELS}/torch is of another commit than ${SHADE_TORCH}" PARENT_SCOPE)
  elseif(NOT SHADE_NVCC)
    set(${reason} "there is no nvcc (tools/bootstrap nvcc)" PARENT_SCOPE)
  else()
    execute_process(COMMAND "${SHADE_NVCC}" --version OUTPUT_VARIABLE words)
    if(NOT words MATCHES "release 13\\.")
      set(${reason} "${SHADE_NVCC} is not of CUDA 13, as libtorch is (tools/bootstrap nvcc)" PARENT_SCOPE)
    endif()
  endif()
endfunction()

shade_cuda_absence(reason)
if(reason)
  message(STATUS "libshade_cuda.so is not built: ${reason}")
  return()
endif()

# Kernels. Not by CMake's own CUDA language, which looks for a whole toolkit. No contraction: the noise is the host's, bit
# by bit.
set(noise_object "${PROJECT_BINARY_DIR}/noise_cuda.o")
set(nvcc_words -ccbin ${CMAKE_CXX_COMPILER} -std=c++20 -O3 --fmad=false --expt-relaxed-constexpr -I${PROJECT_SOURCE_DIR})
set(nvcc_targets "")
foreach(architecture IN LISTS SHADE_CUDA_ARCHITECTURES)
  list(APPEND nvcc_targets -gencode arch=compute_${architecture},code=sm_${architecture})
endforeach()
list(GET SHADE_CUDA_ARCHITECTURES -1 newest)
list(APPEND nvcc_targets -gencode arch=compute_${newest},code=compute_${newest})  # for GPUs that come after
add_custom_command(OUTPUT ${noise_object}
  COMMAND ${SHADE_NVCC} ${nvcc_words} ${nvcc_targets} -Xcompiler -fPIC,-ffp-contract=off,-fvisibility=hidden
    -MD -MF ${noise_object}.d -c ${PROJECT_SOURCE_DIR}/shade/privacy/noise_cuda.cu -o ${noise_object}
  DEPENDS ${PROJECT_SOURCE_DIR}/shade/privacy/noise_cuda.cu DEPFILE ${noise_object}.d
  COMMENT "Compiling the kernels of libshade_cuda.so" VERBATIM)
# The same as text, which tests translate and run without a GPU.
list(GET SHADE_CUDA_ARCHITECTURES 0 oldest)
set(SHADE_NOISE_PTX "${PROJECT_BINARY_DIR}/noise_cuda.ptx")
add_custom_command(OUTPUT ${SHADE_NOISE_PTX}
  COMMAND ${SHADE_NVCC} ${nvcc_words} -arch=compute_${oldest}
    -ptx ${PROJECT_SOURCE_DIR}/shade/privacy/noise_cuda.cu -o ${SHADE_NOISE_PTX}
  DEPENDS ${noise_object} VERBATIM)
add_custom_target(shade_noise_ptx DEPENDS ${SHADE_NOISE_PTX})

add_library(shade_cuda SHARED "${PROJECT_SOURCE_DIR}/shade/comm/backends/nccl_cuda.cpp" ${noise_object})
target_link_libraries(shade_cuda PRIVATE shade::options shade::torch
  "${SHADE_CUDA_WHEELS}/torch/lib/libtorch_cuda.so" "${SHADE_CUDA_WHEELS}/torch/lib/libc10_cuda.so"
  "${SHADE_CUDA_WHEELS}/nvidia/nccl/lib/libnccl.so.2" "${SHADE_CUDA_WHEELS}/nvidia/cu13/lib/libcudart.so.13")
target_include_directories(shade_cuda SYSTEM PRIVATE
  "${SHADE_CUDA_WHEELS}/nvidia/cu13/include" "${SHADE_CUDA_WHEELS}/nvidia/nccl/include")
# cuBLAS and the rest are found through libtorch_cuda's own run path; the linker need not see them. What the program
# would have to provide is an error, though: it would be missing when the library is loaded.
target_link_options(shade_cuda PRIVATE -Wl,--allow-shlib-undefined -Wl,--no-undefined)
# It takes the libtorch that is loaded before it, wherever that is.
set_target_properties(shade_cuda PROPERTIES SKIP_BUILD_RPATH ON CXX_VISIBILITY_PRESET hidden
  LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")

# Programs look for it beside them, and for libtorch first where it has CUDA.
list(PREPEND SHADE_RUN_PATH "${SHADE_CUDA_WHEELS}/torch/lib")
set(CMAKE_BUILD_RPATH "$ORIGIN/../lib" "${SHADE_CUDA_WHEELS}/torch/lib")
