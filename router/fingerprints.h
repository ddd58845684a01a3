// What the router reads in the fingerprints of workers, which it otherwise only compares.
#ifndef BATON_ROUTER_FINGERPRINTS_H_
#define BATON_ROUTER_FINGERPRINTS_H_

#include <string_view>

namespace baton::router {

// The part of a fingerprint "exact-v2/kv:30x3x64-bf16-v1/weights:.../probe:..." that says which weights its workers
// have, and to which precision they are rounded: "weights:...". Empty for a fingerprint without one.
std::string_view WeightsOf(std::string_view fingerprint);

// Whether workers of both compute the same model, in whatever way: an output of one is a beginning that the other can
// go on from. All members of a router have its vocabulary.
bool HaveSameWeights(std::string_view a, std::string_view b);

}  // namespace baton::router

#endif  // BATON_ROUTER_FINGERPRINTS_H_
