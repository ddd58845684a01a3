# scripts/package.sh, or `cpack --preset release`: a .deb of what cmake/install.cmake installs, under /usr.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "The Baton authors <baton@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "LLM serving with prefill and decode on separate workers")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"A router pairs each request with a prefill worker, which builds the KV cache
of the prompt, and a decode worker, which pulls that cache over UCX and
generates by continuous batching. The same request gives the same tokens on
every cluster. UCX is part of this package. The command baton fetch-model
gets a model.")
# Below a DESTDIR, because the units' file of flags goes to /etc.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
  ${CMAKE_SOURCE_DIR}/deploy/debian/conffiles
  ${CMAKE_SOURCE_DIR}/deploy/debian/postinst
  ${CMAKE_SOURCE_DIR}/deploy/debian/prerm
  ${CMAKE_SOURCE_DIR}/deploy/debian/postrm)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# A model can also be copied into the store, so a server does without pip and what that draws in.
set(CPACK_DEBIAN_PACKAGE_SUGGESTS python3-pip)
include(CPack)
