// Any bytes as a GenerateRequest: refused with a reason, or a job that the workers can take.
#include <vector>

#include "common/check.h"
#include "common/random.h"
#include "router/generation_wire.h"
#include "router/request_reader.h"
#include "router/testing/tiny_served_model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace baton;
  static const router::ServedModel model = router::TestModel();
  static SeededRandom random(1);
  static const router::RequestReader reader(model, random);
  v1::GenerateRequest request;
  if (!request.ParseFromArray(data, static_cast<int>(size))) return 0;
  const absl::StatusOr<std::vector<router::PreparedJob>> prepared =
      reader.ReadAll(router::FromProto(std::move(request)));
  if (!prepared.ok()) {
    const grpc::Status status = router::ToClientStatus(prepared.status());
    BATON_CHECK(!status.error_message().empty());
    BATON_CHECK(status.error_code() == grpc::StatusCode::INVALID_ARGUMENT ||
                status.error_code() == grpc::StatusCode::NOT_FOUND ||
                status.error_code() == grpc::StatusCode::UNIMPLEMENTED)
        << status.error_message();
    return 0;
  }
  const router::JobSpec& job = prepared->front().job;
  BATON_CHECK(ValidateSamplingParams(job.sampling, model.config.vocab_size).ok());
  BATON_CHECK(!job.prompt.empty());
  BATON_CHECK(static_cast<int64_t>(job.prompt.size()) < model.config.context_length);
  for (int32_t id : job.prompt) BATON_CHECK(id >= 0 && id < model.config.vocab_size) << id;
  return 0;
}
