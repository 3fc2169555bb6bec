# Part of CMakeLists.txt: what a build for the wheel has that others have not.
target_sources(sounder_base PRIVATE ${CMAKE_CURRENT_LIST_DIR}/pidfd.c)

# The wheel brings the shared libraries that the program and its modules need, and their terms. (Static ones would not do:
# Debian has none of ISA-L, its XXH3 does not choose instructions, its ncurses cannot become part of a module.)
set_target_properties(sounder PROPERTIES INSTALL_RPATH $ORIGIN/../lib/sounder)
if(TARGET sounder_top)
  set_target_properties(sounder_top PROPERTIES INSTALL_RPATH $ORIGIN)
endif()
install(CODE [[
  set(folder ${CMAKE_INSTALL_PREFIX}/lib/sounder)
  file(GLOB modules ${folder}/*.so)
  file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${CMAKE_INSTALL_PREFIX}/bin/sounder MODULES ${modules}
       PRE_EXCLUDE_REGEXES "^(ld-linux|lib(c|m|dl|rt|pthread)\\.so)" RESOLVED_DEPENDENCIES_VAR libraries)
  foreach(library ${libraries})
    get_filename_component(name ${library} NAME)
    message(STATUS "The wheel brings ${library}")
    file(COPY_FILE ${library} ${folder}/${name})
    execute_process(COMMAND patchelf --set-rpath $ORIGIN ${folder}/${name} COMMAND_ERROR_IS_FATAL ANY) # some need others
  endforeach()
]])
foreach(package libisal2 libjansson4 libncurses6 libnettle8 libxxhash0 libyaml-0-2)
  install(FILES /usr/share/doc/${package}/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/sounder RENAME ${package} OPTIONAL)
endforeach()
