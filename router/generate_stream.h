// The gRPC end of one Generate call: makes messages of a request's events. What the client cannot take at once is
// merged into its next message, so that a slow or bursty reader costs fewer messages.
#ifndef BATON_ROUTER_GENERATE_STREAM_H_
#define BATON_ROUTER_GENERATE_STREAM_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "router/generation.h"
#include "router/unread_output.h"

namespace baton::router {

// A stream of serialized v1::GenerateResponses. It keeps itself alive until gRPC is done with the call. Thread-safe;
// Write is called by one thread at a time.
//
// state    | holds                          | Write(delta)       | the write is done | Write(finished or failed)
// idle     | nothing                        | write it: writing  | -                 | end the call
// writing  | a message in flight, `pending_`| merge into pending | write pending, or | end the call once all is
//          |                                |                    | become idle       | written
// cut      | nothing: a write has failed    | drop it            | -                 | end the call
class GenerateStream final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                             public GenerationSink,
                             private UnreadOutput::Stream {
 public:
  // `on_cancel` runs on a gRPC thread when the client cancels or is gone, also after the end of the job.
  using OnCancelCallback = std::function<void(GenerateStream&)>;

  // `context` is the call's own; `unread` outlives the call.
  static std::shared_ptr<GenerateStream> Create(grpc::CallbackServerContext& context, UnreadOutput& unread,
                                                OnCancelCallback on_cancel);

  bool Write(GenerationEvent event) override ABSL_LOCKS_EXCLUDED(mutex_);
  // The client cancelled or is gone; true before `on_cancel` runs.
  bool cancelled() const override { return cancelled_.load(); }

  void OnWriteDone(bool ok) override ABSL_LOCKS_EXCLUDED(mutex_);
  void OnCancel() override;
  void OnDone() override;

 private:
  GenerateStream(grpc::CallbackServerContext& context, UnreadOutput& unread, OnCancelCallback on_cancel);

  void Break() override;

  // The API has no message that says so.
  bool Take(const GenerationAccepted&) { return true; }
  bool Take(GenerationDelta delta) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Take(const GenerationFinished& finished) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Take(const GenerationFailed& failed) ABSL_LOCKS_EXCLUDED(mutex_);

  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The first end counts.
  void End(grpc::Status status, std::optional<grpc::ByteBuffer> last_message) ABSL_LOCKS_EXCLUDED(mutex_);
  // Tells `unread_` how much the stream holds now.
  void CountHeld() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  grpc::CallbackServerContext& context_;
  UnreadOutput& unread_;
  const OnCancelCallback on_cancel_;
  std::atomic<bool> cancelled_{false};

  absl::Mutex mutex_;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool cut_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::ByteBuffer in_flight_ ABSL_GUARDED_BY(mutex_);
  GenerationDelta pending_ ABSL_GUARDED_BY(mutex_);
  size_t pending_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t held_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // Set by the job's end.
  std::optional<grpc::Status> final_status_ ABSL_GUARDED_BY(mutex_);
  std::optional<grpc::ByteBuffer> last_message_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  // Set before the call starts; only OnDone clears it.
  std::shared_ptr<GenerateStream> self_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_GENERATE_STREAM_H_
