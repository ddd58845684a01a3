// Any bytes as the messages of a worker: a first one, which may join, and what follows it on the same stream. The
// stream is ended with a reason or goes on, and nothing but its own membership changes.
#include <memory>
#include <optional>

#include "common/check.h"
#include "common/random.h"
#include "common/testing/manual_clock.h"
#include "router/cluster_members.h"
#include "router/testing/worker_hello.h"

namespace {

using namespace baton;
namespace pb = baton::internal::v1;

class Stream final : public router::WorkerStream {
 public:
  void Send(size_t bytes, absl::FunctionRef<void(pb::RouterMessage&)> fill) override {
    fill(said);
    BATON_CHECK(bytes > 0);
  }
  void End(const absl::Status& why) override {
    BATON_CHECK(!why.message().empty());
    is_ended = true;
  }
  bool ended() const override { return is_ended; }

  pb::RouterMessage said;
  bool is_ended = false;
};

// A worker that has joined, with one job.
struct World {
  World() {
    pb::WorkerMessage message;
    *message.mutable_hello() = router::MakeHello(1, pb::WORKER_ROLE_MIXED);
    members.OnMessage(dispatcher, member, message);
    auto job = std::make_shared<router::JobSpec>();
    job->id = {.high = 2, .low = 1};
    job->prompt = {1, 2, 3};
    BATON_CHECK(dispatcher.Submit(std::move(job)).ok());
    Apply();
    BATON_CHECK(member->said.starts_size() == 1);
  }
  void Apply() {
    for (const router::DispatchAction& action : dispatcher.TakeActions()) {
      if (const auto* p = std::get_if<router::StartPrefill>(&action)) members.Start(*p);
      if (const auto* d = std::get_if<router::StartDecode>(&action)) members.Start(*d);
      if (const auto* c = std::get_if<router::CancelAttempt>(&action)) members.Cancel(*c);
      if (const auto* m = std::get_if<router::HandOverAttempt>(&action)) members.Move(*m);
      if (const auto* e = std::get_if<router::EndMembership>(&action)) members.End(*e);
      if (const auto* d = std::get_if<router::DrainWorker>(&action)) members.Drain(*d);
    }
  }

  ManualClock clock;
  SeededRandom random{1};
  router::Dispatcher dispatcher{router::DispatcherOptions{}, clock, random};
  router::ClusterMembers members{{.model = "tiny"}, clock, random};
  std::shared_ptr<Stream> member = std::make_shared<Stream>();
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pb::WorkerMessage message;
  if (!message.ParseFromArray(data, static_cast<int>(size))) return 0;
  World world;
  // As a stranger, then as a member that knows its membership.
  const auto stranger = std::make_shared<Stream>();
  for (int i = 0; i < 2; ++i) {
    world.members.OnMessage(world.dispatcher, stranger, message);
    world.Apply();
  }
  BATON_CHECK(stranger->ended());
  BATON_CHECK(!world.member->ended()) << "a stranger's message touched a member";
  message.clear_hello();
  message.set_membership(world.member->said.accepted().membership());
  world.members.OnMessage(world.dispatcher, world.member, message);
  world.Apply();
  if (world.member->ended()) BATON_CHECK(world.dispatcher.open_calls() == 0);
  world.members.OnClosed(world.dispatcher, *world.member);
  world.Apply();
  BATON_CHECK(world.dispatcher.open_calls() == 0);
  return 0;
}
