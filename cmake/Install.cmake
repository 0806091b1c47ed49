# cmake --install build/release --prefix P: the program, the library's modules as static archives, their public headers,
# and what find_package(shade) reads. docs/embedding.md says how another program uses it.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(SHADE_PACKAGE "${CMAKE_INSTALL_LIBDIR}/cmake/shade")

# The library is what proof stands on, and proof: what only the program needs (measure, report, cli) stays in it.
foreach(name IN LISTS SHADE_USES_proof ITEMS proof)
  set_target_properties(shade_${name} PROPERTIES EXPORT_NAME ${name})
  install(TARGETS shade_${name} EXPORT shade
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endforeach()

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
