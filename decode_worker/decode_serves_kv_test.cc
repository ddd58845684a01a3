// A decode worker as the source of a hand-off: the seams of worker/ let any worker serve blocks of its engine.
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/check.h"
#include "common/rpc/grpc_server.h"
#include "decode_worker/decode_core.h"
#include "engine/testing/fake_model.h"
#include "gtest/gtest.h"
#include "kvtransfer/transport.h"
#include "kvtransfer/transport_access.h"
#include "worker/fetch_endpoint.h"
#include "worker/transfer_fetcher.h"
#include "worker/worker_core.h"

namespace baton::decode_worker {
namespace {

constexpr int32_t kPoolBlocks = 512;
constexpr int32_t kTestEosId = 63;
// Not a whole number of blocks, so the last block also holds outputs.
constexpr int32_t kPromptTokens = 40;
constexpr int32_t kPromptBlocks = 3;
// The serving worker has decoded this far when another worker takes the job over.
constexpr int32_t kTokensBefore = 4;
constexpr JobKey kServed{.job = {1, 1}, .attempt = 1};
constexpr JobKey kTakenOver{.job = {1, 1}, .attempt = 2};

WorkerJob MakeJob(const JobKey& key, int32_t max_tokens) {
  WorkerJob job{.key = key};
  for (int32_t i = 0; i < kPromptTokens; ++i) job.prompt.push_back(i * 7 % kTestEosId);
  job.sampling.max_tokens = max_tokens;
  job.sampling.ignore_eos = true;
  job.sampling.temperature = 1;
  job.sampling.seed = 5;
  return job;
}

// What a worker told the router. Thread-safe.
class Updates final : public UpdateSink {
 public:
  void Update(const JobKey&, const WorkerUpdate& update) override {
    const absl::MutexLock lock(&mutex_);
    if (update.kind == WorkerUpdate::Kind::kToken) tokens_.push_back(update.token.token);
    if (update.kind == WorkerUpdate::Kind::kFinished) transfer_bytes_ = update.report.transfer_bytes;
  }
  void End(const JobKey&, const absl::Status& status) override {
    const absl::MutexLock lock(&mutex_);
    end_ = status;
  }

  absl::Status AwaitEnd() {
    const absl::MutexLock lock(&mutex_);
    const auto ended = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return end_.has_value(); };
    mutex_.Await(absl::Condition(&ended));
    return *end_;
  }
  std::vector<int32_t> tokens() {
    const absl::MutexLock lock(&mutex_);
    return tokens_;
  }
  int64_t transfer_bytes() {
    const absl::MutexLock lock(&mutex_);
    return transfer_bytes_;
  }

 private:
  absl::Mutex mutex_;
  std::vector<int32_t> tokens_ ABSL_GUARDED_BY(mutex_);
  int64_t transfer_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
};

// Stops a job of its worker after kTokensBefore tokens, and serves the prompt's blocks to the attempt that takes over.
class TakeOverOwner final : public worker::PhaseCore, public worker::KvOwner {
 public:
  // `damage` runs when the blocks' digests have been announced.
  TakeOverOwner(worker::WorkerCore& worker, std::function<void(BlockId)> damage)
      : engine_(worker.engine()), kv_server_(worker.kv_server()), damage_(std::move(damage)) {
    worker.AddPhase(*this);
    kv_server_.AddOwner(*this);
  }

  // Watches the decode phase's sequence and leaves the event to it.
  bool OnStepEvent(const engine::StepEvent& event) override {
    if (!event.token) return false;
    if (event.token->index == 0) first_ = *event.token;
    if (event.token->index + 1 == kTokensBefore) {
      sequence_ = event.sequence;
      engine_.Stop(sequence_);
      BATON_CHECK(kv_server_.Offer(kTakenOver, {.secret = {}}, kNever, /*solo=*/false).ok());
      kv_server_.Settle();
      offered.Notify();
    }
    return false;
  }
  bool Owns(engine::SequenceId) const override { return false; }
  worker::Holding HoldingOf(const engine::HeldBlocks&) const override { return {}; }
  void OnTimer() override {}
  TimeNs NextTimer() const override { return kNever; }

  bool Serves(const JobKey& key) const override { return key == kTakenOver; }
  void OnLicence(const JobKey& key, int32_t first_block) override {
    const std::vector<BlockId> blocks = engine_.PromptBlocks(sequence_);
    const int32_t count = static_cast<int32_t>(blocks.size());
    kv_server_.Announce(key, blocks, first_block, count);
    damage_(blocks.back());
    kv_server_.Complete(key, {.block_count = count, .first = first_});
  }
  void OnRevoke(const JobKey&, const absl::Status& why) override { ADD_FAILURE() << why; }
  void OnRelease(const JobKey& key) override {
    EXPECT_EQ(key, kTakenOver);
    released.Notify();
  }
  void OnSettled() override {}

  absl::Notification offered;
  absl::Notification released;

 private:
  engine::Engine& engine_;
  worker::KvServer& kv_server_;
  const std::function<void(BlockId)> damage_;
  engine::SequenceId sequence_ = 0;
  OutputToken first_;
};

// A decode worker of this process, with its own transport, threads and gRPC server.
class DecodeWorker {
 public:
  explicit DecodeWorker(uint64_t id) : DecodeWorker(id, MakeTransport()) {}
  ~DecodeWorker() {
    if (server_.server != nullptr) rpc::StopGrpcServer(*server_.server, 0);
    core_.loop().Stop();
    loop_thread_.join();
    fetcher_.Stop();
  }

  // Before Start.
  void ServeWith(const std::function<void(BlockId)>& damage) { owner_.emplace(core_, damage); }
  void Start() {
    // Behind the owner, which sees every event first.
    decode_.emplace(DecodeOptions{}, core_, updates_);
    core_.MakeLoop();
    endpoint_.Attach(core_, /*credentials=*/nullptr);
    fetcher_.Launch(core_);
    loop_thread_ = std::thread([this] { core_.loop().Run(); });
    auto server = rpc::StartGrpcServer({.bind = "127.0.0.1", .services = {&endpoint_.service()}});
    BATON_CHECK(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  void Decode(WorkerJob job, const DecodeSource& source) {
    core_.loop().PostWhenRoom([this, job = std::move(job), source] { decode_->OnDecode(job, source); });
  }
  DecodeSource AsSource() const {
    return {.prefill_target = server_.address, .prefill_incarnation = core_.options().incarnation};
  }

  void Damage(BlockId block) { memory_[static_cast<size_t>(block) * pool_.block_bytes()] ^= 1; }
  int64_t block_bytes() const { return static_cast<int64_t>(pool_.block_bytes()); }
  TakeOverOwner& owner() { return *owner_; }
  Updates& updates() { return updates_; }

 private:
  DecodeWorker(uint64_t id, std::unique_ptr<kvtransfer::Transport> transport)
      : transport_(std::move(transport)),
        memory_(*transport_->AllocateRegion(kPoolBlocks * model_.kv_layout().block_bytes())),
        pool_(memory_, model_.kv_layout().block_bytes()),
        access_(*transport_),
        fetcher_(*transport_, {}, MonotonicClock(), pool_, {}),
        core_({.incarnation = {id, id},
               .engine = {.chunk_tokens = 16, .max_sequences = 4, .eos_ids = {kTestEosId}},
               .transport_address = *transport_->Address()},
              {.clock = MonotonicClock(),
               .random = SystemRandom(),
               .runner = model_,
               .pool = pool_,
               .replies = endpoint_.replies(),
               .access = access_,
               .fetcher = fetcher_}) {}

  static std::unique_ptr<kvtransfer::Transport> MakeTransport() {
    return *kvtransfer::MakeTransport({.kind = kvtransfer::TransportKind::kInproc});
  }

  engine::FakeModel model_{{}};
  const std::unique_ptr<kvtransfer::Transport> transport_;
  const absl::Span<uint8_t> memory_;
  HostKvPool pool_;
  worker::FetchEndpoint endpoint_;
  kvtransfer::TransportAccess access_;
  worker::TransferFetcher fetcher_;
  worker::WorkerCore core_;
  Updates updates_;
  std::optional<TakeOverOwner> owner_;
  std::optional<DecodeCore> decode_;
  std::thread loop_thread_;
  rpc::GrpcServer server_;
};

TEST(DecodeServesKv, AnotherWorkerPullsTheBlocksOfARunningJobAndGoesOnWithTheSameTokens) {
  constexpr int32_t kOutputTokens = 20;
  DecodeWorker serving(1);
  DecodeWorker reading(2);
  serving.ServeWith([](BlockId) {});
  serving.Start();
  reading.Start();

  serving.Decode(MakeJob(kServed, 4'000), {.local = true});
  serving.owner().offered.WaitForNotification();
  const WorkerJob job = MakeJob(kTakenOver, kOutputTokens);
  reading.Decode(job, serving.AsSource());

  EXPECT_EQ(reading.updates().AwaitEnd(), absl::OkStatus());
  const std::vector<int32_t> expected = engine::FakeModelTokens({}, job.prompt, job.sampling, {kTestEosId});
  EXPECT_EQ(expected.size(), static_cast<size_t>(kOutputTokens));
  EXPECT_EQ(reading.updates().tokens(), expected);
  EXPECT_EQ(reading.updates().transfer_bytes(), kPromptBlocks * reading.block_bytes());
  EXPECT_EQ(serving.updates().tokens(), std::vector<int32_t>(expected.begin(), expected.begin() + kTokensBefore));
  serving.owner().released.WaitForNotification();
}

TEST(DecodeServesKv, ABlockThatDiffersFromItsDigestIsRefused) {
  DecodeWorker serving(1);
  DecodeWorker reading(2);
  serving.ServeWith([&](BlockId block) { serving.Damage(block); });
  serving.Start();
  reading.Start();

  serving.Decode(MakeJob(kServed, 4'000), {.local = true});
  serving.owner().offered.WaitForNotification();
  reading.Decode(MakeJob(kTakenOver, 20), serving.AsSource());

  EXPECT_EQ(reading.updates().AwaitEnd().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(reading.updates().tokens().empty());
  serving.owner().released.WaitForNotification();
}

}  // namespace
}  // namespace baton::decode_worker
