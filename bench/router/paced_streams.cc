#include "bench/router/paced_streams.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/client_callback.h>

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "baton/v1/generation.grpc.pb.h"
#include "common/rpc/channel_cache.h"

namespace baton::bench {
namespace {

constexpr absl::Duration kFirstTokenTimeout = absl::Seconds(60);
constexpr absl::Duration kPoll = absl::Milliseconds(5);
// Fewer than the router's queue holds.
constexpr int kMaxStarting = 512;
constexpr int kStreamPromptTokens = 16;
constexpr int32_t kPromptTokenId = 100;

}  // namespace

class PacedStream final : public grpc::ClientReadReactor<v1::GenerateResponse> {
 public:
  PacedStream(PacedStreams& owner, uint64_t number, std::shared_ptr<grpc::Channel> channel)
      : owner_(owner), number_(number), stub_(std::move(channel)) {
    for (int i = 0; i < kStreamPromptTokens; ++i) request_.mutable_token_ids()->add_ids(kPromptTokenId);
    request_.mutable_sampling()->set_seed(number);
    request_.mutable_sampling()->set_max_tokens(owner.options_.max_tokens);
    request_.mutable_sampling()->set_ignore_eos(true);
    stub_.async()->Generate(&context_, &request_, this);
    StartRead(&response_);
    StartCall();
  }

  void Cancel() { context_.TryCancel(); }
  void AwaitEnd() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&done_));
  }
  // OK while the stream runs.
  absl::Status status() {
    absl::MutexLock lock(&mutex_);
    if (!done_) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat("stream ", number_, " ended: ", end_.error_message()));
  }
  const std::vector<double>& latencies_ms() const { return latencies_ms_; }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    const TimeNs now = MonotonicClock().Now();
    for (const v1::OutputToken& token : response_.output().tokens()) {
      if (token.index() == 0) ++owner_.flowing_;
      ++owner_.tokens_;
      if (!owner_.recording_) continue;
      latencies_ms_.push_back(NsToMs(now - owner_.token_clock_.SentAt(number_, token.index())));
    }
    StartRead(&response_);
  }
  void OnDone(const grpc::Status& status) override {
    absl::MutexLock lock(&mutex_);
    end_ = status;
    done_ = true;
  }

 private:
  PacedStreams& owner_;
  const uint64_t number_;
  v1::GenerationService::Stub stub_;
  grpc::ClientContext context_;
  v1::GenerateRequest request_;
  v1::GenerateResponse response_;
  // Written by gRPC's callbacks, one at a time, while recording is on.
  std::vector<double> latencies_ms_;
  absl::Mutex mutex_;
  grpc::Status end_ ABSL_GUARDED_BY(mutex_);
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
};

PacedStreams::PacedStreams(const PacedStreamsOptions& options, TokenClock& token_clock)
    : options_(options), token_clock_(token_clock) {}

PacedStreams::~PacedStreams() { Stop(); }

void PacedStreams::Stop() {
  for (const auto& stream : streams_) stream->Cancel();
  for (const auto& stream : streams_) stream->AwaitEnd();
}

absl::Status PacedStreams::Start() {
  std::shared_ptr<grpc::Channel> channel;
  for (int i = 0; i < token_clock_.streams(); ++i) {
    if (absl::Status status = AwaitFlowing(i - kMaxStarting); !status.ok()) return status;
    if (i % options_.streams_per_connection == 0) {
      channel = grpc::CreateCustomChannel(options_.target, grpc::InsecureChannelCredentials(), rpc::ChannelArguments());
    }
    streams_.push_back(std::make_unique<PacedStream>(*this, static_cast<uint64_t>(i), channel));
  }
  return AwaitFlowing(token_clock_.streams());
}

absl::Status PacedStreams::AwaitFlowing(int streams) {
  const absl::Time deadline = absl::Now() + kFirstTokenTimeout;
  while (flowing_ < streams && absl::Now() < deadline) {
    for (const auto& stream : streams_) {
      if (absl::Status status = stream->status(); !status.ok()) return status;
    }
    absl::SleepFor(kPoll);
  }
  if (flowing_ >= streams) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat("only ", flowing_.load(), " of ", streams, " streams have a token"));
}

std::vector<double> PacedStreams::LatenciesMs() const {
  std::vector<double> all;
  for (const auto& stream : streams_) {
    all.insert(all.end(), stream->latencies_ms().begin(), stream->latencies_ms().end());
  }
  return all;
}

}  // namespace baton::bench
