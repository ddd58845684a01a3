// Sequences of what a router, the readers of its blocks, its own fetches and the clock do to a mixed worker: both
// phases over one engine with a model without arithmetic. The router and the readers may say anything; whatever they
// say, each start has one end, every block of the pool is accounted for, and nothing is left when they are gone.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/check.h"
#include "common/log.h"
#include "common/rpc/protocol.h"
#include "common/testing/fuzz_input.h"
#include "decode_worker/decode_phase.h"
#include "kvtransfer/rpc/fetch_wire.h"
#include "prefill_worker/prefill_phase.h"
#include "tests/fuzzed_router.h"
#include "worker/testing/test_worker.h"

namespace baton {
namespace {

constexpr int32_t kPoolBlocks = 40;
constexpr kvtransfer::FetchStreamId kStreams = 4;

class World {
 public:
  explicit World(FuzzInput& input)
      : input_(input),
        worker_({.pool_blocks = kPoolBlocks,
                 .engine = {.chunk_tokens = 32, .max_sequences = 3, .eos_ids = {63}},
                 .model = DrawModel(input)}),
        decode_({.leaves_room_for_prompt = input.Flag()}),
        calls_(worker_.clock, worker_.core.work()) {
    for (worker::Phase* phase : {static_cast<worker::Phase*>(&prefill_), static_cast<worker::Phase*>(&decode_)}) {
      phase->AddTo(worker_.core, calls_.Add(*phase));
    }
    worker_.core.MakeLoop([this] { Report(); });
    Join();
  }

  void Run() {
    while (!input_.empty()) Step();
    EndAll();
  }

 private:
  static engine::FakeModelOptions DrawModel(FuzzInput& input) {
    engine::FakeModelOptions model{.context_length = 320};
    if (input.Flag()) return model;
    model.sliding_layers = 2;
    model.window = 20;
    model.layer_by_layer = input.Flag();
    return model;
  }

  void Join() {
    router_ = std::make_shared<FuzzedRouter>(input_, worker_.core.options().incarnation);
    calls_.OnJoined(router_, rpc::kProtocolFeatures);
  }

  void Step() {
    switch (input_.Below(12)) {
      case 0:
      case 1:
        return calls_.OnMessage(router_->Starts());
      case 2:
        return calls_.OnMessage(router_->Asks());
      case 3:
        return OpenFetch();
      case 4:
        return Say(DrawStream(), kvtransfer::FetchRequest(kvtransfer::FetchRelease{}));
      case 5:
        return EndFetch(input_.Byte());
      case 6:
        return Wait();
      case 7:
        return Rare();
      default:
        return Round();
    }
  }

  void Rare() {
    switch (input_.Below(8)) {
      case 0:
      case 1:
        return calls_.OnMessage(router_->Any());
      case 2:
        return Say(DrawStream(), kvtransfer::FetchRequest(kvtransfer::FetchRenew{input_.Word()}));
      case 3:
        return CloseStream(DrawStream());
      case 4:
        if (!input_.Rarely()) return;
        calls_.CutAll(10);
        return;
      case 5:
        worker_.access.stops_readers = input_.Flag();
        return;
      case 6: {
        internal::v1::FetchRequest proto;
        if (!proto.ParseFromString(input_.Text(128))) return;
        const absl::StatusOr<kvtransfer::FetchRequest> request = kvtransfer::FromProto(proto);
        if (request.ok()) Say(DrawStream(), *request);
        return;
      }
      default:
        // The router is gone and comes back.
        calls_.OnLost(absl::UnavailableError("lost"));
        return Join();
    }
  }

  kvtransfer::FetchStreamId DrawStream() { return streams_[static_cast<size_t>(input_.Below(kStreams))]; }

  void OpenFetch() {
    const JobKey key = router_->DrawKey();
    kvtransfer::FetchOpen open{.key = key,
                               .secret = SecretOf(key),
                               .source = worker_.core.options().incarnation,
                               .fingerprint = worker_.model.fingerprint(),
                               .first_block = input_.Rarely() ? input_.Hostile<int32_t>() : 0,
                               .lease_ms = 2'000,
                               .takes_begun = input_.Flag()};
    if (input_.Rarely()) open.secret.low = input_.Byte();
    Say(DrawStream(), open);
  }
  void Say(kvtransfer::FetchStreamId stream, const kvtransfer::FetchRequest& request) {
    worker_.core.kv_server().OnFetchRequest(stream, request);
  }
  void CloseStream(kvtransfer::FetchStreamId stream) {
    worker_.core.kv_server().OnFetchClosed(stream);
    std::replace(streams_.begin(), streams_.end(), stream, ++last_stream_);
  }

  // Some fetch of the worker's own ends. The source's token may be any; the sink knows its index.
  void EndFetch(int which) {
    std::vector<kvtransfer::FetchSpec>& started = worker_.fetcher.started;
    if (started.empty()) return;
    const auto it = started.begin() + which % static_cast<ptrdiff_t>(started.size());
    const kvtransfer::FetchSpec spec = std::move(*it);
    started.erase(it);
    if (input_.Rarely()) {
      return worker_.core.receiver().OnFetchFailed({.key = spec.key, .status = absl::UnavailableError("cut")});
    }
    kvtransfer::Committed committed{.key = spec.key, .source_target = spec.source_target, .peer = {}, .path = "shm"};
    committed.first = {.index = spec.first_output, .token = input_.Rarely() ? input_.Hostile<int32_t>() : 7};
    if (input_.Rarely()) committed.first.finish = static_cast<FinishReason>(input_.Below(3));
    committed.bytes = input_.Byte();
    worker_.core.receiver().OnCommitted(committed);
  }

  void Wait() {
    worker_.clock.AdvanceMs(int64_t{8} * input_.Byte());
    Round();
  }

  // A round of the loop, as WorkerProcess runs it.
  void Round() {
    worker_.RunOnce();
    Report();
    const worker::WorkerLoad load = worker_.core.Load();
    BATON_CHECK(load.free_blocks >= 0 && load.used_blocks >= 0 && load.cached_blocks >= 0);
    BATON_CHECK(load.pending_prompt_tokens >= 0 && load.waiting >= 0);
    BATON_CHECK(worker_.core.OrphanedBlocks() == 0) << "blocks without an owner";
    int32_t blocks = load.free_blocks + load.cached_blocks;
    for (const BlockHolder& holder : worker_.core.Blocks().holders) blocks += holder.own_blocks;
    BATON_CHECK(blocks == kPoolBlocks) << blocks << " blocks are accounted for";
  }
  void Report() {
    if (calls_.BlocksAreDue(worker_.core.Load().holds_nothing())) calls_.SayBlocks(worker_.core.Blocks());
    calls_.Flush();
    BATON_CHECK(calls_.open_calls() == router_->open_calls()) << "calls are lost";
  }

  void EndAll() {
    Round();
    calls_.OnLost(absl::UnavailableError("the end"));
    for (const auto stream : std::vector<kvtransfer::FetchStreamId>(streams_)) CloseStream(stream);
    while (!worker_.fetcher.started.empty()) EndFetch(0);
    constexpr int64_t kLongMs = 60'000;
    for (int i = 0; i < 3; ++i) {
      BATON_CHECK(worker_.RunUntilIdle()) << "the worker does not come to rest";
      worker_.clock.AdvanceMs(kLongMs);
    }
    BATON_CHECK(worker_.core.kv_server().open_jobs() == 0) << "a job waits for its reader";
    BATON_CHECK(worker_.core.Load().used_blocks == 0) << "blocks are left";
    BATON_CHECK(worker_.core.Load().waiting == 0 && worker_.core.Load().pending_prompt_tokens == 0) << "a job is left";
    BATON_CHECK(worker_.core.loop().NextRun() == kNever) << "a timer is left";
  }

  FuzzInput& input_;
  worker::TestWorker worker_;
  prefill_worker::PrefillPhase prefill_;
  decode_worker::DecodePhase decode_;
  worker::RouterCalls calls_;
  std::shared_ptr<FuzzedRouter> router_;
  // The streams that are open.
  std::vector<kvtransfer::FetchStreamId> streams_ = {1, 2, 3, 4};
  kvtransfer::FetchStreamId last_stream_ = kStreams;
};

}  // namespace
}  // namespace baton

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  spdlog::set_level(spdlog::level::off);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  baton::FuzzInput input(data, bytes);
  baton::World(input).Run();
  return 0;
}
