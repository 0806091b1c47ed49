# cpack in a build tree: a relocatable archive and a Debian package that carry libtorch's CPU part, for machines without
# Python. docs/installing.md
#
# What `cmake --install` installs is for programmers: static libraries, headers, libtorch where the build had it. The
# packages hold what is needed to run: component `bundle`, and for the archive also the libraries of Debian that the
# program is linked with: component `bundle_libraries`.
set(SHADE_BUNDLED_TORCH libtorch_cpu.so libc10.so libgomp.so.1)
set(SHADE_BUNDLED_NVIDIA libcupti.so.13 libcudart.so.13)  # libtorch_cpu is linked with them, also where no GPU is
list(TRANSFORM SHADE_BUNDLED_TORCH PREPEND "${SHADE_TORCH}/lib/" OUTPUT_VARIABLE bundled)
list(TRANSFORM SHADE_BUNDLED_NVIDIA PREPEND "${shade_wheels}/nvidia/cu13/lib/" OUTPUT_VARIABLE bundled_nvidia)

# Not in a folder of lib/: cpack would take it for one of the loader's, and call ldconfig after installing and removing.
set(SHADE_BUNDLE_LIBRARIES lib/shade/private)
set(bundle COMPONENT bundle EXCLUDE_FROM_ALL)
install(PROGRAMS $<TARGET_FILE:shade> DESTINATION bin ${bundle})
# DT_RPATH, not the DT_RUNPATH of the build tree: LD_LIBRARY_PATH can't bring another libtorch, and the carried
# libraries find each other.
find_program(SHADE_PATCHELF patchelf)
install(CODE "
  set(program \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/bin/shade\")
  if(NOT EXISTS \"${SHADE_PATCHELF}\")
    message(FATAL_ERROR \"packages need patchelf; run tools/bootstrap, then cmake --preset release\")
  endif()
  execute_process(COMMAND \"${SHADE_PATCHELF}\" --force-rpath --set-rpath \"\\\$ORIGIN/../${SHADE_BUNDLE_LIBRARIES}\" \"\${program}\"
    COMMAND_ERROR_IS_FATAL ANY)" ${bundle})
install(FILES ${bundled} ${bundled_nvidia} DESTINATION ${SHADE_BUNDLE_LIBRARIES} ${bundle})
install(DIRECTORY "${PROJECT_BINARY_DIR}/documents/share" DESTINATION . ${bundle})
install(DIRECTORY recipes DESTINATION share/shade ${bundle})
set(SHADE_BUNDLE_DOC share/doc/shade-dp)  # the package's name: where Debian looks for its copyright
install(FILES LICENSE CHANGELOG.md DESTINATION ${SHADE_BUNDLE_DOC} ${bundle})
install(FILES LICENSE DESTINATION ${SHADE_BUNDLE_DOC} RENAME copyright ${bundle})
file(GLOB foreign_licences "${shade_wheels}/torch-*.dist-info/licenses" "${shade_wheels}/nvidia_cuda_*.dist-info/licenses")
foreach(folder IN LISTS foreign_licences)
  get_filename_component(name "${folder}" DIRECTORY)
  get_filename_component(name "${name}" NAME)
  string(REPLACE ".dist-info" "" name "${name}")
  install(DIRECTORY "${folder}/" DESTINATION ${SHADE_BUNDLE_DOC}/licences/${name} ${bundle})
endforeach()
# Of what is compiled into the program, and of the libgomp that libtorch brings.
file(STRINGS "${PROJECT_SOURCE_DIR}/tools/packages/debian.txt" rows)
set(section "")
set(compiled_in libgomp1)
foreach(row IN LISTS rows)
  if(row MATCHES "^# *(.*)$")
    set(section "${CMAKE_MATCH_1}")
  elseif(section STREQUAL "libraries" AND row MATCHES "^[a-z0-9.+-]+")
    list(APPEND compiled_in "${CMAKE_MATCH_0}")
  endif()
endforeach()
foreach(package IN LISTS compiled_in)
  file(REAL_PATH "/usr/share/doc/${package}/copyright" licence)  # often a link to another package's
  install(FILES "${licence}" DESTINATION ${SHADE_BUNDLE_DOC}/licences/${package} RENAME copyright ${bundle})
endforeach()
install(CODE "
  set(PROGRAM \"$<TARGET_FILE:shade>\")
  set(DESTINATION \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\")
  set(LIBRARIES \"${SHADE_BUNDLE_LIBRARIES}\")
  set(LICENCES \"${SHADE_BUNDLE_DOC}/licences\")
  include(\"${PROJECT_SOURCE_DIR}/cmake/BundleLibraries.cmake\")" COMPONENT bundle_libraries EXCLUDE_FROM_ALL)

set(CPACK_GENERATOR "TGZ;DEB")
set(CPACK_INSTALL_CMAKE_PROJECTS "${PROJECT_BINARY_DIR};shade;bundle;/")
set(CPACK_PROJECT_CONFIG_FILE "${PROJECT_SOURCE_DIR}/cmake/PackageOptions.cmake")  # what differs between the two
set(CPACK_PACKAGE_NAME shade-dp)
set(CPACK_PACKAGE_VENDOR "the Shade maintainers")
# Debian wants an address. This one reaches nobody (RFC 2606): the publisher states one.
set(SHADE_PACKAGE_CONTACT "the Shade maintainers <shade@maintainers.invalid>" CACHE STRING
  "Name and address of the publisher of the packages")
set(CPACK_PACKAGE_CONTACT "${SHADE_PACKAGE_CONTACT}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_DESCRIPTION "The program shade: private fine-tuning of large models, sharded over many ranks. The package carries
libtorch's CPU part and needs neither Python nor a GPU.")
set(CPACK_PACKAGE_DIRECTORY "${PROJECT_BINARY_DIR}/packages")
set(CPACK_PACKAGE_FILE_NAME "shade-dp-${PROJECT_VERSION}-linux-x86_64")
set(CPACK_STRIP_FILES OFF)  # libtorch is used as it was published
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS gnuplot-nox)
set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${SHADE_TORCH}/lib" "${shade_wheels}/nvidia/cu13/lib")
include(CPack)
