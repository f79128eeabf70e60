# Public headers, both libraries, the program, its suites, man page, completions, package files.
include(CMakePackageConfigHelpers)
install(TARGETS preflight preflight_lab EXPORT preflight-targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS preflight_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/preflight DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY suites DESTINATION ${CMAKE_INSTALL_DATADIR}/preflight)
install(DIRECTORY data DESTINATION ${CMAKE_INSTALL_DATADIR}/preflight OPTIONAL)
if(MUJOCO_LIBRARY)
  install(FILES ${MUJOCO_LIBRARY} DESTINATION ${mujoco_installed})
  foreach(model ant half_cheetah hopper humanoid swimmer walker2d_v5)
    install(FILES ${GYMNASIUM_MODELS}/${model}.xml
            DESTINATION ${CMAKE_INSTALL_DATADIR}/preflight/gymnasium)
  endforeach()
endif()
install(FILES docs/preflight.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES scripts/completion.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        RENAME preflight)
install(FILES scripts/completion.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions
        RENAME _preflight)
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
configure_file(cmake/preflight.pc.in ${PROJECT_BINARY_DIR}/preflight.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/preflight.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
