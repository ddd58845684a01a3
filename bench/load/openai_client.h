// Loads servers that speak OpenAI's completions API over plain HTTP: llama-server, vLLM and others.
#ifndef BATON_BENCH_LOAD_OPENAI_CLIENT_H_
#define BATON_BENCH_LOAD_OPENAI_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
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
  explicit OpenAiClient(const OpenAiClientOptions& options);
  ~OpenAiClient() override;

  // The first model that GET models names. UNAVAILABLE when nothing listens.
  absl::StatusOr<std::string> FindModel();
  void set_model(const std::string& model) { options_.model = model; }

  // Uses a connection again that no other request uses, where the server keeps it open, as the client libraries of
  // these servers do. The prompt is sent as token ids, which both llama-server and vLLM accept.
  absl::StatusOr<int> Generate(const LoadRequest& request, const std::function<void()>& on_output) override;
  void CancelAll() override;

 private:
  struct Connection;
  // One request and its answer, over a connection that no other one uses meanwhile.
  class Exchange;

  OpenAiClientOptions options_;
  absl::Mutex mutex_;
  bool is_cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<Exchange*> exchanges_ ABSL_GUARDED_BY(mutex_);
  // As many as there were requests at once.
  std::vector<std::unique_ptr<Connection>> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton::bench

#endif  // BATON_BENCH_LOAD_OPENAI_CLIENT_H_
