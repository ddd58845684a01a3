# Runs as the last step of an installation. It removes debug information, which is most of the size and names folders of the
# machines that built Baton and UCX, and makes UCX's libraries look for each other in their own folder alone.
set(root "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")
set(baton ${root}/bin/baton)
file(GLOB ucx ${root}/lib/baton/*.so.0)
file(GLOB plugin ${root}/lib/baton/libbaton_cuda.so)
file(GLOB ucx_modules ${root}/lib/baton/ucx/*.so.0)

execute_process(COMMAND ${BATON_STRIP} --strip-unneeded ${baton} ${plugin} ${ucx} ${ucx_modules} COMMAND_ERROR_IS_FATAL ANY)
foreach(library ${ucx})
  file(RPATH_SET FILE ${library} NEW_RPATH "$ORIGIN")
endforeach()
foreach(library ${ucx_modules})
  file(RPATH_SET FILE ${library} NEW_RPATH "$ORIGIN/..")
endforeach()
