# Public headers, both libraries (static and shared), the program, its suites, man page, completions,
# package files.
include(CMakePackageConfigHelpers)
install(TARGETS preflight preflight_lab preflight_shared preflight_lab_shared EXPORT preflight-targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS preflight_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET preflight_fmu)
  install(TARGETS preflight_fmu RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/preflight)
endif()
install(DIRECTORY include/preflight DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY suites DESTINATION ${CMAKE_INSTALL_DATADIR}/preflight)
install(DIRECTORY data DESTINATION ${CMAKE_INSTALL_DATADIR}/preflight OPTIONAL)
if(MPI_C_FOUND)
  install(TARGETS preflight_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/preflight)
endif()
if(MUJOCO_LIBRARY)
  install(FILES ${MUJOCO_LIBRARY} DESTINATION ${mujoco_installed})
  foreach(model ant half_cheetah hopper humanoid swimmer walker2d_v5)
    install(FILES ${GYMNASIUM_MODELS}/${model}.xml
            DESTINATION ${CMAKE_INSTALL_DATADIR}/preflight/gymnasium)
  endforeach()
endif()
# man page and completions, from the options of the program that was built
find_program(AWK awk)
if(AWK AND NOT CMAKE_CROSSCOMPILING)
  set(options ${PROJECT_SOURCE_DIR}/scripts/options.awk)
  add_custom_command(OUTPUT options.tsv COMMAND preflight_cli --options > options.tsv DEPENDS preflight_cli VERBATIM)
  foreach(page docs/preflight.1 scripts/completion.bash scripts/completion.zsh)
    get_filename_component(name ${page} NAME)
    set(template ${PROJECT_SOURCE_DIR}/${page}.in)
    add_custom_command(OUTPUT ${name} DEPENDS options.tsv ${options} ${template} VERBATIM
      COMMAND ${AWK} -v template=${template} -v version=${PROJECT_VERSION} -f ${options} options.tsv > ${name})
    list(APPEND pages ${PROJECT_BINARY_DIR}/${name})
  endforeach()
  add_custom_target(pages ALL DEPENDS ${pages})
  install(FILES ${PROJECT_BINARY_DIR}/preflight.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${PROJECT_BINARY_DIR}/completion.bash
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME preflight)
  install(FILES ${PROJECT_BINARY_DIR}/completion.zsh
          DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _preflight)
endif()
install(EXPORT preflight-targets NAMESPACE preflight:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/preflight)
configure_package_config_file(cmake/preflight-config.cmake.in
  ${PROJECT_BINARY_DIR}/preflight-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/preflight)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/preflight-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/preflight-config.cmake
              ${PROJECT_BINARY_DIR}/preflight-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/preflight)
# relative to the .pc file, so that any --prefix works
file(RELATIVE_PATH PF_PC_PREFIX /x/${CMAKE_INSTALL_LIBDIR}/pkgconfig /x)
# what a program needs that links the lab statically, in the order of the linker
set(PF_PC_LAB "")
foreach(library ${YAML_LIBRARY} ${JANSSON_LIBRARY} ${OPENBLAS_LIBRARY})
  get_filename_component(folder ${library} DIRECTORY)
  if(folder IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
    string(REGEX REPLACE "^.*/lib([^/]*)\\.[a-z]+$" "-l\\1" library ${library})
  endif()
  string(APPEND PF_PC_LAB " ${library}")
endforeach()
if(MUJOCO_LIBRARY)
  string(APPEND PF_PC_LAB " \${libdir}/preflight/${mujoco_file} -Wl,-rpath,\${libdir}/preflight")
endif()
foreach(library ${CMAKE_DL_LIBS})
  string(APPEND PF_PC_LAB " -l${library}")
endforeach()
string(APPEND PF_PC_LAB " -lm ${CMAKE_THREAD_LIBS_INIT}")
foreach(package preflight preflight-lab)
  configure_file(cmake/${package}.pc.in ${PROJECT_BINARY_DIR}/${package}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${package}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
