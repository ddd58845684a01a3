// Names of processes, jobs and attempts. Every message between processes carries them, so that a late or duplicate one
// is told apart from a current one.
#ifndef BATON_COMMON_IDS_H_
#define BATON_COMMON_IDS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"

namespace baton {

// 128 random bits. Zero means "none".
struct Id128 {
  uint64_t high = 0;
  uint64_t low = 0;

  bool is_zero() const { return high == 0 && low == 0; }
  // 32 lower-case hex digits.
  std::string ToHex() const;
  static absl::StatusOr<Id128> FromHex(std::string_view hex);

  friend bool operator==(const Id128&, const Id128&) = default;
  friend auto operator<=>(const Id128&, const Id128&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Id128& id) {
    return H::combine(std::move(h), id.high, id.low);
  }
};

// One client request, minted by the router.
using JobId = Id128;
// Drawn when a process starts: the same address with another incarnation is another process.
using Incarnation = Id128;

// One try at a job. A retry or a new placement is a new attempt of the same job.
struct JobKey {
  JobId job;
  uint32_t attempt = 0;

  std::string ToString() const;
  friend bool operator==(const JobKey&, const JobKey&) = default;
  friend auto operator<=>(const JobKey&, const JobKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const JobKey& key) {
    return H::combine(std::move(h), key.job, key.attempt);
  }
};

}  // namespace baton

#endif  // BATON_COMMON_IDS_H_
