// What outlives the router's process of the jobs that are kept. journal_writer.h is the implementation.
#ifndef BATON_ROUTER_JOURNAL_H_
#define BATON_ROUTER_JOURNAL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/ids.h"
#include "router/kept_job.h"

namespace baton::router {

// Writes in the order of the calls, which come from one thread and must not block.
class Journal {
 public:
  // Runs once, on a thread of the journal's: the change outlives the process now, or cannot be written.
  using OnWritten = std::function<void(const absl::Status&)>;

  virtual ~Journal() = default;
  // False: too many new jobs wait to be written.
  virtual bool HasRoom() const = 0;
  virtual void Write(std::shared_ptr<const KeptRequest> request, OnWritten on_written) = 0;
  virtual void WriteFingerprint(const JobId& id, std::string fingerprint, OnWritten on_written) = 0;
  // Clients that wait for a result have it already, whether it can be written or not. `ended_unix_ms` is by the wall
  // clock.
  virtual void WriteResult(const JobId& id, std::shared_ptr<const KeptResult> result, int64_t ended_unix_ms) = 0;
  virtual void Erase(const JobId& id) = 0;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_JOURNAL_H_
