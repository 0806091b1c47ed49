# One folder = one module = one target = one namespace. shade/modules has their order, and which of them each may use.
#
#   shade_module(comm TORCH SOURCES mesh.cpp group.cpp LIBRARIES PkgConfig::sodium)
#
# A module that speaks libtorch says TORCH and gets the shared precompiled header. Several sources of a module are compiled
# as one (SHADE_UNITY), because what they include takes most of the time of each: tools/check_names keeps their local names
# apart. APART: sources that are compiled by themselves. LIBRARIES: what a program that links the module needs as well;
# HEADERS: libraries of headers that no public header includes, so that such a program needs none of them.
file(STRINGS "${PROJECT_SOURCE_DIR}/shade/modules" rows REGEX "^[a-z]+:")
set_property(DIRECTORY "${PROJECT_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS shade/modules)
set(SHADE_MODULES "")
foreach(row IN LISTS rows)
  string(REGEX MATCH "^([a-z]+):(.*)$" _ "${row}")
  list(APPEND SHADE_MODULES ${CMAKE_MATCH_1})
  separate_arguments(SHADE_USES_${CMAKE_MATCH_1} UNIX_COMMAND "${CMAKE_MATCH_2}")
endforeach()

function(shade_module name)
  cmake_parse_arguments(MODULE "TORCH" "" "SOURCES;LIBRARIES;HEADERS;APART" ${ARGN})
  add_library(shade_${name} STATIC ${MODULE_SOURCES})
  add_library(shade::${name} ALIAS shade_${name})
  # Our warnings are for our own files: a program that links the library doesn't get them.
  target_link_libraries(shade_${name} PRIVATE $<BUILD_INTERFACE:shade::options> ${MODULE_LIBRARIES})
  foreach(headers IN LISTS MODULE_HEADERS)
    target_link_libraries(shade_${name} PUBLIC $<BUILD_INTERFACE:${headers}>)
  endforeach()
  target_include_directories(shade_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<BUILD_INTERFACE:${SHADE_GENERATED}>)
  set_property(GLOBAL PROPERTY SHADE_NEEDS_${name} ${MODULE_LIBRARIES})
  target_compile_features(shade_${name} PUBLIC cxx_std_20)
  foreach(used IN LISTS SHADE_USES_${name})
    target_link_libraries(shade_${name} PUBLIC shade::${used})
  endforeach()
  if(MODULE_TORCH)
    set_property(GLOBAL APPEND PROPERTY SHADE_NEEDS_${name} torch)
    target_link_libraries(shade_${name} PUBLIC shade::torch)
    shade_precompile(shade_${name})
  endif()
  if(SHADE_TIDY)
    set_target_properties(shade_${name} PROPERTIES CXX_CLANG_TIDY "${SHADE_CLANG_TIDY}")
  elseif(SHADE_UNITY)
    set_target_properties(shade_${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${SHADE_UNITY})
    set_source_files_properties(${MODULE_APART} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

# Tests are compiled without optimisation, which takes two thirds of the time; what they call is optimised fully.
add_library(shade_test_options INTERFACE)
set(SHADE_TEST_PCH shade_pch)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_BUILD_TYPE STREQUAL "Release")
  target_compile_options(shade_test_options INTERFACE -O0)
  set(SHADE_TEST_PCH shade_test_pch)
endif()

# libtorch's headers take seconds each; they are compiled once for all targets that use them, and once for tests.
function(shade_precompiled name)
  file(WRITE "${PROJECT_BINARY_DIR}/generated/${name}.cpp" "")
  add_library(${name} OBJECT "${PROJECT_BINARY_DIR}/generated/${name}.cpp")
  target_link_libraries(${name} PRIVATE shade::options shade::torch ${ARGN})
  target_precompile_headers(${name} PRIVATE
    <algorithm> <filesystem> <fstream> <functional> <map> <memory> <optional> <set> <span> <string> <vector>
    <nlohmann/json.hpp> <ATen/ATen.h> <torch/csrc/distributed/c10d/Backend.hpp>
    <torch/csrc/distributed/c10d/Store.hpp>)
endfunction()
if(NOT SHADE_TIDY)
  shade_precompiled(shade_pch)
  if(NOT TARGET ${SHADE_TEST_PCH})
    shade_precompiled(${SHADE_TEST_PCH} shade_test_options)
  endif()
endif()

function(shade_precompile target)
  if(NOT SHADE_TIDY)
    target_precompile_headers(${target} REUSE_FROM shade_pch)
  endif()
endfunction()

if(SHADE_PROGRAM)
  add_custom_target(unit_tests)  # what the sanitizer presets build
endif()

# shade_test(comm SOURCES group_test.cpp USES comm test_support LABELS unit [TIMEOUT s]) is one binary, named after its
# module; every test in it becomes a CTest test. The label `unsanitized` keeps a unit test, and the modules only it needs,
# out of the sanitizers' builds.
function(shade_test name)
  cmake_parse_arguments(TEST "TORCH;SERIAL" "TIMEOUT" "SOURCES;USES;LABELS;ARGUMENTS;ENVIRONMENT" ${ARGN})
  add_executable(${name} ${TEST_SOURCES})
  target_link_libraries(${name} PRIVATE shade::options GTest::gtest rapidcheck)
  foreach(used IN LISTS TEST_USES)
    target_link_libraries(${name} PRIVATE shade::${used})
  endforeach()
  target_link_libraries(${name} PRIVATE shade_test_options)
  # All sources as one: what they include takes most of the time of each.
  if(NOT SHADE_TIDY)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
    file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}/tests" "${CMAKE_CURRENT_SOURCE_DIR}")
    foreach(source IN LISTS TEST_SOURCES)
      if("${folder}/${source}" IN_LIST SHADE_APART)
        set_source_files_properties("${source}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
      endif()
    endforeach()
  endif()
  if(TEST_TORCH AND NOT SHADE_TIDY)
    target_precompile_headers(${name} REUSE_FROM ${SHADE_TEST_PCH})
  endif()
  if("unit" IN_LIST TEST_LABELS AND NOT "unsanitized" IN_LIST TEST_LABELS)
    add_dependencies(unit_tests ${name})
  endif()
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 120)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  add_test(NAME ${name} COMMAND ${name} --gtest_brief=1 ${TEST_ARGUMENTS})
  set_tests_properties(${name} PROPERTIES LABELS "${TEST_LABELS}" TIMEOUT ${TEST_TIMEOUT}
    SKIP_REGULAR_EXPRESSION "every test was skipped"
    ENVIRONMENT "SHADE_BIN=$<TARGET_FILE:shade>;SHADE_SOURCE=${PROJECT_SOURCE_DIR};${TEST_ENVIRONMENT}")
  if(TEST_SERIAL)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
endfunction()

# shade_full_test(train_kill_full train_kill_test TIMEOUT s): the same binary with its whole matrix, in the slow tier.
function(shade_full_test name binary)
  cmake_parse_arguments(FULL "" "TIMEOUT" "ARGUMENTS;ENVIRONMENT" ${ARGN})
  add_test(NAME ${name} COMMAND ${binary} --gtest_brief=1 ${FULL_ARGUMENTS})
  set_tests_properties(${name} PROPERTIES LABELS slow TIMEOUT ${FULL_TIMEOUT} ENVIRONMENT
    "SHADE_FULL_MATRIX=1;SHADE_BIN=$<TARGET_FILE:shade>;SHADE_SOURCE=${PROJECT_SOURCE_DIR};${FULL_ENVIRONMENT}")
endfunction()

# shade_test_as_accelerator(privacy_norms_test): the same binary once more, with the formulas of accelerators on the CPU
# (tests/support/as_accelerator.cpp is one of its sources).
function(shade_test_as_accelerator binary)
  cmake_parse_arguments(TEST "" "" "ARGUMENTS" ${ARGN})
  get_test_property(${binary} LABELS labels)
  get_test_property(${binary} TIMEOUT timeout)
  get_test_property(${binary} ENVIRONMENT environment)
  add_test(NAME ${binary}_as_accelerator COMMAND ${binary} --gtest_brief=1 ${TEST_ARGUMENTS})
  set_tests_properties(${binary}_as_accelerator PROPERTIES LABELS "${labels}" TIMEOUT "${timeout}"
    ENVIRONMENT "${environment};SHADE_AS_ACCELERATOR=1")
endfunction()
