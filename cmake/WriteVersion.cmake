# Run as a script by Version.cmake. Rewrites the header only when it changes.
execute_process(COMMAND git -C "${SOURCE}" rev-parse --short=12 HEAD OUTPUT_VARIABLE commit ERROR_QUIET
  OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
set(date "")
if(failed)
  set(commit "unknown")
else()
  execute_process(COMMAND git -C "${SOURCE}" log -1 --format=%cs OUTPUT_VARIABLE date ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  execute_process(COMMAND git -C "${SOURCE}" status --porcelain --untracked-files=no OUTPUT_VARIABLE changes ERROR_QUIET)
  if(changes)
    string(APPEND commit "+changes")
  endif()
endif()
string(REPLACE "\"" "" COMPILER "${COMPILER}")
set(build "${BUILD_TYPE}")
if(SANITIZE)
  string(APPEND build ", sanitize ${SANITIZE}")
endif()
set(text "#pragma once
#define SHADE_VERSION \"${VERSION}\"
#define SHADE_COMMIT \"${commit}\"
#define SHADE_DATE \"${date}\"
#define SHADE_COMPILER \"${COMPILER}\"
#define SHADE_BUILD \"${build}\"
")
set(old "")
if(EXISTS "${OUTPUT}")
  file(READ "${OUTPUT}" old)
endif()
if(NOT old STREQUAL text)
  file(WRITE "${OUTPUT}" "${text}")
endif()
