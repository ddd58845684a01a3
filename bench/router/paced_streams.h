// The clients of a router bench: streams that stay open, and note how long each token took from its stub worker.
#ifndef BATON_BENCH_ROUTER_PACED_STREAMS_H_
#define BATON_BENCH_ROUTER_PACED_STREAMS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bench/router/token_clock.h"

namespace baton::bench {

struct PacedStreamsOptions {
  // HOST:PORT of the router.
  std::string target;
  int streams_per_connection = 100;
  // More than will be sent: the bench ends the streams.
  int32_t max_tokens = 8000;
};

class PacedStream;

class PacedStreams {
 public:
  // One stream for each of the clock's, which outlives the streams.
  PacedStreams(const PacedStreamsOptions& options, TokenClock& token_clock);
  ~PacedStreams();

  // Returns when every stream has its first token; the error of the first stream that failed otherwise.
  absl::Status Start();
  // Latencies are kept while recording is on.
  void SetRecording(bool on) { recording_ = on; }
  // Cancels all streams and waits for their ends.
  void Stop();
  // After Stop. In milliseconds, from the stub worker's send to the client's callback.
  std::vector<double> LatenciesMs() const;
  int64_t tokens() const { return tokens_; }

 private:
  friend class PacedStream;

  // Returns when this many streams have their first token, or with the error of a stream that failed.
  absl::Status AwaitFlowing(int streams);

  const PacedStreamsOptions options_;
  TokenClock& token_clock_;
  std::atomic<bool> recording_{false};
  std::atomic<int64_t> tokens_{0};
  std::atomic<int> flowing_{0};
  std::vector<std::unique_ptr<PacedStream>> streams_;
};

}  // namespace baton::bench

#endif  // BATON_BENCH_ROUTER_PACED_STREAMS_H_
