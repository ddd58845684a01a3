# The CUDA toolkit, as far as the machine has it: headers for host code, and nvcc for kernels. nvcc is called by commands of
# our own, because CMake's CUDA language would stop the configure of a machine without it. Nothing links against a library
# of the toolkit.
find_path(BATON_CUDA_INCLUDE_DIR cuda.h PATHS ENV CUDA_HOME /usr/local/cuda PATH_SUFFIXES include)
find_program(BATON_NVCC nvcc PATHS ENV CUDA_HOME /usr/local/cuda PATH_SUFFIXES bin)

if(BATON_CUDA_INCLUDE_DIR AND NOT TARGET baton_cuda_headers)
  add_library(baton_cuda_headers INTERFACE)
  target_include_directories(baton_cuda_headers SYSTEM INTERFACE ${BATON_CUDA_INCLUDE_DIR})
endif()
if(BATON_NVCC)
  message(STATUS "CUDA kernels are compiled by ${BATON_NVCC}")
else()
  message(STATUS "nvcc is not there: left out are the CUDA kernels, what embeds them, and cuda_kernels_test")
endif()

set(BATON_NVCC_FLAGS -std=c++20 -I${CMAKE_SOURCE_DIR} -Werror all-warnings -Xcompiler=-Wall,-Wextra)
# Of the engine's kernels. Fused multiply-adds stand only where a kernel names them: part of the numerics.
set(BATON_KERNEL_NVCC_FLAGS -fmad=false)
# Beside PTX. A build that runs the interpreter alone needs none, and no ptxas, which takes most of the time.
set(BATON_CUDA_ARCHS "80;90" CACHE STRING "Architectures for which the fat binary of the kernels has machine code")

# baton_ptx(TARGET name SOURCES a.cu ... [FLAGS f ...]): target `name`, which makes a.ptx, ... in the folder
# CMAKE_CURRENT_BINARY_DIR/ptx for compute_80. Without nvcc it says so, and there is no such target.
function(baton_ptx)
  cmake_parse_arguments(ARG "" "TARGET" "SOURCES;FLAGS" ${ARGN})
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
      COMMAND ${BATON_NVCC} ${BATON_NVCC_FLAGS} ${ARG_FLAGS} -ptx -arch=compute_80 -MD -MF ${output}.d -o ${output} ${source}
      DEPENDS ${source}
      DEPFILE ${output}.d
      COMMENT "PTX of ${stem}.cu"
      VERBATIM)
    list(APPEND outputs ${output})
  endforeach()
  add_custom_target(${ARG_TARGET} DEPENDS ${outputs})
endfunction()

# baton_fatbin(OUTPUT SOURCE): a command that makes OUTPUT, a fat binary of the engine's kernels in SOURCE for BATON_CUDA_ARCHS
# and, as PTX, compute_80. The PTX is plain text, so that the interpreter of tests/ptx reads the very image that devices load.
# OUTPUT.ptxas is ptxas's report of registers, spills and shared memory, for scripts/cuda_resources.py.
function(baton_fatbin OUTPUT SOURCE)
  cmake_path(ABSOLUTE_PATH SOURCE OUTPUT_VARIABLE source)
  set(code "")
  foreach(arch IN LISTS BATON_CUDA_ARCHS)
    list(APPEND code -gencode arch=compute_${arch},code=sm_${arch})
  endforeach()
  add_custom_command(
    OUTPUT ${OUTPUT} ${OUTPUT}.ptxas
    COMMAND
      sh -c "\"$@\" > \"$0\" 2>&1 || { cat \"$0\"; exit 1; }" ${OUTPUT}.ptxas #
      ${BATON_NVCC} ${BATON_NVCC_FLAGS} ${BATON_KERNEL_NVCC_FLAGS} ${code}
      -gencode arch=compute_80,code=compute_80 --no-compress
      -Xptxas -v -fatbin -MD -MF ${OUTPUT}.d -o ${OUTPUT} ${source}
    DEPENDS ${source}
    DEPFILE ${OUTPUT}.d
    COMMENT "Fat binary of ${SOURCE}"
    VERBATIM)
endfunction()

# baton_embed_image(OUTPUT.cc IMAGE SYMBOL): a source that defines `extern "C" const unsigned char SYMBOL[]` with the bytes of
# IMAGE, and `SYMBOL_end` behind them.
function(baton_embed_image OUTPUT IMAGE SYMBOL)
  file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT "// Written by cmake/cuda.cmake.
__asm__(
    \".section .rodata,\\\"a\\\"\\n\"
    \".balign 64\\n\"
    \".global @SYMBOL@\\n\"
    \"@SYMBOL@:\\n\"
    \".incbin \\\"@IMAGE@\\\"\\n\"
    \".global @SYMBOL@_end\\n\"
    \"@SYMBOL@_end:\\n\"
    \".byte 0\\n\"
    \".previous\\n\");
")
  set_source_files_properties(${OUTPUT} PROPERTIES OBJECT_DEPENDS ${IMAGE} SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
