// Loads servers that speak OpenAI's completions API over plain HTTP: llama-server, vLLM and others.
#ifndef BATON_BENCH_LOAD_OPENAI_CLIENT_H_
#define BATON_BENCH_LOAD_OPENAI_CLIENT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "bench/load/base_url.h"
#include "bench/load/load_client.h"

namespace baton::bench {

struct OpenAiClientOptions {
  BaseUrl base;
  std::string model;
  // Deadline of each request; 0 for none.
  int64_t timeout_ms = 0;
};

class OpenAiClient final : public LoadClient {
 public:
  explicit OpenAiClient(const OpenAiClientOptions& options) : options_(options) {}

  // The first model that GET models names. UNAVAILABLE when nothing listens.
  absl::StatusOr<std::string> FindModel();
  void set_model(const std::string& model) { options_.model = model; }

  // Opens one connection per request. The prompt is sent as token ids, which both llama-server and vLLM accept.
  absl::StatusOr<int> Generate(const LoadRequest& request, const std::function<void()>& on_output) override;

 private:
  OpenAiClientOptions options_;
};

}  // namespace baton::bench

#endif  // BATON_BENCH_LOAD_OPENAI_CLIENT_H_
