// Asks a router for its status again and again, without blocking.
#ifndef BATON_CLI_STATUS_PROBE_H_
#define BATON_CLI_STATUS_PROBE_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "baton/v1/admin.grpc.pb.h"
#include "common/clock.h"

namespace baton::cli {

// Used by one thread.
class StatusProbe {
 public:
  explicit StatusProbe(const std::string& target);
  ~StatusProbe();
  StatusProbe(const StatusProbe&) = delete;
  StatusProbe& operator=(const StatusProbe&) = delete;

  // Reads the answer that has come since, and asks again `interval_ms` after the last question.
  void Poll(int64_t interval_ms);
  // Whether a question has been answered, or has failed, yet.
  bool has_result() const { return has_result_; }
  // What the last question brought; none when the router did not answer.
  const std::optional<v1::GetStatusResponse>& answer() const { return answer_; }
  // Whether the last answer names a worker of this pid.
  bool Lists(pid_t pid) const;

 private:
  struct Call;

  const std::unique_ptr<v1::AdminService::Stub> stub_;
  std::unique_ptr<Call> call_;
  TimeNs next_ask_ = 0;
  bool has_result_ = false;
  std::optional<v1::GetStatusResponse> answer_;
};

}  // namespace baton::cli

#endif  // BATON_CLI_STATUS_PROBE_H_
