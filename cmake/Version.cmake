# Writes generated/shade_version.h at build time, so that the commit in result files is the one that was built.
set(SHADE_GENERATED "${PROJECT_BINARY_DIR}/generated")
add_custom_target(shade_version_header
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${SHADE_GENERATED}/shade_version.h -DVERSION=${PROJECT_VERSION}
    -DSOURCE=${PROJECT_SOURCE_DIR} -DCOMPILER="${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}"
    -DBUILD_TYPE=${CMAKE_BUILD_TYPE} -DSANITIZE=${SHADE_SANITIZE} -P ${PROJECT_SOURCE_DIR}/cmake/WriteVersion.cmake
  BYPRODUCTS ${SHADE_GENERATED}/shade_version.h VERBATIM)
