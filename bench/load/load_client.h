// A server under load, as the generator sees it.
#ifndef BATON_BENCH_LOAD_LOAD_CLIENT_H_
#define BATON_BENCH_LOAD_LOAD_CLIENT_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"

namespace baton::bench {

struct LoadRequest {
  std::vector<int32_t> prompt;
  int output_tokens = 0;
};

class LoadClient {
 public:
  virtual ~LoadClient() = default;

  // Runs one greedy request to the end of its stream and returns how many tokens the server says it generated. End
  // tokens do not end the request. Calls `on_output` as output arrives, for each token or, where the server does not
  // number them, each piece of text. Blocks; any number of threads may call it at once.
  virtual absl::StatusOr<int> Generate(const LoadRequest& request, const std::function<void()>& on_output) = 0;

  // Ends the requests in flight, and those that begin later, with an error. Any thread may call it.
  virtual void CancelAll() = 0;
};

}  // namespace baton::bench

#endif  // BATON_BENCH_LOAD_LOAD_CLIENT_H_
