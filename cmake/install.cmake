# `cmake --install build/release --prefix DIR`: the binary, UCX beside it, and the pages. DIR may be moved or copied to other
# machines that have the Debian packages named in docs/serving.md.

set_target_properties(baton PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/baton")
install(TARGETS baton RUNTIME DESTINATION bin)

# By their SONAMEs, under which UCX's libraries load each other. Its CUDA modules stay out: they need a driver.
install(FILES
  ${BATON_UCX_DIR}/lib/libucm.so.0
  ${BATON_UCX_DIR}/lib/libucp.so.0
  ${BATON_UCX_DIR}/lib/libucs.so.0
  ${BATON_UCX_DIR}/lib/libucs_signal.so.0
  ${BATON_UCX_DIR}/lib/libuct.so.0
  DESTINATION lib/baton)
install(FILES ${BATON_UCX_DIR}/lib/ucx/libuct_cma.so.0 DESTINATION lib/baton/ucx)

install(FILES LICENSE README.md ARCHITECTURE.md DESTINATION share/doc/baton)
install(DIRECTORY docs DESTINATION share/doc/baton)
file(GLOB ucx_license ${BATON_DEPS_DIR}/ucx/*.dist-info/licenses/LICENSE)
install(FILES ${ucx_license} DESTINATION share/doc/baton RENAME LICENSE.ucx)
