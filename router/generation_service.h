// baton.v1.GenerationService: the adapter of clients that speak gRPC.
#ifndef BATON_ROUTER_GENERATION_SERVICE_H_
#define BATON_ROUTER_GENERATION_SERVICE_H_

#include "baton/v1/generation.grpc.pb.h"
#include "common/clock.h"
#include "common/random.h"
#include "router/generator.h"
#include "router/served_model.h"

namespace baton::router {

// Generate takes the raw message, because gRPC itself refuses one that it cannot parse (a string that is not UTF-8)
// without saying why.
using GenerationServiceBase = v1::GenerationService::WithRawCallbackMethod_Generate<
    v1::GenerationService::WithCallbackMethod_Tokenize<v1::GenerationService::WithCallbackMethod_Detokenize<
        v1::GenerationService::WithCallbackMethod_ListModels<v1::GenerationService::Service>>>>;

// Thread-safe. Requests are read and tokenized on gRPC's threads.
class GenerationService final : public GenerationServiceBase {
 public:
  // All references outlive the service; `random` is thread-safe.
  GenerationService(const ServedModel& model, const Clock& clock, RandomSource& random, Generator& generator)
      : model_(model), clock_(clock), random_(random), generator_(generator) {}

  grpc::ServerWriteReactor<grpc::ByteBuffer>* Generate(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* message) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context, const v1::TokenizeRequest* request,
                                     v1::TokenizeResponse* response) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context, const v1::DetokenizeRequest* request,
                                       v1::DetokenizeResponse* response) override;
  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context, const v1::ListModelsRequest* request,
                                       v1::ListModelsResponse* response) override;

 private:
  const ServedModel& model_;
  const Clock& clock_;
  RandomSource& random_;
  Generator& generator_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_GENERATION_SERVICE_H_
