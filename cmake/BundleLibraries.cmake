# Run by cpack for the archive: the libraries of Debian that PROGRAM is linked with go to DESTINATION/LIBRARIES, their
# licences to DESTINATION/LICENCES. glibc and the compiler's libraries are the machine's.
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES "${PROGRAM}"
  RESOLVED_DEPENDENCIES_VAR found UNRESOLVED_DEPENDENCIES_VAR missing
  PRE_EXCLUDE_REGEXES "^lib(c|m|dl|rt|pthread|util|stdc\\+\\+|gcc_s|gomp)\\.so" "^ld-linux"
    "^lib(torch|c10|cu|nv)")
if(missing)
  message(FATAL_ERROR "these libraries of ${PROGRAM} were not found: ${missing}")
endif()
foreach(library IN LISTS found)
  file(INSTALL "${library}" DESTINATION "${DESTINATION}/${LIBRARIES}" FOLLOW_SYMLINK_CHAIN)
  file(REAL_PATH "${library}" real)
  set(package "")
  foreach(name IN ITEMS "${library}" "${real}")
    string(REGEX REPLACE "^/usr" "" short "${name}")
    foreach(path IN ITEMS "${name}" "${short}" "/usr${short}")
      if(NOT package)
        execute_process(COMMAND dpkg -S "${path}" OUTPUT_VARIABLE package ERROR_QUIET)
      endif()
    endforeach()
  endforeach()
  string(REGEX REPLACE ":.*" "" package "${package}")
  if(NOT package)
    message(FATAL_ERROR "no Debian package has ${library}, so its licence is not known")
  endif()
  file(INSTALL "/usr/share/doc/${package}/copyright" DESTINATION "${DESTINATION}/${LICENCES}/${package}"
    FOLLOW_SYMLINK_CHAIN)
endforeach()
