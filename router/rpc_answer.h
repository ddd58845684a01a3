// Takes the events of one request from the router and gives a gRPC call its messages. What the client cannot take at
// once is merged into its next message, so that a slow or bursty reader costs fewer messages.
#ifndef BATON_ROUTER_RPC_ANSWER_H_
#define BATON_ROUTER_RPC_ANSWER_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "router/answer_form.h"
#include "router/generation.h"
#include "router/pending_output.h"
#include "router/unread_output.h"

namespace baton::router {

// Thread-safe; events come from one thread at a time.
//
// state   | Write(delta)               | Write(finished or failed) | Drop
// open    | keep it, and tell the call | tell the call: ended      | dropped
// ended   | -                          | -                         | the end alone is left
// dropped | drop it                    | tell the call: ended      | -
class RpcAnswer final : public GenerationSink,
                        private UnreadOutput::Stream,
                        public std::enable_shared_from_this<RpcAnswer> {
 public:
  // The gRPC call on which the answer goes out. It lives at least as long as the answer.
  class Call {
   public:
    virtual ~Call() = default;
    // Next() has something where it had nothing before. Comes from any thread, which holds no lock of the answer's.
    virtual void OnPiece(RpcAnswer& answer) = 0;
    // Ends the call at once because its client does not read. Takes no lock.
    virtual void Cut() = 0;
  };
  // Runs on the loop when the client cancels or is gone, also after the end of the job.
  using OnCancelCallback = std::function<void()>;
  // Runs when the call has done with the answer. OK: its last message is on its way. CANCELLED: the client was gone
  // before. RESOURCE_EXHAUSTED: the client did not read, and was cut.
  using OnDoneCallback = std::function<void(const absl::Status& delivery)>;
  struct Piece {
    std::optional<grpc::ByteBuffer> message;
    // Set with the last piece.
    std::optional<grpc::Status> end;
  };

  // `unread` outlives the answer's call. `form` is that of a request which cannot be read.
  RpcAnswer(std::shared_ptr<Call> call, UnreadOutput& unread, std::unique_ptr<AnswerForm> form)
      : call_(std::move(call)), unread_(unread), form_(std::move(form)) {
    unread_.Add(*this);
  }

  // For the adapter. Each is called at most once, before the first event; SetForm may be followed by a failure only.
  void SetOnCancel(OnCancelCallback on_cancel) ABSL_LOCKS_EXCLUDED(mutex_);
  void SetOnDone(OnDoneCallback on_done) { on_done_ = std::move(on_done); }
  void SetForm(std::unique_ptr<AnswerForm> form) ABSL_LOCKS_EXCLUDED(mutex_);

  bool Write(GenerationEvent event) override ABSL_LOCKS_EXCLUDED(mutex_);
  bool HasRoom(const GenerationDelta& delta) const override ABSL_LOCKS_EXCLUDED(mutex_);
  bool is_behind() const override ABSL_LOCKS_EXCLUDED(mutex_);
  // The client cancelled or is gone; true before `on_cancel` runs.
  bool cancelled() const override { return cancelled_.load(); }

  // For the call. What is to be written next; empty when there is nothing now. Asked only while none of the answer's
  // messages is being written.
  Piece Next() ABSL_LOCKS_EXCLUDED(mutex_);
  // The last message of Next() has been written, and Next() is not asked at once, which says the same.
  void OnWritten() ABSL_LOCKS_EXCLUDED(mutex_);
  // Nothing can be written any more. Next() still gives the end.
  void Drop() ABSL_LOCKS_EXCLUDED(mutex_);
  // The client cancelled or is gone. Comes on the loop.
  void Cancel() ABSL_LOCKS_EXCLUDED(mutex_);
  // The call has done with the answer, which has ended. It is the last thing that the call does with it.
  void Leave() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Outcome = std::variant<GenerationFinished, absl::Status>;

  void Break() override;
  absl::Status Delivery() const ABSL_LOCKS_EXCLUDED(mutex_);

  bool Take(const GenerationAccepted& accepted) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Take(GenerationDelta delta) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Take(GenerationFinished finished) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Take(GenerationFailed failed) ABSL_LOCKS_EXCLUDED(mutex_);
  // The first end counts.
  void End(Outcome outcome) ABSL_LOCKS_EXCLUDED(mutex_);
  AnswerEnd MakeEnd() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The next of the messages with which the answer ends; with the last one comes the status.
  Piece NextOfEnd() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tells `unread_` how much the answer holds now.
  void CountHeld() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<Call> call_;
  UnreadOutput& unread_;
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> broken_{false};
  // Set before anything is written, and used when all is.
  OnDoneCallback on_done_;

  mutable absl::Mutex mutex_;
  std::unique_ptr<AnswerForm> form_ ABSL_GUARDED_BY(mutex_);
  OnCancelCallback on_cancel_ ABSL_GUARDED_BY(mutex_);
  bool dropped_ ABSL_GUARDED_BY(mutex_) = false;
  // Goes before all output.
  std::optional<grpc::ByteBuffer> first_message_ ABSL_GUARDED_BY(mutex_);
  PendingOutput pending_ ABSL_GUARDED_BY(mutex_);
  size_t in_flight_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t held_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<Outcome> outcome_ ABSL_GUARDED_BY(mutex_);
  // What Next() has not given of the end, which is made when it is asked for.
  std::optional<AnswerEnd> end_ ABSL_GUARDED_BY(mutex_);
  size_t end_messages_given_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t end_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // Next() has given all of it.
  bool end_given_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_RPC_ANSWER_H_
