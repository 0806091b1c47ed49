# libtorch from the wheels that tools/bootstrap put into .deps/: shade::torch.
if(SHADE_CUDA)
  set(flavour cuda)
else()
  set(flavour cpu)
endif()
set(SHADE_TORCH "${PROJECT_SOURCE_DIR}/.deps/${flavour}/torch" CACHE PATH "Folder of libtorch: torch/ of its wheel")

if(NOT EXISTS "${SHADE_TORCH}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "libtorch was not found in ${SHADE_TORCH}.\n  Run: tools/bootstrap ${flavour}")
endif()
include(TorchTarget)
