// Stands between a request and its adapter's sink: passes every event on, and keeps a record of the request, which the
// observers get when the request is over. A call that follows the job of an earlier one is no request of its own, so
// they hear nothing of it; the metrics of the journal count it.
#ifndef BATON_ROUTER_OBSERVED_REQUEST_H_
#define BATON_ROUTER_OBSERVED_REQUEST_H_

#include <memory>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "common/clock.h"
#include "router/generation.h"
#include "router/request_record.h"

namespace baton::router {

// What the requests of a router are observed with. All of it outlives the requests.
struct RequestObservers {
  const Clock& clock;
  std::vector<RequestObserver*> observers;
  // Keeps the text of prompts and outputs for them.
  bool records_content = false;
};

// Events come from one thread at a time; OnDelivered follows the last one, from any thread.
class ObservedRequest final : public GenerationSink {
 public:
  // `observers` and what it names outlive the request.
  ObservedRequest(const RequestObservers& observers, std::shared_ptr<GenerationSink> sink, const JobId& id,
                  RequestTrace trace);

  // When the request arrived: now, when this was made.
  TimeNs arrived() const { return record_.arrived; }
  const RequestTrace& trace() const { return record_.trace; }
  // Before the first event: the request has been read.
  void OnRead(const GenerationRequest& request);
  // The adapter has done with the request: its last message is handed to the network, or `delivery` says why not.
  void OnDelivered(const absl::Status& delivery);

  bool Write(GenerationEvent event) override;
  bool HasRoom(const GenerationDelta& delta) const override { return sink_->HasRoom(delta); }
  bool is_behind() const override { return sink_->is_behind(); }
  bool cancelled() const override { return sink_->cancelled(); }

 private:
  void Note(const GenerationAccepted& accepted);
  void Note(const GenerationDelta& delta);
  void Note(const GenerationFinished& finished);
  void Note(const GenerationFailed& failed);
  int64_t MeanItlNs() const;
  void NoteJob(const std::shared_ptr<const JobResult>& job);

  const RequestObservers& observers_;
  const std::shared_ptr<GenerationSink> sink_;
  RequestRecord record_;
  // An earlier call's job.
  bool follows_ = false;
  // When the tokens of a choice were written.
  struct Choice {
    TimeNs first_token = 0;
    TimeNs last_token = 0;
  };
  // By index, as far as they have tokens; most requests have one.
  absl::InlinedVector<Choice, 1> choices_;
  int32_t tokens_ = 0;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_OBSERVED_REQUEST_H_
