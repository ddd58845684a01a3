# Headers of others take longer to read than the sources that include them. They are therefore compiled once for each kind of
# target and set of flags. Every source still includes what it uses: clang-tidy and the preset `mutants` read none of these.
option(BATON_PRECOMPILED "Compile the headers of others once for all targets" ${BATON_UNITY})

set(BATON_OFTEN_INCLUDED
  <algorithm> <array> <atomic> <cmath> <cstddef> <cstdint> <cstdlib> <cstring> <deque> <filesystem> <functional> <limits> <map>
  <memory> <mutex> <optional> <set> <sstream> <string> <string_view> <thread> <utility> <variant> <vector>
  <absl/base/thread_annotations.h> <absl/container/flat_hash_map.h> <absl/container/flat_hash_set.h>
  <absl/functional/function_ref.h> <absl/status/status.h> <absl/status/statusor.h> <absl/strings/match.h>
  <absl/strings/numbers.h> <absl/strings/str_cat.h> <absl/strings/str_format.h> <absl/strings/str_join.h>
  <absl/strings/str_split.h> <absl/synchronization/mutex.h> <absl/synchronization/notification.h> <absl/time/clock.h>
  <absl/time/time.h> <absl/types/span.h> <nlohmann/json.hpp>)
# What protoc's headers include stands first.
set(BATON_GRPC_INCLUDED
  <google/protobuf/descriptor.h> <google/protobuf/extension_set.h> <google/protobuf/generated_message_reflection.h>
  <google/protobuf/generated_message_util.h> <google/protobuf/io/coded_stream.h> <google/protobuf/map.h>
  <google/protobuf/map_entry.h> <google/protobuf/map_field_inl.h> <google/protobuf/message.h>
  <google/protobuf/reflection_ops.h> <google/protobuf/repeated_field.h> <google/protobuf/unknown_field_set.h>
  <google/protobuf/wire_format.h>
  <grpcpp/generic/async_generic_service.h> <grpcpp/grpcpp.h> <grpcpp/support/async_stream.h>
  <grpcpp/support/async_unary_call.h> <grpcpp/support/client_callback.h> <grpcpp/support/server_callback.h>)
set(BATON_TEST_INCLUDED <gmock/gmock.h> <gtest/gtest.h>)

# Without the time of the headers in it, clang makes the same file each time, and ccache knows its users again.
set(BATON_PRECOMPILED_FLAGS "")
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  set(BATON_PRECOMPILED_FLAGS "SHELL:-Xclang -fno-pch-timestamp")
endif()

# baton_precompiled_kind(NAME HEADERS h ... [DEPS x ...] [FLAGS f ...]): target `baton_headers_NAME`, from which others reuse them.
function(baton_precompiled_kind NAME)
  cmake_parse_arguments(ARG "" "" "HEADERS;DEPS;FLAGS" ${ARGN})
  set(source ${CMAKE_BINARY_DIR}/precompiled/${NAME}.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "// Written by cmake/precompiled.cmake.\n")
  add_library(baton_headers_${NAME} OBJECT EXCLUDE_FROM_ALL ${source})
  set_target_properties(baton_headers_${NAME} PROPERTIES UNITY_BUILD OFF)
  target_link_libraries(baton_headers_${NAME} PRIVATE baton_flags ${ARG_DEPS})
  target_compile_options(baton_headers_${NAME} PRIVATE ${ARG_FLAGS} ${BATON_PRECOMPILED_FLAGS})
  target_precompile_headers(baton_headers_${NAME} PRIVATE ${ARG_HEADERS})
endfunction()

if(BATON_PRECOMPILED)
  # The headers of a library whose dependencies lead to gRPC are of the kind with that suffix.
  foreach(suffix "" _grpc)
    set(headers ${BATON_OFTEN_INCLUDED})
    set(deps "")
    if(suffix)
      list(APPEND headers ${BATON_GRPC_INCLUDED})
      set(deps gRPC::grpc++ protobuf::libprotobuf)
    endif()
    baton_precompiled_kind(library${suffix} HEADERS ${headers} DEPS ${deps})
    if(BATON_FUZZERS)
      baton_precompiled_kind(fuzzed${suffix} HEADERS ${headers} DEPS ${deps} FLAGS -fsanitize=fuzzer-no-link)
    endif()
    list(APPEND headers ${BATON_TEST_INCLUDED})
    list(APPEND deps GTest::gmock)
    # Of executables.
    baton_precompiled_kind(test${suffix} HEADERS ${headers} DEPS ${deps} FLAGS -fPIE -O0)
    baton_precompiled_kind(optimized_test${suffix} HEADERS ${headers} DEPS ${deps} FLAGS -fPIE)
  endforeach()
endif()

# baton_precompiled(TARGET KIND DEP...): the target, which has these dependencies, reuses the headers of its kind.
function(baton_precompiled TARGET KIND)
  set(suffix "")
  foreach(dep IN LISTS ARGN)
    if(TARGET ${dep})
      get_target_property(sees_grpc ${dep} BATON_SEES_GRPC)
      if(sees_grpc)
        set(suffix _grpc)
      endif()
    endif()
  endforeach()
  if(suffix)
    set_target_properties(${TARGET} PROPERTIES BATON_SEES_GRPC ON)
  endif()
  if(BATON_PRECOMPILED)
    target_precompile_headers(${TARGET} REUSE_FROM baton_headers_${KIND}${suffix})
  endif()
endfunction()
