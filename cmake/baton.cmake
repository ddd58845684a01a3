# Flags and the three target kinds of this tree: one library a folder, tests and fuzzers beside their sources.

add_library(baton_flags INTERFACE)
target_include_directories(baton_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(baton_flags INTERFACE
  -Wall -Wextra -Werror -Wno-unused-parameter
  # Designated initializers leave members to their defaults.
  -Wno-missing-field-initializers
  # Row independence: the compiler may neither fuse nor reorder floating point.
  -ffp-contract=off -fno-fast-math)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(baton_flags INTERFACE -Wthread-safety -Wno-deprecated-declarations)
endif()
if(BATON_SANITIZE)
  # Fewer, larger translation units: a quarter less to compile.
  set(CMAKE_UNITY_BUILD ON)
  add_compile_options(-fsanitize=${BATON_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${BATON_SANITIZE} -fno-sanitize-recover=all)
endif()

if(BATON_FUZZERS)
  # Coverage for libFuzzer in everything that a fuzzer may link.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

find_program(BATON_CCACHE ccache)
if(BATON_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${BATON_CCACHE})
endif()

# What the sanitizer presets build and run: unit tests and fuzzers, without the processes.
add_custom_target(unit_tests)

# baton_library(NAME SRCS a.cc ... DEPS x y ...): static library `baton_NAME`. DEPS are public.
function(baton_library NAME)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  add_library(baton_${NAME} STATIC ${ARG_SRCS})
  target_link_libraries(baton_${NAME} PUBLIC baton_flags ${ARG_DEPS})
endfunction()

# baton_test(NAME SRCS a_test.cc ... DEPS x y ... [PROCESSORS n] [TIMEOUT s] [LABELS l ...]): GoogleTest binary NAME,
# registered with ctest as one test that loads n cores (1). Sanitizer runs select tests by the label `unit`, the default.
function(baton_test NAME)
  cmake_parse_arguments(ARG "" "PROCESSORS;TIMEOUT" "SRCS;DEPS;LABELS" ${ARGN})
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
  # Headers cost more than the tests themselves: one translation unit a test, so names are unique in its sources.
  set_target_properties(${NAME} PROPERTIES UNITY_BUILD ON RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${NAME} COMMAND ${NAME})
  if("unit" IN_LIST ARG_LABELS)
    add_dependencies(unit_tests ${NAME})
  endif()
  set_tests_properties(${NAME} PROPERTIES
    PROCESSORS ${ARG_PROCESSORS} TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()

# baton_fuzzer(NAME SRCS x_fuzz.cc DEPS ... CORPUS dir): libFuzzer binary, built where BATON_FUZZERS is on, and a ctest
# test with the label `fuzz` that runs it for BATON_FUZZ_SECONDS (30) from the seed corpus.
function(baton_fuzzer NAME)
  cmake_parse_arguments(ARG "" "CORPUS;MAX_LEN" "SRCS;DEPS" ${ARGN})
  if(NOT BATON_FUZZERS)
    return()
  endif()
  add_executable(${NAME} ${ARG_SRCS})
  target_link_libraries(${NAME} PRIVATE baton_flags ${ARG_DEPS})
  target_compile_definitions(${NAME} PRIVATE BATON_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
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
