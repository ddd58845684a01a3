# `cmake --install build/release --prefix DIR`, which scripts/install.sh wraps: the program, UCX beside it, what
# `baton fetch-model` runs, systemd units, and the pages. DIR may be moved or copied to other machines that have the Debian
# packages named in docs/several_machines.md; only the units name it. cmake/package.cmake makes a .deb of the same files.

install(SCRIPT cmake/make_folders.cmake)

set_target_properties(baton PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/baton")
install(TARGETS baton RUNTIME DESTINATION bin)
# Where engine/device_plugin.cc looks.
if(TARGET baton_cuda)
  install(TARGETS baton_cuda LIBRARY DESTINATION lib/baton)
endif()
# All that is compiled of an installation: the program alone would leave a plug-in of an older build beside it, or none.
add_custom_target(installation)
add_dependencies(installation baton)
if(TARGET baton_cuda)
  add_dependencies(installation baton_cuda)
endif()

# By their SONAMEs, under which UCX's libraries load each other. Its CUDA modules stay out: they need a driver.
install(FILES
  ${BATON_UCX_DIR}/lib/libucm.so.0
  ${BATON_UCX_DIR}/lib/libucp.so.0
  ${BATON_UCX_DIR}/lib/libucs.so.0
  ${BATON_UCX_DIR}/lib/libucs_signal.so.0
  ${BATON_UCX_DIR}/lib/libuct.so.0
  DESTINATION lib/baton)
install(FILES ${BATON_UCX_DIR}/lib/ucx/libuct_cma.so.0 DESTINATION lib/baton/ucx)
install(CODE "set(BATON_STRIP [[${CMAKE_STRIP}]])")
install(SCRIPT cmake/clean_binaries.cmake)

# Where cli/fetch_model_command.cc looks, beside the program of a build and beside that of an installation.
set(scripts_dir share/baton/scripts)
install(PROGRAMS scripts/fetch_model.sh DESTINATION ${scripts_dir})
install(FILES scripts/lib.sh DESTINATION ${scripts_dir})
cmake_path(GET scripts_dir PARENT_PATH build_share_dir)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/${build_share_dir})
# Only once: tests that pack configure the build while others run the program.
if(NOT IS_SYMLINK ${CMAKE_BINARY_DIR}/${scripts_dir})
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/scripts ${CMAKE_BINARY_DIR}/${scripts_dir} SYMBOLIC)
endif()

install(SCRIPT cmake/install_units.cmake)

set(doc_dir share/doc/baton)
install(FILES LICENSE README.md ARCHITECTURE.md SECURITY.md cmake/copyright DESTINATION ${doc_dir})
install(DIRECTORY docs DESTINATION ${doc_dir})
install(DIRECTORY proto/baton/v1 DESTINATION ${doc_dir}/proto/baton)
file(GLOB ucx_license ${BATON_DEPS_DIR}/ucx/*.dist-info/licenses/LICENSE)
install(FILES ${ucx_license} DESTINATION ${doc_dir} RENAME LICENSE.ucx)
