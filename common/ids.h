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
// Drawn when a process starts. The same address with another incarnation is another process.
using Incarnation = Id128;
// One stay of a worker with a router, which draws it when the worker joins. The worker and the router alone know it, so
// that it proves who speaks: it appears in no status, log or error.
using MembershipId = Id128;

// One of the outputs that a job asks for, from 0. Each is placed, computed and streamed by itself.
struct ChoiceKey {
  JobId job;
  uint32_t choice = 0;

  // The job's hex digits; with ":" and the choice behind them unless it is the first.
  std::string ToString() const;
  friend bool operator==(const ChoiceKey&, const ChoiceKey&) = default;
  friend auto operator<=>(const ChoiceKey&, const ChoiceKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const ChoiceKey& key) {
    return H::combine(std::move(h), key.job, key.choice);
  }
};

// One try at a choice. A retry or a new placement is a new attempt of the same choice.
struct JobKey {
  JobId job;
  uint32_t attempt = 0;
  uint32_t choice = 0;

  ChoiceKey choice_key() const { return {job, choice}; }
  std::string ToString() const;
  friend bool operator==(const JobKey&, const JobKey&) = default;
  friend auto operator<=>(const JobKey&, const JobKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const JobKey& key) {
    return H::combine(std::move(h), key.job, key.attempt, key.choice);
  }
};

}  // namespace baton

#endif  // BATON_COMMON_IDS_H_
