# Writes generated/shade_version.h at build time, so that the commit in result files is the one that was built.
set(SHADE_GENERATED "${PROJECT_BINARY_DIR}/generated")
# For programs: what they were compiled with.
file(CONFIGURE OUTPUT "${SHADE_GENERATED}/shade/version.h" @ONLY CONTENT [[
// The version of the library.
#pragma once

#define SHADE_VERSION_MAJOR @PROJECT_VERSION_MAJOR@
#define SHADE_VERSION_MINOR @PROJECT_VERSION_MINOR@
#define SHADE_VERSION_PATCH @PROJECT_VERSION_PATCH@
// For #if: SHADE_VERSION_NUMBER >= 300 is 0.3.0 or later.
#define SHADE_VERSION_NUMBER (SHADE_VERSION_MAJOR * 10000 + SHADE_VERSION_MINOR * 100 + SHADE_VERSION_PATCH)
]])
add_custom_target(shade_version_header
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${SHADE_GENERATED}/shade_version.h -DVERSION=${PROJECT_VERSION}
    -DSOURCE=${PROJECT_SOURCE_DIR} -DCOMPILER="${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}"
    -DBUILD_TYPE=${CMAKE_BUILD_TYPE} -DSANITIZE=${SHADE_SANITIZE} -P ${PROJECT_SOURCE_DIR}/cmake/WriteVersion.cmake
  BYPRODUCTS ${SHADE_GENERATED}/shade_version.h VERBATIM)
