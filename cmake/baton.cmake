# Flags, and the three kinds of targets in this tree: libraries, tests and fuzzers, which lie beside their sources.

add_library(baton_flags INTERFACE)
target_include_directories(baton_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(baton_flags INTERFACE
  -Wall -Wextra -Werror -Wno-unused-parameter
  # Designated initializers leave members to their defaults.
  -Wno-missing-field-initializers
  # Row independence: the compiler may neither fuse nor reorder floating point.
  -ffp-contract=off -fno-fast-math
  # Part of what precompiled headers depend on, so that all targets agree.
  -pthread)
# Messages name a source by its path from the root, so that a package says nothing about the machine that built it.
if(NOT BATON_SANITIZE)
  set(BATON_RELATIVE_PATHS -fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(baton_flags INTERFACE -Wthread-safety -Wno-deprecated-declarations)
endif()
if(BATON_SANITIZE)
  add_compile_options(-fsanitize=${BATON_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${BATON_SANITIZE} -fno-sanitize-recover=all)
endif()

# A dozen sources at a time make one translation unit, because headers cost more than the sources themselves. Names in
# unnamed namespaces are therefore unique in a library. The preset `index` compiles each source by itself, for editors.
option(BATON_UNITY "Compile several sources as one translation unit" ON)
set(CMAKE_UNITY_BUILD ${BATON_UNITY})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 12)

# lld links in a fraction of the time of GNU ld: all that clang makes, and the tests where GCC makes the product.
set(BATON_TEST_LINKER "")
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  add_link_options(-fuse-ld=lld)
else()
  # scripts/setup.sh installs it by a name with a version, so that GCC has to be told where it is.
  find_program(BATON_LLD ld.lld HINTS /usr/lib/llvm-14/bin)
  if(BATON_LLD)
    cmake_path(GET BATON_LLD PARENT_PATH lld_folder)
    set(BATON_TEST_LINKER -fuse-ld=lld -B${lld_folder})
  endif()
endif()

# Without the sloppiness ccache keeps nothing of a source that reads a precompiled header. Both are harmless here: the header
# uses neither macros that differ between sources nor the time.
find_program(BATON_CCACHE ccache)
if(BATON_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros ${BATON_CCACHE})
endif()

# What the sanitizer presets build and run: unit tests and fuzzers, without the processes.
add_custom_target(unit_tests)

# baton_library(NAME SRCS a.cc ... DEPS x y ... [FUZZED] [MEASURED]): static library `baton_NAME`. DEPS are public. A
# FUZZED library reports coverage to libFuzzer where BATON_FUZZERS is on. The speed of a MEASURED library matters: outside
# the sanitizers each of its sources is compiled by itself, so that what is inlined does not depend on its neighbours.
function(baton_library NAME)
  cmake_parse_arguments(ARG "FUZZED;MEASURED" "" "SRCS;DEPS" ${ARGN})
  add_library(baton_${NAME} STATIC ${ARG_SRCS})
  target_link_libraries(baton_${NAME} PUBLIC baton_flags ${ARG_DEPS})
  target_compile_options(baton_${NAME} PRIVATE ${BATON_RELATIVE_PATHS})
  set(headers library)
  if(ARG_FUZZED AND BATON_FUZZERS)
    target_compile_options(baton_${NAME} PRIVATE -fsanitize=fuzzer-no-link)
    set(headers fuzzed)
  endif()
  baton_precompiled(baton_${NAME} ${headers} ${ARG_DEPS})
  if(ARG_MEASURED AND NOT BATON_SANITIZE)
    set_target_properties(baton_${NAME} PROPERTIES UNITY_BUILD OFF)
  endif()
endfunction()

# baton_web_page(FOLDER FILE...): library `baton_FOLDER_assets` with the files of a web page, for FOLDER/assets.h. A file that
# the folder lacks is one of web/, which all pages share.
function(baton_web_page FOLDER)
  set(table ${CMAKE_CURRENT_BINARY_DIR}/asset_table.cc)
  set(paths "")
  foreach(name IN LISTS ARGN)
    set(folder ${CMAKE_CURRENT_SOURCE_DIR})
    if(NOT EXISTS ${folder}/${name})
      set(folder ${CMAKE_SOURCE_DIR}/web)
    endif()
    list(APPEND paths ${folder}/${name})
  endforeach()
  add_custom_command(
    OUTPUT ${table}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${table} -DFOLDER=${FOLDER} "-DFILES=${paths}" -P ${CMAKE_SOURCE_DIR}/cmake/embed_files.cmake
    DEPENDS ${paths} ${CMAKE_SOURCE_DIR}/cmake/embed_files.cmake
    VERBATIM)
  baton_library(${FOLDER}_assets SRCS ${table} DEPS baton_common)
endfunction()

# baton_test(NAME SRCS a_test.cc ... DEPS x y ... [THREADS] [OPTIMIZED] [PROCESSORS n] [TIMEOUT s] [LABELS l ...]):
# GoogleTest binary NAME, registered with ctest as one test that loads n cores (1). asan runs the tests with the label
# `unit`, the default. tsan builds and runs only those with THREADS, because a test of one thread cannot race. A test's own
# sources are compiled without optimization, which takes a third of the time, unless it is OPTIMIZED because it computes
# much in them.
function(baton_test NAME)
  cmake_parse_arguments(ARG "THREADS;OPTIMIZED" "PROCESSORS;TIMEOUT" "SRCS;DEPS;LABELS" ${ARGN})
  if(BATON_SANITIZE MATCHES "thread" AND NOT ARG_THREADS)
    return()
  endif()
  if(NOT ARG_PROCESSORS)
    set(ARG_PROCESSORS 1)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  add_executable(${NAME} ${ARG_SRCS})
  target_link_libraries(${NAME} PRIVATE baton_flags ${ARG_DEPS} GTest::gmock GTest::gtest GTest::gtest_main)
  target_compile_definitions(${NAME} PRIVATE BATON_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  set(headers optimized_test)
  if(NOT ARG_OPTIMIZED)
    target_compile_options(${NAME} PRIVATE -O0)
    set(headers test)
  endif()
  baton_precompiled(${NAME} ${headers} ${ARG_DEPS})
  target_link_options(${NAME} PRIVATE ${BATON_TEST_LINKER})
  set_target_properties(${NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${NAME} COMMAND ${NAME})
  if("unit" IN_LIST ARG_LABELS)
    add_dependencies(unit_tests ${NAME})
  endif()
  set_tests_properties(${NAME} PROPERTIES
    PROCESSORS ${ARG_PROCESSORS} TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()

# baton_fuzzer(NAME SRCS x_fuzz.cc DEPS ... CORPUS dir): libFuzzer binary, built where BATON_FUZZERS is on, and a ctest
# test with the label `fuzz` that runs it for BATON_FUZZ_SECONDS (10) from the seed corpus.
function(baton_fuzzer NAME)
  cmake_parse_arguments(ARG "" "CORPUS;MAX_LEN" "SRCS;DEPS" ${ARGN})
  if(NOT BATON_FUZZERS)
    return()
  endif()
  add_executable(${NAME} ${ARG_SRCS})
  target_link_libraries(${NAME} PRIVATE baton_flags ${ARG_DEPS})
  target_compile_definitions(${NAME} PRIVATE BATON_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  target_compile_options(${NAME} PRIVATE -fsanitize=fuzzer-no-link)
  target_link_options(${NAME} PRIVATE -fsanitize=fuzzer)
  set_target_properties(${NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  add_dependencies(unit_tests ${NAME})
  if(NOT ARG_MAX_LEN)
    set(ARG_MAX_LEN 16384)
  endif()
  add_test(NAME ${NAME} COMMAND ${CMAKE_SOURCE_DIR}/scripts/fuzz_one.sh $<TARGET_FILE:${NAME}> ${ARG_MAX_LEN}
           ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_CORPUS})
  set_tests_properties(${NAME} PROPERTIES TIMEOUT 900 LABELS fuzz)
endfunction()
