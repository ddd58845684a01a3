// One worker's process as a fuzzer's input drives it: it joins, does what it is told, refuses, fails, and lies. It
// draws the messages; its owner brings them to the router. For fuzzers.
#ifndef BATON_ROUTER_TESTING_FUZZED_WORKER_H_
#define BATON_ROUTER_TESTING_FUZZED_WORKER_H_

#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "common/check.h"
#include "common/rpc/protocol.h"
#include "common/rpc/wire.h"
#include "common/testing/fuzz_input.h"
#include "router/testing/fuzzed_stream.h"

namespace baton::router {

class FuzzedWorker {
 public:
  using Message = internal::v1::WorkerMessage;

  FuzzedWorker(FuzzInput& input, uint64_t number) : input_(input), number_(number) {
    role_ = static_cast<internal::v1::WorkerRole>(1 + input_.Below(3));
  }

  const std::shared_ptr<FuzzedStream>& stream() const { return stream_; }

  // On a new stream. The calls of the one before are over.
  Message Hello() {
    stream_ = std::make_shared<FuzzedStream>();
    calls_.clear();
    last_start_ = 0;
    drains_ = said_drain_ = serves_again_ = drain_accepted_ = false;
    Message message;
    internal::v1::Hello& hello = *message.mutable_hello();
    hello.set_protocol_version(input_.Rarely() ? input_.Byte() : rpc::kProtocolVersion);
    if (input_.Rarely()) ++process_;
    hello.set_incarnation(rpc::ToBytes({.high = number_, .low = process_}));
    if (!membership_.empty() && !input_.Rarely()) hello.set_resumes(membership_);
    hello.set_features(input_.Rarely() ? input_.Byte() : rpc::kProtocolFeatures);
    hello.set_role(input_.Rarely() ? static_cast<internal::v1::WorkerRole>(input_.Byte()) : role_);
    hello.set_target("w:" + std::to_string(number_));
    hello.set_model(input_.Rarely() ? input_.Text(9) : "tiny");
    hello.set_fingerprint(input_.Rarely() ? input_.Text(9) : "f");
    hello.set_total_blocks(input_.Rarely() ? input_.Hostile<int32_t>() : 100);
    hello.set_max_sequences(input_.Rarely() ? input_.Hostile<int32_t>() : 16);
    hello.set_chunk_tokens(input_.Rarely() ? input_.Hostile<int32_t>() : 64);
    hello.set_context_length(input_.Rarely() ? input_.Hostile<int32_t>() : 4096);
    hello.set_full_groups(input_.Rarely() ? input_.Hostile<int32_t>() : 1);
    if (input_.Rarely()) hello.set_sliding_groups(input_.Hostile<int32_t>());
    if (input_.Rarely()) hello.set_window(input_.Hostile<int32_t>());
    if (input_.Rarely()) hello.set_headroom_blocks(input_.Hostile<int32_t>());
    if (input_.Rarely()) hello.set_vocab_size(input_.Hostile<int32_t>());
    if (input_.Rarely()) hello.set_pid(input_.Hostile<int64_t>());
    return message;
  }

  // What the router has said.
  void Read() {
    if (stream_ == nullptr || !stream_->worker_reads) return;
    const internal::v1::RouterMessage said = std::exchange(stream_->said, {});
    if (said.has_accepted()) membership_ = said.accepted().membership();
    for (const internal::v1::CallStart& start : said.starts()) {
      BATON_CHECK(start.call() == ++last_start_) << "a call has number " << start.call();
      BATON_CHECK(!drain_accepted_ || serves_again_) << "a start after the drain was accepted";
      calls_[start.call()] = {.start = start, .next = start.job().emitted()};
    }
    for (const uint64_t number : said.cancels()) {
      BATON_CHECK(number > 0 && number <= last_start_) << "a cancel of call " << number;
      if (const auto it = calls_.find(number); it != calls_.end()) it->second.cancelled = true;
    }
    for (const internal::v1::HandOver& hand_over : said.hand_overs()) {
      if (const auto it = calls_.find(hand_over.call()); it != calls_.end()) it->second.hand_over = hand_over;
    }
    drain_accepted_ |= said.drain_accepted();
  }

  Message Heartbeat() {
    Message message = Begin();
    if (input_.Rarely()) drains_ = true;
    internal::v1::Load& load = *message.mutable_load();
    load.set_draining(drains_);
    load.set_free_blocks(100);
    load.set_running(static_cast<int32_t>(calls_.size()));
    NoteLoad(message);
    return message;
  }

  // The next step of some call, as a worker makes it that may have no room, or fail.
  Message Work() {
    Message message = Begin();
    for (int steps = 1 + input_.Below(3); steps > 0 && !calls_.empty(); --steps) {
      const auto it = Draw();
      if (StepOf(it->first, it->second, message)) calls_.erase(it);
    }
    return message;
  }

  // Anything that a message may hold.
  Message Lie() {
    Message message = Begin();
    if (input_.Rarely()) message.set_membership(input_.Text(16));
    for (int lies = 1 + input_.Below(3); lies > 0; --lies) LieOnce(message);
    NoteLoad(message);
    return message;
  }

  Message Blocks() {
    Message message = Begin();
    internal::v1::BlockReport& report = *message.mutable_blocks();
    report.set_free_blocks(input_.Hostile<int32_t>());
    report.set_cached_blocks(input_.Rarely() ? input_.Hostile<int32_t>() : 0);
    for (int holders = input_.Below(4); holders > 0; --holders) {
      internal::v1::BlockHolder& holder = *report.add_holders();
      if (!calls_.empty()) *holder.mutable_key() = Draw()->second.start.job().key();
      if (input_.Rarely()) rpc::ToProto(JobKey{.job = {.low = input_.Byte()}}, holder.mutable_key());
      holder.set_hold(static_cast<internal::v1::BlockHold>(input_.Below(10)));
      holder.set_blocks(input_.Hostile<int32_t>());
      holder.set_own_blocks(input_.Flag() ? holder.blocks() : input_.Hostile<int32_t>());
      holder.set_held_ms(input_.Hostile<int64_t>());
    }
    return message;
  }

  Message Fault() {
    Message message = Begin();
    internal::v1::Fault& fault = *message.mutable_fault();
    fault.set_signal(input_.Hostile<int32_t>());
    for (int jobs = input_.Below(3); jobs > 0 && !calls_.empty(); --jobs) {
      *fault.add_at_work() = Draw()->second.start.job().key();
    }
    if (input_.Rarely()) fault.add_at_work()->set_job(input_.Text(32));
    return message;
  }

 private:
  struct Call {
    internal::v1::CallStart start;
    int32_t next = 0;
    bool started = false;
    bool committed = false;
    bool frozen = false;
    bool cancelled = false;
    std::optional<internal::v1::HandOver> hand_over = std::nullopt;
  };
  using Calls = std::map<uint64_t, Call>;

  void NoteLoad(const Message& message) {
    if (!message.has_load()) return;
    serves_again_ |= said_drain_ && !message.load().draining();
    said_drain_ |= message.load().draining();
  }

  Message Begin() const {
    Message message;
    message.set_membership(membership_);
    return message;
  }
  // There is a call.
  Calls::iterator Draw() { return std::next(calls_.begin(), input_.Byte() % static_cast<int64_t>(calls_.size())); }

  static void End(uint64_t number, int32_t code, Message& message) {
    internal::v1::CallEnded& ended = *message.add_ended();
    ended.set_call(number);
    ended.set_code(code);
    ended.set_message("why");
  }

  // True when the call is over.
  bool StepOf(uint64_t number, Call& call, Message& message) {
    const int kind = input_.Byte() % 32;
    if (call.cancelled || kind == 31) {
      End(number, call.cancelled ? 1 : input_.Below(17), message);
      return true;
    }
    if (!call.started) {
      if (kind == 30) {
        End(number, static_cast<int32_t>(absl::StatusCode::kResourceExhausted), message);
        return true;
      }
      call.started = true;
      message.add_started()->set_call(number);
      return false;
    }
    if (call.frozen && call.hand_over->next_attempt() != 0) {
      End(number, 0, message);
      return true;
    }
    call.frozen = false;
    if (!call.start.has_prefill() && !call.start.decode().local_prefill() && !std::exchange(call.committed, true)) {
      message.add_kv_committed()->set_call(number);
    }
    return Output(number, call, kind, message);
  }

  bool Output(uint64_t number, Call& call, int kind, Message& message) {
    const internal::v1::JobParams& job = call.start.job();
    if (call.next == 0 && job.sampling().has_prompt_logprobs() && !call.committed) {
      SayPrompt(number, 1, job.prompt_size() - 1, message);
    }
    internal::v1::CallToken& token = *message.add_tokens();
    token.set_call(number);
    token.set_index(call.next++);
    token.set_id(TokenAt(job.key(), token.index()));
    // A stop is drawn from the token alone, so that the workers of a pair agree.
    const bool stops = token.id() % 16 == 0;
    const bool at_length = call.next >= job.sampling().max_tokens();
    if (stops || at_length) token.set_finish(stops ? internal::v1::FINISH_STOP : internal::v1::FINISH_LENGTH);
    if (!stops && !at_length && !call.start.has_prefill()) {
      if (!call.hand_over.has_value() || call.hand_over->next_attempt() == 0) return false;
      call.frozen = true;
      internal::v1::CallFrozen& frozen = *message.add_frozen();
      frozen.set_call(number);
      frozen.mutable_token()->set_index(token.index());
      frozen.mutable_token()->set_id(token.id());
      return false;
    }
    if (kind == 29) return false;
    internal::v1::CallFinished& finished = *message.add_finished();
    finished.set_call(number);
    finished.set_compute_ns(int64_t{1'000'000} * input_.Byte());
    if (job.want_kv_digest()) finished.set_kv_digest("d");
    End(number, 0, message);
    return true;
  }
  static int32_t TokenAt(const internal::v1::JobKey& key, int32_t index) {
    return (key.job().empty() ? 0 : key.job().back()) + index * 7 % 97;
  }

  static void SayPrompt(uint64_t number, int32_t first, int count, Message& message) {
    internal::v1::CallPrompt& prompt = *message.add_prompts();
    prompt.set_call(number);
    prompt.set_first(first);
    for (int i = 0; i < count; ++i) {
      prompt.add_logprobs(-1);
      prompt.add_ranks(1);
      prompt.add_top_counts(0);
    }
  }

  void LieOnce(Message& message) {
    const int kind = input_.Below(10);
    const uint64_t number = calls_.empty() || input_.Rarely() ? input_.Hostile<uint64_t>() : Draw()->first;
    switch (kind) {
      case 0: {
        internal::v1::CallStarted& started = *message.add_started();
        started.set_call(number);
        return started.set_cached_tokens(input_.Hostile<int32_t>());
      }
      case 1: {
        internal::v1::CallCommitted& committed = *message.add_kv_committed();
        committed.set_call(number);
        committed.set_read_ns(input_.Hostile<int64_t>());
        committed.set_transfer_bytes(input_.Hostile<int64_t>());
        return committed.set_transport(input_.Text(9));
      }
      case 2:
        return LieOfToken(number, *message.add_tokens());
      case 3: {
        internal::v1::CallFrozen& frozen = *message.add_frozen();
        frozen.set_call(number);
        return LieOfToken(number, *frozen.mutable_token());
      }
      case 4:
        return LieOfEnd(*message.add_finished(), number);
      case 5: {
        End(number, input_.Rarely() ? input_.Hostile<int32_t>() : input_.Below(17), message);
        calls_.erase(number);
        return;
      }
      case 6: {
        internal::v1::Load& load = *message.mutable_load();
        load.set_draining(input_.Flag());
        load.set_free_blocks(input_.Hostile<int32_t>());
        load.set_used_blocks(input_.Hostile<int32_t>());
        load.set_pending_prompt_tokens(input_.Hostile<int64_t>());
        load.set_steps(input_.Hostile<int64_t>());
        return load.set_step_age_ms(input_.Hostile<int64_t>());
      }
      case 7:
        return static_cast<void>(message.MergeFromString(input_.Text(128)));
      case 8: {
        SayPrompt(number, input_.Rarely() ? input_.Hostile<int32_t>() : 1 + input_.Below(8), input_.Byte(), message);
        if (input_.Rarely()) message.mutable_prompts(0)->add_top_counts(input_.Hostile<int32_t>());
        return;
      }
      default:
        return message.mutable_hello()->set_target(input_.Text(9));
    }
  }

  template <typename Token>
  void LieOfToken(uint64_t number, Token& token) {
    const auto it = calls_.find(number);
    if constexpr (std::is_same_v<Token, internal::v1::CallToken>) token.set_call(number);
    const bool near = it != calls_.end() && !input_.Rarely();
    token.set_index(near ? it->second.next - input_.Below(2) : input_.Hostile<int32_t>());
    token.set_id(near && input_.Flag() ? TokenAt(it->second.start.job().key(), token.index())
                                       : input_.Hostile<int32_t>());
    token.set_finish(static_cast<internal::v1::Finish>(input_.Below(4)));
    if (near) ++it->second.next;
    if (input_.Rarely()) token.add_top_ids(input_.Byte());
    if (input_.Rarely()) token.add_top_logprobs(1);
  }

  void LieOfEnd(internal::v1::CallFinished& finished, uint64_t number) {
    finished.set_call(number);
    finished.set_kv_digest(input_.Text(4));
    finished.set_queue_ns(input_.Hostile<int64_t>());
    finished.set_compute_ns(input_.Hostile<int64_t>());
    finished.set_transfer_bytes(input_.Hostile<int64_t>());
    finished.set_steps(input_.Hostile<int64_t>());
  }

  FuzzInput& input_;
  const uint64_t number_;
  internal::v1::WorkerRole role_;
  uint64_t process_ = 1;
  std::string membership_;
  std::shared_ptr<FuzzedStream> stream_;
  Calls calls_;
  uint64_t last_start_ = 0;
  bool drains_ = false;
  // On this stream: it has said that it drains, and later that it serves after all, which no honest worker does.
  bool said_drain_ = false;
  bool serves_again_ = false;
  bool drain_accepted_ = false;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_TESTING_FUZZED_WORKER_H_
