// The gRPC end of one Generate or Resume call: makes messages of a request's events. What the client cannot take at
// once is merged into its next message, so that a slow or bursty reader costs fewer messages.
#ifndef BATON_ROUTER_GENERATE_STREAM_H_
#define BATON_ROUTER_GENERATE_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "baton/v1/generation.grpc.pb.h"
#include "common/rpc/event_queue.h"
#include "router/generation.h"
#include "router/pending_output.h"
#include "router/unread_output.h"

namespace baton::router {

// Only Generate and Resume are asynchronous; they take and give raw messages.
using AsyncGenerate = v1::GenerationService::WithRawMethod_Generate<
    v1::GenerationService::WithRawMethod_Resume<v1::GenerationService::Service>>;
enum class StreamMethod : uint8_t { kGenerate, kResume };

// A stream of serialized v1::GenerateResponses. It keeps itself alive until gRPC is done with the call. Thread-safe;
// Write is called by one thread at a time. The call's operations are events of the router's loop, so that the end of a
// write, which follows each token, wakes no other thread.
//
// state    | holds                          | Write(delta)       | the write is done | Write(finished or failed)
// idle     | nothing                        | write it: writing  | -                 | end the call
// writing  | a message in flight, `pending_`| merge into pending | write pending, or | end the call once all is
//          |                                |                    | become idle       | written
// cut      | nothing: a write has failed    | drop it            | -                 | end the call
class GenerateStream final : public GenerationSink, private UnreadOutput::Stream {
 public:
  // Runs on the loop when the client cancels or is gone, also after the end of the job.
  using OnCancelCallback = std::function<void()>;
  // Runs on the loop when gRPC is done with the call. OK: its last message is on its way. CANCELLED: the client was
  // gone before. RESOURCE_EXHAUSTED: the client did not read, and was cut.
  using OnDoneCallback = std::function<void(const absl::Status& delivery)>;
  // Runs on the accepting thread when the stream is a client's call, whose request is message().
  using OnCallCallback = std::function<void(const std::shared_ptr<GenerateStream>&)>;

  // Waits for the next call of a client, unless the server ends before. `unread` and `events` outlive the call.
  template <typename Service>
  static void Await(Service& service, StreamMethod method, grpc::ServerCompletionQueue& accepting,
                    rpc::EventQueue& events, UnreadOutput& unread, OnCallCallback on_call) {
    const std::shared_ptr<GenerateStream> stream(new GenerateStream(unread, std::move(on_call)));
    stream->self_ = stream;
    stream->context_.AsyncNotifyWhenDone(&stream->ended_);
    if (method == StreamMethod::kGenerate) {
      service.RequestGenerate(&stream->context_, &stream->message_, &stream->call_, &events.queue(), &accepting,
                              &stream->accepted_);
    } else {
      service.RequestResume(&stream->context_, &stream->message_, &stream->call_, &events.queue(), &accepting,
                            &stream->accepted_);
    }
  }

  const grpc::ServerContext& context() const { return context_; }
  size_t message_bytes() const { return message_.Length(); }
  // Takes the request.
  grpc::ByteBuffer TakeMessage();
  // Once, before anybody else knows the stream. A client that is gone already shows in cancelled() alone.
  void SetOnCancel(OnCancelCallback on_cancel) ABSL_LOCKS_EXCLUDED(mutex_);
  // Once, before the first Write.
  void SetOnDone(OnDoneCallback on_done) { on_done_ = std::move(on_done); }

  bool Write(GenerationEvent event) override ABSL_LOCKS_EXCLUDED(mutex_);
  bool HasRoom(const GenerationDelta& delta) const override ABSL_LOCKS_EXCLUDED(mutex_);
  // The client cancelled or is gone; true before `on_cancel` runs.
  bool cancelled() const override { return cancelled_.load(); }

 private:
  GenerateStream(UnreadOutput& unread, OnCallCallback on_call) : unread_(unread), on_call_(std::move(on_call)) {}

  void OnAccepted(bool ok);
  void OnWriteDone(bool ok) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnFinished(bool ok) ABSL_LOCKS_EXCLUDED(mutex_);
  // gRPC's word that the call has ended, by the server's status or by the client.
  void OnCallDone(bool ok) ABSL_LOCKS_EXCLUDED(mutex_);
  void LeaveIfDone();

  void Break() override;
  absl::Status Delivery() const;

  // Only who asked for it gets a message that says so.
  bool Take(const GenerationAccepted& accepted) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Take(GenerationDelta delta) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Take(const GenerationFinished& finished) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Take(const GenerationFailed& failed) ABSL_LOCKS_EXCLUDED(mutex_);

  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WriteMessage(const grpc::ByteBuffer& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The first end counts.
  void End(grpc::Status status, std::optional<grpc::ByteBuffer> last_message) ABSL_LOCKS_EXCLUDED(mutex_);
  // Tells `unread_` how much the stream holds now.
  void CountHeld() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  grpc::ServerContext context_;
  grpc::ByteBuffer message_;
  grpc::ServerAsyncWriter<grpc::ByteBuffer> call_{&context_};
  rpc::OperationOf<GenerateStream> accepted_{this, &GenerateStream::OnAccepted};
  rpc::OperationOf<GenerateStream> write_done_{this, &GenerateStream::OnWriteDone};
  rpc::OperationOf<GenerateStream> finish_done_{this, &GenerateStream::OnFinished};
  rpc::OperationOf<GenerateStream> ended_{this, &GenerateStream::OnCallDone};
  UnreadOutput& unread_;
  const OnCallCallback on_call_;
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> broken_{false};

  mutable absl::Mutex mutex_;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool cut_ ABSL_GUARDED_BY(mutex_) = false;
  size_t in_flight_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // Goes before all output.
  std::optional<grpc::ByteBuffer> first_message_ ABSL_GUARDED_BY(mutex_);
  PendingOutput pending_ ABSL_GUARDED_BY(mutex_);
  size_t held_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // Set by the job's end.
  std::optional<grpc::Status> final_status_ ABSL_GUARDED_BY(mutex_);
  std::optional<grpc::ByteBuffer> last_message_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  OnCancelCallback on_cancel_ ABSL_GUARDED_BY(mutex_);
  // Set before anything is written, and used when all is.
  OnDoneCallback on_done_;
  // The loop's.
  bool finished_ = false;
  bool call_done_ = false;
  // Until the call is over.
  std::shared_ptr<GenerateStream> self_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_GENERATE_STREAM_H_
