#include "kvtransfer/transport_access.h"

#include <sys/wait.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace baton::kvtransfer {
namespace {

constexpr Id128 kFetchId{.high = 1, .low = 1};

std::unique_ptr<Transport> MakeKind(TransportKind kind) {
  auto transport = MakeTransport({.kind = kind});
  EXPECT_TRUE(transport.ok()) << transport.status();
  EXPECT_TRUE((*transport)->AllocateRegion(1u << 20).ok());
  return *std::move(transport);
}

// A process that has run and is gone.
ReaderProcess EndedProcess() {
  ReaderProcess process = ThisProcess();
  process.pid = fork();
  if (process.pid == 0) _exit(0);
  waitpid(process.pid, nullptr, 0);
  return process;
}

TEST(TransportAccessTest, ReaderOfSharedMemoryMayReadForAsLongAsItLives) {
  for (TransportKind kind : {TransportKind::kShm, TransportKind::kAuto}) {
    const auto transport = MakeKind(kind);
    TransportAccess access(*transport);
    EXPECT_FALSE(access.Stop(kFetchId, ThisProcess()));
    EXPECT_TRUE(access.Stop(kFetchId, EndedProcess()));
    EXPECT_FALSE(access.Stop(kFetchId, {}));
    ReaderProcess elsewhere = EndedProcess();
    elsewhere.pid_namespace = "another container";
    EXPECT_FALSE(access.Stop(kFetchId, elsewhere));
    ReaderProcess unnumbered = EndedProcess();
    unnumbered.pid = 0;
    EXPECT_FALSE(access.Stop(kFetchId, unnumbered));
    ReaderProcess far = ThisProcess();
    far.host = "another host";
    EXPECT_TRUE(access.Stop(kFetchId, far));
  }
}

TEST(TransportAccessTest, ReaderOverTheNetworkIsStoppedAtOnce) {
  const auto transport = MakeKind(TransportKind::kTcp);
  TransportAccess access(*transport);
  access.Allow(kFetchId, {{.offset = 8192, .bytes = 4096}});
  EXPECT_FALSE(transport->grants().BeginSend(kFetchId, {8191, 4096}));
  EXPECT_FALSE(transport->grants().BeginSend(kFetchId, {8192, 4097}));
  ASSERT_TRUE(transport->grants().BeginSend(kFetchId, {8192, 4096}));
  EXPECT_FALSE(access.Stop(kFetchId, ThisProcess())) << "bytes are on their way out";
  transport->grants().EndSend(kFetchId);
  EXPECT_TRUE(access.Stop(kFetchId, ThisProcess()));
  EXPECT_FALSE(transport->grants().BeginSend(kFetchId, {8192, 4096}));
}

}  // namespace
}  // namespace baton::kvtransfer
