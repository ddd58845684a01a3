// A router as a fuzzer's input drives it: what it tells a worker, and what it hears. It may tell anything, and CHECKs
// that what it hears of each call is in order. For fuzzers.
#ifndef BATON_TESTS_FUZZED_ROUTER_H_
#define BATON_TESTS_FUZZED_ROUTER_H_

#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "common/check.h"
#include "common/rpc/wire.h"
#include "common/testing/fuzz_input.h"
#include "worker/router_calls.h"

namespace baton {

// The secret that the router draws for an attempt.
inline Id128 SecretOf(const JobKey& key) { return {.high = key.attempt, .low = key.job.low}; }

// The router's end of one membership's stream.
class FuzzedRouter final : public worker::RouterStream {
 public:
  using Message = internal::v1::RouterMessage;

  // `source` is the incarnation that this router names as the one to pull from.
  FuzzedRouter(FuzzInput& input, const Incarnation& source) : input_(input), source_(source) {}

  Message Starts() {
    Message message;
    for (int count = 1 + input_.Below(2); count > 0; --count) FillStart(*message.add_starts());
    return Told(message);
  }

  // Cancels, hand-overs, and the answer to a drain.
  Message Asks() {
    Message message;
    for (int count = input_.Below(3); count > 0; --count) message.add_cancels(DrawCall());
    for (int count = input_.Below(3); count > 0; --count) {
      internal::v1::HandOver& hand_over = *message.add_hand_overs();
      hand_over.set_call(DrawCall());
      hand_over.set_next_attempt(input_.Flag() ? 1 + static_cast<uint32_t>(input_.Below(4)) : 0);
      if (input_.Rarely()) hand_over.set_next_attempt(input_.Hostile<uint32_t>());
      hand_over.set_secret(rpc::ToBytes(SecretOf(
          {.job = {.low = 1 + static_cast<uint64_t>(input_.Below(kJobs))}, .attempt = hand_over.next_attempt()})));
      if (input_.Rarely()) hand_over.set_secret(input_.Text(20));
    }
    if (input_.Rarely()) message.set_drain_accepted(true);
    return message;
  }

  // The bytes as they are.
  Message Any() {
    Message message;
    message.ParseFromString(input_.Text(255));
    return Told(message);
  }

  JobKey DrawKey() {
    JobKey key{.job = {.low = 1 + static_cast<uint64_t>(input_.Below(kJobs))},
               .attempt = 1 + static_cast<uint32_t>(input_.Below(4))};
    if (input_.Rarely()) key.choice = input_.Byte();
    return key;
  }

  void Send(size_t bytes, absl::FunctionRef<void(internal::v1::WorkerMessage&)> fill) override {
    internal::v1::WorkerMessage message;
    fill(message);
    BATON_CHECK(message.ByteSizeLong() <= bytes) << "a message takes more than was said";
    Hear(message);
  }

  // Calls that were started and have not ended.
  size_t open_calls() const {
    size_t open = 0;
    for (const auto& [number, call] : calls_) open += static_cast<size_t>(call.starts - call.ends);
    return open;
  }

 private:
  static constexpr int kJobs = 4;
  static constexpr uint64_t kCalls = 12;

  struct Call {
    int starts = 0;
    int ends = 0;
    // What became of a number that was given once.
    int32_t next = 0;
    int32_t max_tokens = 0;
    bool finished = false;
    bool frozen = false;
  };

  // Numbers come up again, as those of a router that miscounts would.
  uint64_t DrawCall() {
    if (input_.Rarely()) return input_.Hostile<uint64_t>();
    return 1 + static_cast<uint64_t>(input_.Below(static_cast<int>(kCalls)));
  }

  Message Told(const Message& message) {
    for (const internal::v1::CallStart& start : message.starts()) {
      Call& call = calls_[start.call()];
      ++call.starts;
      call.next = start.job().emitted();
      call.max_tokens = start.job().sampling().max_tokens();
    }
    return message;
  }

  void FillStart(internal::v1::CallStart& start) {
    start.set_call(input_.Rarely() ? DrawCall() : ++last_call_);
    const JobKey key = DrawKey();
    internal::v1::JobParams& job = *start.mutable_job();
    rpc::ToProto(key, job.mutable_key());
    if (input_.Rarely()) job.mutable_key()->set_job(input_.Text(33));
    job.set_secret(input_.Rarely() ? input_.Text(20) : rpc::ToBytes(SecretOf(key)));
    FillPrompt(job);
    FillSampling(*job.mutable_sampling());
    if (input_.Rarely()) job.set_emitted(input_.Hostile<int32_t>());
    if (input_.Rarely()) job.set_timeout_ms(input_.Hostile<int64_t>());
    if (input_.Rarely()) job.set_alone_outputs(input_.Hostile<int32_t>());
    if (input_.Rarely()) job.set_tenant(input_.Text(4));
    job.set_want_kv_digest(input_.Flag());
    FillSide(start);
  }

  void FillPrompt(internal::v1::JobParams& job) {
    const int tokens = input_.Byte() * (input_.Rarely() ? 40 : 1);
    const int first = input_.Below(4);
    for (int i = 0; i < tokens; ++i) job.add_prompt((first + i * 5) % 64);
    if (input_.Rarely()) job.add_prompt(input_.Hostile<int32_t>());
    if (input_.Rarely()) job.set_emitted(input_.Below(3));
  }

  void FillSampling(internal::v1::Sampling& sampling) {
    sampling.set_max_tokens(input_.Rarely() ? input_.Hostile<int32_t>() : 1 + input_.Below(40));
    sampling.set_top_p(1);
    sampling.set_repetition_penalty(1);
    sampling.set_logprobs(input_.Below(3) - 1);
    if (!input_.Rarely()) return;
    sampling.set_temperature(DrawFloat());
    sampling.set_top_k(input_.Hostile<int32_t>());
    sampling.set_top_p(DrawFloat());
    sampling.set_min_p(DrawFloat());
    sampling.set_repetition_penalty(DrawFloat());
    sampling.set_frequency_penalty(DrawFloat());
    sampling.set_presence_penalty(DrawFloat());
    sampling.set_seed(input_.Byte());
    sampling.set_min_tokens(input_.Hostile<int32_t>());
    sampling.set_ignore_eos(input_.Flag());
    if (input_.Flag()) sampling.add_stop_token_ids(input_.Hostile<int32_t>());
    sampling.set_logprobs(input_.Hostile<int32_t>());
    if (input_.Flag()) sampling.set_prompt_logprobs(input_.Rarely() ? input_.Hostile<int32_t>() : input_.Below(21));
    for (int i = input_.Below(4); i > 0; --i) {
      internal::v1::TokenBias& bias = *sampling.add_logit_bias();
      bias.set_id(input_.Rarely() ? input_.Hostile<int32_t>() : 64 - 16 * i + input_.Below(16));
      bias.set_bias(DrawFloat());
    }
  }
  // Mostly in every range.
  float DrawFloat() {
    return input_.Rarely() ? std::bit_cast<float>(static_cast<uint32_t>(input_.Word()))
                           : static_cast<float>(1 + input_.Byte()) / 256;
  }

  void FillSide(internal::v1::CallStart& start) {
    const int side = input_.Below(8);
    if (side == 7) return;
    if (side < 3) {
      start.mutable_prefill()->set_solo(side == 2);
      return;
    }
    internal::v1::DecodeStart& decode = *start.mutable_decode();
    decode.set_local_prefill(side == 3);
    decode.set_prefill_target("p:1");
    decode.set_prefill_incarnation(input_.Rarely() ? input_.Text(17) : rpc::ToBytes(source_));
    if (!input_.Rarely()) return;
    internal::v1::KvOrigin& origin = *decode.add_earlier();
    origin.set_target("p:2");
    origin.set_incarnation(input_.Text(17));
  }

  void Hear(const internal::v1::WorkerMessage& message) {
    for (const auto& started : message.started()) Find(started.call());
    for (const auto& committed : message.kv_committed()) Find(committed.call());
    for (const auto& token : message.tokens()) {
      Call& call = Find(token.call());
      if (call.starts > 1) continue;
      BATON_CHECK(token.index() == call.next && token.index() < call.max_tokens) << "output " << token.index();
      BATON_CHECK(!call.finished && !call.frozen) << "an output behind the last one";
      ++call.next;
    }
    for (const auto& frozen : message.frozen()) {
      Call& call = Find(frozen.call());
      BATON_CHECK(call.starts > 1 || frozen.token().index() == call.next - 1) << frozen.token().index();
      BATON_CHECK(rpc::FromProto(frozen).ok());
    }
    for (const auto& finished : message.finished()) {
      Call& call = Find(finished.call());
      BATON_CHECK(!std::exchange(call.finished, true) || call.starts > 1) << "finished twice";
      BATON_CHECK(finished.queue_ns() >= 0 && finished.compute_ns() >= 0 && finished.steps() >= 0);
    }
    for (const auto& ended : message.ended()) {
      Call& call = Find(ended.call());
      ++call.ends;
      absl::Status status;
      BATON_CHECK(rpc::FromProto(ended, status).ok());
    }
    if (message.has_blocks()) BATON_CHECK(rpc::FromProto(message.blocks()).ok());
  }
  // The call is open.
  Call& Find(uint64_t number) {
    const auto it = calls_.find(number);
    BATON_CHECK(it != calls_.end() && it->second.ends < it->second.starts) << "a word of call " << number;
    return it->second;
  }

  FuzzInput& input_;
  const Incarnation source_;
  std::map<uint64_t, Call> calls_;
  uint64_t last_call_ = 0;
};

}  // namespace baton

#endif  // BATON_TESTS_FUZZED_ROUTER_H_
