// Client requests, checked and turned into jobs. All limits on what a client may ask for are enforced here.
#ifndef BATON_ROUTER_REQUEST_READER_H_
#define BATON_ROUTER_REQUEST_READER_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <string>
#include <vector>

#include "baton/v1/generation.pb.h"
#include "common/random.h"
#include "router/job.h"
#include "router/served_model.h"

namespace baton::router {

// A request that can be dispatched, once `job.id`, `job.deadline` and `job.traceparent` are filled in.
struct PreparedJob {
  JobSpec job;
  std::vector<std::string> stop;
};

// Pure but for the seed that it draws when the request has none. Thread-safe.
class RequestReader {
 public:
  // Both outlive the reader; `random` is thread-safe.
  RequestReader(const ServedModel& model, RandomSource& random) : model_(model), random_(random) {}

  // INVALID_ARGUMENT with a BadRequest that names the field; NOT_FOUND for another model.
  grpc::Status Read(const v1::GenerateRequest& request, PreparedJob& prepared) const;
  grpc::Status Read(const v1::TokenizeRequest& request, std::vector<int32_t>& token_ids) const;
  grpc::Status Read(const v1::DetokenizeRequest& request, std::string& text) const;

 private:
  grpc::Status CheckModel(const std::string& model) const;
  grpc::Status EncodeText(const std::string& text, std::vector<int32_t>& ids) const;
  grpc::Status EncodeChat(const v1::ChatPrompt& chat, bool add_generation_prompt, std::vector<int32_t>& ids) const;
  grpc::Status ReadPrompt(const v1::GenerateRequest& request, std::vector<int32_t>& ids) const;
  grpc::Status ReadSampling(const v1::SamplingParams& proto, SamplingParams& params) const;

  const ServedModel& model_;
  RandomSource& random_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_REQUEST_READER_H_
