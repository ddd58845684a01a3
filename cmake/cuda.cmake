# The CUDA toolkit, as far as the machine has it: headers for host code, and nvcc for kernels. Nothing links against a
# library of it.
find_path(BATON_CUDA_INCLUDE_DIR cuda.h PATHS ENV CUDA_HOME /usr/local/cuda PATH_SUFFIXES include)
find_program(BATON_NVCC nvcc PATHS ENV CUDA_HOME /usr/local/cuda PATH_SUFFIXES bin)

if(BATON_CUDA_INCLUDE_DIR AND NOT TARGET baton_cuda_headers)
  add_library(baton_cuda_headers INTERFACE)
  target_include_directories(baton_cuda_headers SYSTEM INTERFACE ${BATON_CUDA_INCLUDE_DIR})
endif()

# baton_ptx(TARGET name SOURCES a.cu ...): target `name`, which makes a.ptx, ... in the folder CMAKE_CURRENT_BINARY_DIR/ptx
# for compute_80. Without nvcc it says so, and there is no such target.
function(baton_ptx)
  cmake_parse_arguments(ARG "" "TARGET" "SOURCES" ${ARGN})
  if(NOT BATON_NVCC)
    message(STATUS "nvcc is not there: ${ARG_TARGET} is left out")
    return()
  endif()
  set(outputs "")
  foreach(source IN LISTS ARG_SOURCES)
    cmake_path(GET source STEM stem)
    cmake_path(ABSOLUTE_PATH source)
    set(output ${CMAKE_CURRENT_BINARY_DIR}/ptx/${stem}.ptx)
    add_custom_command(
      OUTPUT ${output}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_CURRENT_BINARY_DIR}/ptx
      COMMAND ${BATON_NVCC} -ptx -arch=compute_80 -std=c++20 -I${CMAKE_SOURCE_DIR} -MD -MF ${output}.d -o ${output} ${source}
      DEPENDS ${source}
      DEPFILE ${output}.d
      VERBATIM)
    list(APPEND outputs ${output})
  endforeach()
  add_custom_target(${ARG_TARGET} DEPENDS ${outputs})
endfunction()
