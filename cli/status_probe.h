// Asks a router for its status again and again, without blocking.
#ifndef BATON_CLI_STATUS_PROBE_H_
#define BATON_CLI_STATUS_PROBE_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "baton/v1/admin.grpc.pb.h"
#include "common/clock.h"
#include "common/rpc/credentials.h"

namespace baton::cli {

// Used by one thread.
class StatusProbe {
 public:
  // Null `credentials`: plain text; others outlive the probe.
  explicit StatusProbe(std::string target, rpc::Credentials* credentials = nullptr);
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

  // New certificates need a new channel.
  void Connect();

  const std::string target_;
  rpc::Credentials* const credentials_;
  int64_t generation_ = 0;
  std::unique_ptr<v1::AdminService::Stub> stub_;
  std::unique_ptr<Call> call_;
  TimeNs next_ask_ = 0;
  bool has_result_ = false;
  std::optional<v1::GetStatusResponse> answer_;
};

}  // namespace baton::cli

#endif  // BATON_CLI_STATUS_PROBE_H_
