# Runs as the first step of an installation. It makes the folders that are not there yet, so that everybody may read them:
# CMake itself would leave their rights to the builder's umask.
function(make_folder folder)
  # Somebody may just have made an empty one for us: CPack does so.
  file(GLOB content ${folder}/*)
  if(EXISTS ${folder} AND content)
    return()
  endif()
  cmake_path(GET folder PARENT_PATH parent)
  if(NOT EXISTS ${folder})
    make_folder(${parent})
  endif()
  file(MAKE_DIRECTORY ${folder})
  file(CHMOD ${folder} DIRECTORY_PERMISSIONS
       OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
endfunction()

foreach(folder bin lib/baton/ucx lib/systemd/system share/baton/scripts share/doc/baton/proto/baton)
  make_folder($ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${folder})
endforeach()
