# shade_arrow: libshade_arrow.so, what reads .parquet and .arrow (shade/data/arrow/arrow_library.h). Built where
# tools/bootstrap has put Arrow C++; the program reads everything else without it.
set(SHADE_ARROW "${PROJECT_SOURCE_DIR}/.deps/arrow/pyarrow" CACHE PATH "Folder of Arrow's libraries, with include/")
file(GLOB arrow_library "${SHADE_ARROW}/libarrow.so.*")
file(GLOB parquet_library "${SHADE_ARROW}/libparquet.so.*")
if(SHADE_SANITIZE)
  message(STATUS "libshade_arrow.so is not built: sanitizers are for the program")
  return()
endif()
if(NOT arrow_library OR NOT parquet_library)
  message(STATUS "libshade_arrow.so is not built: there is no Arrow in ${SHADE_ARROW} (tools/bootstrap arrow)")
  return()
endif()

set(arrow_sources data/arrow/cells.cpp data/arrow/ipc_batches.cpp data/arrow/parquet_batches.cpp data/arrow/table_rows.cpp
  base/visible_text.cpp io/strict_json.cpp)
list(TRANSFORM arrow_sources PREPEND "${PROJECT_SOURCE_DIR}/shade/")
add_library(shade_arrow SHARED ${arrow_sources})
target_include_directories(shade_arrow SYSTEM PRIVATE "${SHADE_ARROW}/include")
target_link_libraries(shade_arrow PRIVATE shade::options ${arrow_library} ${parquet_library})
# What the program would have to provide is an error: it would be missing when the library is loaded.
target_link_options(shade_arrow PRIVATE -Wl,--no-undefined)
set_target_properties(shade_arrow PROPERTIES CXX_VISIBILITY_PRESET hidden LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib"
  BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "${SHADE_ARROW}")
# Programs look for it beside them.
list(PREPEND CMAKE_BUILD_RPATH "$ORIGIN/../lib")
list(REMOVE_DUPLICATES CMAKE_BUILD_RPATH)
