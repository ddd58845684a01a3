// What a request may ask for that a worker of a former version does not know: it would give other tokens without a
// word.
#ifndef BATON_ROUTER_JOB_FEATURES_H_
#define BATON_ROUTER_JOB_FEATURES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "common/sampling_params.h"

namespace baton::router {

// A set of features, one bit each.
using JobFeatures = uint8_t;

inline constexpr JobFeatures kFeatureOfBias = 1;
inline constexpr JobFeatures kFeatureOfGrammar = 2;
inline constexpr JobFeatures kFeatureOfPromptLogprobs = 4;
inline constexpr JobFeatures kFeatureOfEmbeddings = 8;
inline constexpr JobFeatures kAllJobFeatures =
    kFeatureOfBias | kFeatureOfGrammar | kFeatureOfPromptLogprobs | kFeatureOfEmbeddings;
inline constexpr size_t kJobFeatureSets = kAllJobFeatures + 1;

inline JobFeatures FeaturesOf(const SamplingParams& sampling) {
  return static_cast<JobFeatures>((sampling.logit_bias.empty() ? 0 : kFeatureOfBias) |
                                  (sampling.grammar.empty() ? 0 : kFeatureOfGrammar) |
                                  (sampling.prompt_logprobs < 0 ? 0 : kFeatureOfPromptLogprobs) |
                                  (sampling.pooling == Pooling::kNone ? 0 : kFeatureOfEmbeddings));
}

inline bool Covers(JobFeatures known, JobFeatures needed) { return (needed & ~known) == 0; }

// The fields that clients ask for them with.
inline std::string NamesOf(JobFeatures features) {
  std::vector<const char*> names;
  if ((features & kFeatureOfBias) != 0) names.push_back("logit_bias");
  if ((features & kFeatureOfGrammar) != 0) names.push_back("grammar");
  if ((features & kFeatureOfPromptLogprobs) != 0) names.push_back("prompt_logprobs");
  if ((features & kFeatureOfEmbeddings) != 0) names.push_back("embeddings");
  return absl::StrJoin(names, " or ");
}

}  // namespace baton::router

#endif  // BATON_ROUTER_JOB_FEATURES_H_
