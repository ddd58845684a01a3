# Runs as a step of an installation. It makes the systemd units of deploy/systemd, which name the prefix, and puts the file
# of flags that they read beside them, unless there is one.
set(source ${CMAKE_CURRENT_LIST_DIR}/../deploy/systemd)
set(root $ENV{DESTDIR})
set(flags_dir ${CMAKE_INSTALL_PREFIX}/etc/baton)
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  set(flags_dir /etc/baton)
endif()

# systemd takes a percent sign that is not doubled for the beginning of a specifier, and a URL has no spaces.
string(REPLACE "%" "%%" BINDIR "${CMAKE_INSTALL_PREFIX}/bin")
string(REPLACE "%" "%%" CONFDIR "${flags_dir}")
string(REPLACE "%" "%25" DOCURL "${CMAKE_INSTALL_PREFIX}/share/doc/baton")
string(REPLACE " " "%20" DOCURL "${DOCURL}")
string(REPLACE "%" "%%" DOCURL "${DOCURL}")

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

make_folder(${root}${flags_dir})
if(NOT EXISTS ${root}${flags_dir}/baton.yaml)
  file(COPY ${source}/baton.yaml DESTINATION ${root}${flags_dir}
       FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
endif()
