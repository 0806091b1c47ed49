# Man pages and shell completion, made by the program from the declarations of its options: build/<preset>/documents.
# Below share/, in the folders where man and the shells look.
if(SHADE_SANITIZE OR SHADE_COVERAGE)
  return()  # nobody installs these builds, and every link would run the instrumented program
endif()
set(documents "${PROJECT_BINARY_DIR}/documents")
set(bash share/bash-completion/completions/shade)
set(zsh share/zsh/site-functions/_shade)
set(fish share/fish/vendor_completions.d/shade.fish)
set(commands COMMAND ${CMAKE_COMMAND} -E rm -rf "${documents}"
  COMMAND $<TARGET_FILE:shade> man-pages "${documents}/share/man/man1")
foreach(shell IN ITEMS bash zsh fish)
  get_filename_component(folder "${documents}/${${shell}}" DIRECTORY)
  list(APPEND commands COMMAND ${CMAKE_COMMAND} -E make_directory "${folder}"
    COMMAND $<TARGET_FILE:shade> completion ${shell} > "${documents}/${${shell}}")
endforeach()
add_custom_command(OUTPUT "${documents}/${fish}" ${commands} DEPENDS shade
  COMMENT "Writing man pages and shell completion" VERBATIM)
add_custom_target(shade_documents ALL DEPENDS "${documents}/${fish}")
install(DIRECTORY "${documents}/share/" DESTINATION ${CMAKE_INSTALL_DATADIR} OPTIONAL)
