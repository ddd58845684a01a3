// Takes the events of one request from the router and gives the server the body of its response, as a stream or as a
// whole. The router's loop only appends what comes; the server's thread makes text of it once the client has taken
// what was before, so that a slow or bursty reader costs fewer and larger pieces.
#ifndef BATON_GATEWAY_ANSWER_BODY_H_
#define BATON_GATEWAY_ANSWER_BODY_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <variant>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "gateway/answer_writer.h"
#include "gateway/http_types.h"
#include "router/generation.h"
#include "router/pending_output.h"
#include "router/unread_output.h"

namespace baton::gateway {

// Events come from one thread at a time. The response begins with the first output or the end, whichever comes first,
// so that a request which fails before has a status of its own.
//
// | state | Write(delta) | Write(finished) | Write(failed) |
// |---|---|---|---|
// | quiet, of a stream | begin the response: open | the same, ending | respond with the error: over |
// | quiet, of a whole answer | keep it | begin the response: ending | respond with the error: over |
// | open | keep it, wake the server | ending | ending |
// | ending, over | - | - | - |
class AnswerBody final : public router::GenerationSink,
                         public BodySource,
                         private router::UnreadOutput::Stream,
                         public std::enable_shared_from_this<AnswerBody> {
 public:
  // `unread` outlives the exchange. The response has `headers`, whatever it says; `make_error` writes what it says when
  // the request fails before.
  AnswerBody(std::shared_ptr<HttpExchange> exchange, router::UnreadOutput& unread, ErrorMaker make_error,
             HttpHeaders headers = {})
      : exchange_(std::move(exchange)), unread_(unread), make_error_(make_error), headers_(std::move(headers)) {
    unread_.Add(*this);
  }

  // Once, before the first event but a failure: how the answer is written. A request that cannot be read has none.
  void SetWriter(std::unique_ptr<AnswerWriter> writer, bool is_stream) ABSL_LOCKS_EXCLUDED(mutex_);
  // The server has done with the exchange. From now on the events are dropped. `on_over` runs when the last event has
  // come too: now, or on the thread that writes that event.
  void OnExchangeDone(std::function<void()> on_over) ABSL_LOCKS_EXCLUDED(mutex_);

  bool Write(router::GenerationEvent event) override ABSL_LOCKS_EXCLUDED(mutex_);
  bool HasRoom(const router::GenerationDelta& delta) const override ABSL_LOCKS_EXCLUDED(mutex_);
  bool is_behind() const override ABSL_LOCKS_EXCLUDED(mutex_);
  bool cancelled() const override { return cancelled_.load(); }

  Piece Next() override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Break() override { exchange_->Abort(); }

  using AnswerEnd = std::variant<router::GenerationFinished, absl::Status>;

  bool Take(const router::GenerationAccepted& accepted);
  bool Take(router::GenerationDelta delta) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Take(router::GenerationFinished finished) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Take(router::GenerationFailed failed) ABSL_LOCKS_EXCLUDED(mutex_);
  void End(AnswerEnd end) ABSL_LOCKS_EXCLUDED(mutex_);

  // Begins the response, or says that there is more of it.
  void Tell() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tells `unread_` how much is held now, where `held_bytes` were before.
  void CountHeld(size_t held_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<HttpExchange> exchange_;
  router::UnreadOutput& unread_;
  const ErrorMaker make_error_;
  const HttpHeaders headers_;
  std::atomic<bool> cancelled_{false};
  // Constant since SetWriter. The writer is the server's thread's once the response has begun.
  std::unique_ptr<AnswerWriter> writer_;
  bool is_stream_ = false;

  mutable absl::Mutex mutex_;
  // The response has.
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  router::PendingOutput pending_ ABSL_GUARDED_BY(mutex_);
  std::optional<AnswerEnd> end_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> on_over_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_ANSWER_BODY_H_
