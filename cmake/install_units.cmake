# Runs as a step of an installation. It makes the systemd units of deploy/systemd, which name the prefix, and puts the file
# of flags that they read beside them, unless there is one.
set(source ${CMAKE_CURRENT_LIST_DIR}/../deploy/systemd)
set(root $ENV{DESTDIR})
set(BINDIR ${CMAKE_INSTALL_PREFIX}/bin)
set(DOCDIR ${CMAKE_INSTALL_PREFIX}/share/doc/baton)
set(CONFDIR ${CMAKE_INSTALL_PREFIX}/etc/baton)
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  set(CONFDIR /etc/baton)
endif()

file(READ ${source}/service.conf SERVICE)
string(CONFIGURE "${SERVICE}" SERVICE @ONLY)
string(STRIP "${SERVICE}" SERVICE)
file(READ ${source}/sandbox.conf SANDBOX)
string(STRIP "${SANDBOX}" SANDBOX)
file(GLOB templates ${source}/*.service.in)
foreach(template ${templates})
  cmake_path(GET template STEM LAST_ONLY unit)
  set(target ${root}${CMAKE_INSTALL_PREFIX}/lib/systemd/system/${unit})
  configure_file(${template} ${target} @ONLY)
  file(CHMOD ${target} FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
endforeach()

make_folder(${root}${CONFDIR})
if(NOT EXISTS ${root}${CONFDIR}/baton.yaml)
  file(COPY ${source}/baton.yaml DESTINATION ${root}${CONFDIR}
       FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
endif()
