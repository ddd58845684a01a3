#include "kvtransfer/transports/nccl/nccl_api.h"

#include <cstdlib>
#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvtransfer/transport.h"

namespace baton::kvtransfer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// What the transport says when it is to start with this library.
std::string Refusal(const std::string& library) {
  const absl::Status status = MakeTransport({.kind = TransportKind::kNccl, .nccl_library = library}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << library;
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("\n")));
  return std::string(status.message());
}

TEST(NcclApiTest, AbsentLibraryIsSaidWithWhatToDo) {
  EXPECT_THAT(Refusal("/nonexistent/libnccl.so.2"),
              AllOf(HasSubstr("/nonexistent/libnccl.so.2"), HasSubstr("install NCCL 2.18.0 or later"),
                    HasSubstr("BATON_NCCL_LIBRARY"), HasSubstr("another --transport")));
}

TEST(NcclApiTest, FileThatIsNoLibraryIsRefused) {
  EXPECT_THAT(Refusal(BATON_SOURCE_DIR "/LICENSE"), AllOf(HasSubstr("cannot load NCCL"), HasSubstr("LICENSE")));
}

TEST(NcclApiTest, OtherLibraryIsRefused) {
  EXPECT_THAT(Refusal("libm.so.6"), AllOf(HasSubstr("libm.so.6 is not NCCL"), HasSubstr("BATON_NCCL_LIBRARY")));
}

TEST(NcclApiTest, LibraryWithoutAFunctionIsRefusedByItsName) {
  EXPECT_THAT(Refusal(BATON_NCCL_INCOMPLETE), AllOf(HasSubstr("is 2.28.9, without ncclGetUniqueId")));
}

TEST(NcclApiTest, OldLibraryIsRefused) {
  for (const auto& [version, name] : {std::pair{"21703", "2.17.3"}, std::pair{"2708", "2.7.8"}}) {
    setenv("BATON_STAND_IN_NCCL_VERSION", version, 1);
    EXPECT_THAT(Refusal(BATON_NCCL_STAND_IN),
                AllOf(HasSubstr("needs NCCL 2.18.0 or later"), HasSubstr(std::string("is ") + name)));
  }
  unsetenv("BATON_STAND_IN_NCCL_VERSION");
  EXPECT_TRUE(LoadNcclApi(BATON_NCCL_STAND_IN).ok());
}

TEST(NcclApiTest, VariableNamesTheLibrary) {
  setenv("BATON_NCCL_LIBRARY", "/nonexistent/named.so", 1);
  EXPECT_THAT(Refusal(""), HasSubstr("/nonexistent/named.so"));
  setenv("BATON_NCCL_LIBRARY", BATON_NCCL_STAND_IN, 1);
  EXPECT_TRUE(MakeTransport({.kind = TransportKind::kNccl}).ok());
  unsetenv("BATON_NCCL_LIBRARY");
}

TEST(NcclApiTest, NcclItselfDoesNotReadHostMemory) {
  const std::string library = BATON_NCCL_REAL;
  if (library.empty() || !std::filesystem::exists(library)) GTEST_SKIP() << "this machine has no NCCL";
  const auto api = LoadNcclApi(library);
  ASSERT_TRUE(api.ok()) << api.status();
  EXPECT_GE(api->version, nccl::kOldestVersion);
  EXPECT_THAT(Refusal(library), AllOf(HasSubstr("between the memories of GPUs"), HasSubstr(library)));
}

}  // namespace
}  // namespace baton::kvtransfer
