// What the simulated clients ask for.
#ifndef BATON_SIMULATOR_REQUEST_MIX_H_
#define BATON_SIMULATOR_REQUEST_MIX_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "router/job.h"
#include "simulator/simulation.h"

namespace baton::simulator {

struct MixOptions {
  // Some workers hold no more tokens than this; 0: all hold every prompt with its output. Prompts then are either far
  // below it or above it.
  int32_t small_worker_tokens = 0;
  // A steady flow of requests with a few large prompts among them, in place of a few requests of all kinds.
  bool flows = false;
  // So many of a hundred requests may have a long output.
  int long_outputs_percent = 20;
  // So many of a hundred have the prompt of an earlier one, whose digest must be the same.
  int repeats_percent = 0;
};

class RequestMix {
 public:
  explicit RequestMix(Simulation& sim);

  // The deadline is one of virtual time.
  std::shared_ptr<const router::JobSpec> DrawSpec(const MixOptions& options, TimeNs submitted);
  // A request that takes as many blocks as one may.
  std::shared_ptr<const router::JobSpec> DrawLargest(const MixOptions& options);

 private:
  std::vector<int32_t> DrawPrompt(const MixOptions& options);
  std::vector<int32_t> DrawPrompt(int64_t least, int64_t most);
  SamplingParams DrawSampling(const MixOptions& options, int32_t prompt_tokens);

  Simulation& sim_;
  // Beginnings that prompts share.
  std::vector<std::vector<int32_t>> bases_;
  // The last prompts, which others repeat.
  std::deque<std::vector<int32_t>> recent_;
};

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_REQUEST_MIX_H_
