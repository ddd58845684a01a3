// One Generate call: the job's tokens and end, written to its client.
#ifndef BATON_ROUTER_CLIENT_STREAM_LISTENER_H_
#define BATON_ROUTER_CLIENT_STREAM_LISTENER_H_

#include <memory>

#include "baton/v1/generation.pb.h"
#include "common/clock.h"
#include "common/rpc/server_stream.h"
#include "router/job_output.h"
#include "router/router_loop.h"

namespace baton::router {

// Of serialized GenerateResponses: the service takes and gives raw messages.
using GenerateStream = rpc::ServerStream<grpc::ByteBuffer>;

struct ClientCall {
  std::shared_ptr<GenerateStream> stream;
  std::shared_ptr<const JobSpec> job;
  // When the call reached the service.
  TimeNs arrived = 0;
};

// On the loop.
class ClientStreamListener final : public JobListener {
 public:
  // `clock` and `dispatcher` outlive it.
  ClientStreamListener(ClientCall call, JobOutput output, const Clock& clock, Dispatcher& dispatcher)
      : call_(std::move(call)), output_(std::move(output)), clock_(clock), dispatcher_(dispatcher) {}

  void OnToken(const OutputToken& token) override;
  void OnEnd(const JobResult& result) override;

 private:
  void Push(const v1::GenerateResponse& response);
  v1::Finished MakeFinished(const JobResult& result) const;

  const ClientCall call_;
  JobOutput output_;
  const Clock& clock_;
  Dispatcher& dispatcher_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_CLIENT_STREAM_LISTENER_H_
