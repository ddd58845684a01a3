// A job that outlives its client's calls, as memory and journal keep it.
#ifndef BATON_ROUTER_KEPT_JOB_H_
#define BATON_ROUTER_KEPT_JOB_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/digest.h"
#include "common/ids.h"
#include "common/output_token.h"
#include "router/generation.h"
#include "router/job.h"

namespace baton::router {

// What was asked for, and by whom. Immutable.
struct KeptRequest {
  std::shared_ptr<const JobSpec> job;
  // The served model's name.
  std::string model;
  std::vector<std::string> stop;
  // The tenant that an adapter has verified; empty where clients need no key.
  std::string owner;
  // Empty: only the job's id leads to it.
  std::string idempotency_key;
  // GenerationRequest::body of the call that began it.
  Digest128 body;
};

struct KeptOutput {
  OutputToken token;
  // So many bytes of the text are certain with it.
  uint32_t text_end = 0;
};

// What the job has given.
struct KeptResult {
  std::vector<KeptOutput> outputs;
  std::string text;
  // Once it has ended well. The journal does not keep `finished.job`.
  GenerationFinished finished;
};

// In place of the fingerprint of a job whose outputs are of workers of several: as the journal has no outputs, no other
// router can give exactly these. It is no worker's.
inline constexpr char kSeveralFingerprints[] = "several";

// A job as the journal had it when the router started.
struct JournaledJob {
  JobId id;
  KeptRequest request;
  // How many routers have run it before this one.
  uint32_t runs = 0;
  // The fingerprint of the workers that gave its outputs, or kSeveralFingerprints. Empty: nobody has seen any.
  std::string fingerprint;
  // Unless it still has to run.
  std::shared_ptr<KeptResult> result;
  // By the wall clock; 0 without a result.
  int64_t ended_unix_ms = 0;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_KEPT_JOB_H_
