# shade::options: what every file of ours is compiled with, and nobody else's.
add_library(shade_options INTERFACE)
add_library(shade::options ALIAS shade_options)
target_compile_features(shade_options INTERFACE cxx_std_20)
target_include_directories(shade_options INTERFACE "${PROJECT_SOURCE_DIR}")
target_compile_options(shade_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion)
# libtorch was compiled with it, and its headers have members and checks that depend on it.
target_compile_definitions(shade_options INTERFACE NDEBUG)
if(SHADE_PROGRAM)  # a newer compiler's warnings must not end the build of another project
  target_compile_options(shade_options INTERFACE -Werror)
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC follows std::vector and std::string through inlining and reports bounds it cannot know (bugs 100366, 105651).
  target_compile_options(shade_options INTERFACE -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds
    # It reports what an exception would leave unset in a temporary, and the value of an empty std::optional (bug 80635).
    -Wno-maybe-uninitialized
    # It doesn't see that an object in a std::unique_ptr ends with the function whose local variables it points to.
    -Wno-dangling-pointer
    # Clang and nvcc know "#pragma unroll" (noise_lane.h, which a proof covers as it is).
    -Wno-unknown-pragmas
    # It sees the else in GoogleTest's assertions, which is in a switch of its own. Clang looks for others.
    -Wno-dangling-else
    # Designated initialisers leave the other fields at their defaults on purpose.
    -Wno-missing-field-initializers)
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(shade_options INTERFACE -Wno-missing-designated-field-initializers
    # libstdc++ 12 calls what it has itself deprecated (std::stable_sort's buffer).
    -Wno-deprecated-declarations)
endif()

if(SHADE_SANITIZE)
  target_compile_options(shade_options INTERFACE -fsanitize=${SHADE_SANITIZE} -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  target_link_options(shade_options INTERFACE -fsanitize=${SHADE_SANITIZE})
endif()

if(SHADE_COVERAGE)
  target_compile_options(shade_options INTERFACE -fprofile-instr-generate -fcoverage-mapping)
  target_link_options(shade_options INTERFACE -fprofile-instr-generate)
endif()

if(SHADE_TIDY)
  find_program(CLANG_TIDY NAMES clang-tidy-19 REQUIRED)
  set(SHADE_CLANG_TIDY "${CLANG_TIDY}" "--quiet")
endif()

find_program(CCACHE ccache)
if(CCACHE)
  # A precompiled header is part of the key by content; the macros that change every second are not used.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    "CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime" ${CCACHE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(shade_options INTERFACE -fpch-preprocess)
  elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_compile_options(shade_options INTERFACE "SHELL:-Xclang -fno-pch-timestamp")
  endif()
endif()
