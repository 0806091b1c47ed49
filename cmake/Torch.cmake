# libtorch from the wheels that tools/bootstrap put into .deps/: shade::torch.
set(SHADE_TORCH "${PROJECT_SOURCE_DIR}/.deps/cpu/torch" CACHE PATH "Folder of libtorch: torch/ of its wheel")

if(NOT EXISTS "${SHADE_TORCH}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "libtorch was not found in ${SHADE_TORCH}.\n  Run: tools/bootstrap cpu")
endif()
include(TorchTarget)
