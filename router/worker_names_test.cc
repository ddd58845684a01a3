#include "router/worker_names.h"

#include <string>

#include "gmock/gmock.h"
#include "router/testing/dispatcher_fixture.h"

namespace baton::router {
namespace {

using ::testing::HasSubstr;

class WorkerNamesTest : public ::testing::Test {
 protected:
  void Join(uint64_t n, int64_t pid, WorkerRole role = WorkerRole::kDecode) {
    WorkerInfo info = MakeWorker(n, role);
    info.pid = pid;
    ASSERT_TRUE(registry_.Join(info, 0).ok());
  }
  // The number of the worker, or the error.
  std::string Find(std::string_view name) {
    const absl::StatusOr<const Worker*> found = FindNamedWorker(registry_, name);
    return found.ok() ? std::to_string((*found)->info.id.low) : found.status().ToString();
  }

  WorkerRegistry registry_;
};

TEST_F(WorkerNamesTest, AWorkerIsFoundByAddressPidAndIncarnation) {
  Join(1, 17);
  Join(2, 18);
  EXPECT_EQ(Find("host:1"), "1");
  EXPECT_EQ(Find("18"), "2");
  EXPECT_EQ(Find(MakeIncarnation(2).ToHex()), "2");
}

TEST_F(WorkerNamesTest, NothingButAWholeNameFinds) {
  EXPECT_THAT(Find("host:1"), HasSubstr("NOT_FOUND: the router has no worker \"host:1\" among its 0"));
  Join(1, 17);
  for (const std::string_view name : {"", "host", "host:", "host:10", "1", "017", "+17", "17 ", "decode", "Host:1"}) {
    EXPECT_THAT(Find(name), HasSubstr("NOT_FOUND")) << name;
  }
  EXPECT_THAT(Find("a\nb"), HasSubstr("\"a\\nb\" among its 1: name one by its address or pid"));
  EXPECT_LT(Find(std::string(100'000, 'x')).size(), 1'000u);
  // A membership is a secret.
  EXPECT_THAT(Find(MakeWorkerId(1).ToHex()), HasSubstr("NOT_FOUND"));
}

TEST_F(WorkerNamesTest, APidOfSeveralMachinesNamesThem) {
  for (uint64_t n = 1; n <= 2; ++n) Join(n, 17);
  EXPECT_EQ(Find("17"),
            "INVALID_ARGUMENT: 2 workers are called 17 (decode worker host:1 (pid 17), decode worker host:2 (pid 17)): "
            "name one by its address, or by its incarnation, which `baton status --json` has");
  for (uint64_t n = 3; n <= 9; ++n) Join(n, 17, WorkerRole::kPrefill);
  EXPECT_THAT(Find("17"), HasSubstr("9 workers are called 17 "));
  EXPECT_THAT(Find("17"), HasSubstr("host:4 (pid 17), ...)"));
  EXPECT_EQ(Find("host:2"), "2");
}

}  // namespace
}  // namespace baton::router
