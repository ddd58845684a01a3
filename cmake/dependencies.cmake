# Debian packages, and what scripts/setup.sh unpacks from PyPI wheels into BATON_DEPS_DIR.

find_package(Threads REQUIRED)
find_package(Protobuf REQUIRED)
find_package(absl CONFIG REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(GTest REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(spdlog REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
find_package(benchmark REQUIRED)
find_package(Boost 1.81 REQUIRED)

# UCX 1.22 from the wheel; the rpath keeps Debian's 1.13, which has the same SONAME, out of the process.
set(BATON_UCX_DIR ${BATON_DEPS_DIR}/ucx/libucx)
if(NOT EXISTS ${BATON_UCX_DIR}/include/ucp/api/ucp.h)
  message(FATAL_ERROR "UCX is not in ${BATON_UCX_DIR}: run scripts/setup.sh")
endif()
add_library(baton_ucx INTERFACE)
target_include_directories(baton_ucx SYSTEM INTERFACE ${BATON_UCX_DIR}/include)
target_link_libraries(baton_ucx INTERFACE ${BATON_UCX_DIR}/lib/libucp.so ${BATON_UCX_DIR}/lib/libucs.so
                      ${BATON_UCX_DIR}/lib/libuct.so)
target_link_options(baton_ucx INTERFACE -Wl,-rpath,${BATON_UCX_DIR}/lib)

set(BATON_GOOGLEAPIS_DIR ${BATON_DEPS_DIR}/googleapis)
if(NOT EXISTS ${BATON_GOOGLEAPIS_DIR}/google/rpc/error_details.proto)
  message(FATAL_ERROR "google/rpc protos are not in ${BATON_GOOGLEAPIS_DIR}: run scripts/setup.sh")
endif()
