# cmake --install build/release --prefix P: the program, the library's modules as static archives, their public headers,
# and what find_package(shade) reads. docs/embedding.md says how another program uses it.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(SHADE_PACKAGE "${CMAKE_INSTALL_LIBDIR}/cmake/shade")

# What only the program needs (serve, report, cli) stays in it.
# Each module is a component, with a row of what it needs for shadeConfig.cmake, and a file for pkg-config.
set(SHADE_COMPONENTS ${SHADE_MODULES})
list(REMOVE_ITEM SHADE_COMPONENTS serve report cli)
set(SHADE_COMPONENT_ROWS "")
file(RELATIVE_PATH up "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
foreach(name IN LISTS SHADE_COMPONENTS)
  set_target_properties(shade_${name} PROPERTIES EXPORT_NAME ${name})
  install(TARGETS shade_${name} EXPORT shade
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

  get_property(needs GLOBAL PROPERTY SHADE_NEEDS_${name})
  string(APPEND SHADE_COMPONENT_ROWS "set(shade_uses_${name} ${SHADE_USES_${name}})\nset(shade_needs_${name} ${needs})\n")
  set(requires ${SHADE_USES_${name}})
  list(TRANSFORM requires PREPEND shade-)
  set(flags "")
  set(libraries "")
  foreach(need IN LISTS needs)
    if(need MATCHES "^PkgConfig::(.*)$")
      list(APPEND requires ${${CMAKE_MATCH_1}_MODULE_NAME})
      string(APPEND SHADE_COMPONENT_ROWS "set(shade_package_${CMAKE_MATCH_1} ${${CMAKE_MATCH_1}_MODULE_NAME})\n")
    elseif(need STREQUAL "torch")
      set(flags " -DUSE_DISTRIBUTED -isystem ${SHADE_TORCH}/include -isystem ${SHADE_TORCH}/include/torch/csrc/api/include")
      string(APPEND libraries " -L${SHADE_TORCH}/lib -ltorch_cpu -lc10 ${shade_openmp} -Wl,-rpath,${SHADE_TORCH}/lib -Wl,-rpath-link,${shade_wheels}/nvidia/cu13/lib")
    elseif(need MATCHES "^(JPEG|PNG|ZLIB)::")
      string(TOLOWER "${CMAKE_MATCH_1}" package)
      string(REGEX REPLACE "^(jpeg|png)$" "lib\\1" package "${package}")
      list(APPEND requires ${package})
    else()
      string(APPEND libraries " -l${need}")
    endif()
  endforeach()
  list(JOIN requires ", " requires)
  file(CONFIGURE OUTPUT "${SHADE_GENERATED}/pkgconfig/shade-${name}.pc" @ONLY CONTENT [[
prefix=${pcfiledir}/@up@
includedir=${prefix}/@CMAKE_INSTALL_INCLUDEDIR@
libdir=${prefix}/@CMAKE_INSTALL_LIBDIR@

Name: shade-@name@
Description: The module @name@ of Shade, a static library: C++20
Version: @PROJECT_VERSION@
Requires: @requires@
Cflags: -isystem ${includedir}@flags@
Libs: -L${libdir} -Wl,-rpath,${libdir} -lshade_@name@@libraries@
]])
endforeach()
install(DIRECTORY "${SHADE_GENERATED}/pkgconfig" DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES "${SHADE_GENERATED}/shade/version.h" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/shade)

# It finds libtorch where this build did, and what needs CUDA beside it.
# One run path for the build tree and the installed program: if CMake has to change it, it keeps space for that by an
# empty element, from which the loader takes libraries of the working folder.
set(run_path "$ORIGIN/../lib" "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}" ${SHADE_RUN_PATH})
list(REMOVE_DUPLICATES run_path)
set_target_properties(shade PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "${run_path}")
if(TARGET shade_cuda)
  install(TARGETS shade_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET shade_arrow)
  install(TARGETS shade_arrow LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(TARGETS shade EXPORT shade RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

install(CODE "
  set(SOURCE \"${PROJECT_SOURCE_DIR}\")
  set(DESTINATION \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}\")
  include(\"${PROJECT_SOURCE_DIR}/cmake/InstallHeaders.cmake\")")

install(EXPORT shade FILE shadeTargets.cmake NAMESPACE shade:: DESTINATION ${SHADE_PACKAGE})
configure_package_config_file(cmake/shadeConfig.cmake.in "${SHADE_GENERATED}/shadeConfig.cmake"
  INSTALL_DESTINATION ${SHADE_PACKAGE})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file("${SHADE_GENERATED}/shadeConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES cmake/TorchTarget.cmake "${SHADE_GENERATED}/shadeConfig.cmake"
  "${SHADE_GENERATED}/shadeConfigVersion.cmake" DESTINATION ${SHADE_PACKAGE})
install(FILES LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
