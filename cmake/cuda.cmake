# Kernels of CUDA, compiled by nvcc in commands of their own: CMake's CUDA language would need a driver's machine or a
# toolkit at every configure. Where there is no nvcc, BATON_NVCC is empty and what needs it is left out by name.
#
# BATON_CUDA_INCLUDE_DIR has cuda.h. Nothing links against libcuda.
find_program(BATON_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin $ENV{CUDA_PATH}/bin /usr/local/cuda/bin)
if(BATON_NVCC)
  get_filename_component(BATON_CUDA_DIR "${BATON_NVCC}" REALPATH)
  get_filename_component(BATON_CUDA_DIR "${BATON_CUDA_DIR}" DIRECTORY)
  find_path(BATON_CUDA_INCLUDE_DIR cuda.h HINTS "${BATON_CUDA_DIR}/../include" NO_DEFAULT_PATH)
  message(STATUS "CUDA kernels: ${BATON_NVCC}")
else()
  set(BATON_NVCC "")
  message(STATUS "nvcc is not found: left out are the CUDA plug-in, its kernels, cuda_kernels_test and what else runs kernels")
endif()

# Fused multiply-adds stand only where a kernel names them: part of the numerics.
set(BATON_NVCC_FLAGS -std=c++20 -fmad=false -Werror all-warnings -I${CMAKE_SOURCE_DIR} -Xcompiler=-Wall,-Wextra)

# baton_ptx(OUTPUT SOURCE): a command that makes the file OUTPUT, PTX of compute_80, of SOURCE.
function(baton_ptx OUTPUT SOURCE)
  get_filename_component(source "${SOURCE}" ABSOLUTE)
  add_custom_command(
    OUTPUT ${OUTPUT}
    COMMAND ${BATON_NVCC} ${BATON_NVCC_FLAGS} -arch=compute_80 -ptx -MD -MF ${OUTPUT}.d -o ${OUTPUT} ${source}
    DEPENDS ${source}
    DEPFILE ${OUTPUT}.d
    COMMENT "PTX of ${SOURCE}"
    VERBATIM)
endfunction()

# baton_fatbin(OUTPUT SOURCE): the same for a fat binary of sm_80, sm_90 and PTX of compute_80. OUTPUT.ptxas is ptxas's
# report of registers, spills and shared memory.
function(baton_fatbin OUTPUT SOURCE)
  get_filename_component(source "${SOURCE}" ABSOLUTE)
  add_custom_command(
    OUTPUT ${OUTPUT} ${OUTPUT}.ptxas
    COMMAND
      sh -c "\"$@\" > \"$0\" 2>&1 || { cat \"$0\"; exit 1; }" ${OUTPUT}.ptxas #
      ${BATON_NVCC} ${BATON_NVCC_FLAGS} -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90
      -gencode arch=compute_80,code=compute_80 -Xptxas -v -fatbin -MD -MF ${OUTPUT}.d -o ${OUTPUT} ${source}
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
