// Which tokens of a vocabulary may come next in outputs of one grammar. What was computed for one sequence serves all
// others with the same grammar.
#ifndef BATON_GRAMMAR_TOKEN_MASKS_H_
#define BATON_GRAMMAR_TOKEN_MASKS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "grammar/grammar.h"
#include "grammar/grammar_limits.h"
#include "grammar/parse_states.h"
#include "grammar/vocabulary.h"

namespace baton::grammar {

struct TokenMask {
  // One bit for each token, the lowest bit of the first word for token 0: set where the token is legal.
  absl::Span<const uint64_t> words;
  // The legal token where there is just one, else -1.
  int32_t only = -1;
};

// The masks and the states of one grammar over one vocabulary, for GrammarMatcher. What it keeps is bounded: beyond the
// bound it is dropped and computed again, which changes no answer. One thread.
class TokenMasks {
 public:
  TokenMasks(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const Vocabulary> vocabulary,
             size_t max_bytes = kMaxMaskCacheBytes);
  TokenMasks(const TokenMasks&) = delete;
  TokenMasks& operator=(const TokenMasks&) = delete;

  const std::shared_ptr<const Grammar>& grammar() const { return states_.grammar(); }
  const Vocabulary& vocabulary() const { return *vocabulary_; }
  // GrammarMatcher::FindMask gives up when this is true, and so may Accept of a token that ends the output. mask() is
  // not to be called any more then.
  void GiveUpWhen(std::function<bool()> is_unwanted) { states_.SpendWhen(std::move(is_unwanted)); }
  size_t MemoryBytes() const { return states_.MemoryBytes() + mask_bytes_; }
  // How many masks were computed, how many walks through the vocabulary were shortened by what another had found, and
  // how often what was kept was dropped.
  int64_t num_computed() const { return num_computed_; }
  int64_t num_shortened() const { return num_shortened_; }
  int64_t num_drops() const { return num_drops_; }

 private:
  friend class GrammarMatcher;

  // The configuration of a matcher, under a number that stays when configurations are dropped.
  struct Place {
    int32_t configuration;
    bool has_ended;  // An end-of-sequence token was accepted.
    bool is_free;
  };
  struct Mask {
    std::vector<uint64_t> words;
    int32_t only = -1;
    bool is_stuck = false;
  };

  int32_t OpenPlace();
  int32_t CopyPlace(int32_t place);
  void ClosePlace(int32_t place) { places_[place].is_free = true; }
  bool Accept(int32_t place, int32_t token);
  bool is_complete(int32_t place) const;
  // False also where that is given up.
  bool IsStuck(int32_t place);
  const Mask& MaskOf(int32_t place);
  // Takes what finding it costs from `steps`, as ParseStates counts them. Null when that is more than there are: what
  // was found on the way is kept, and the next call goes on from there.
  const Mask* TryMaskOf(int32_t place, int64_t& steps);

  // The part of a mask that does not depend on the context of a configuration.
  struct Common {
    std::vector<uint64_t> words;
    // Below these nodes of the vocabulary's tree the context decides.
    std::vector<int32_t> open_nodes;
    int32_t height = 0;  // As in ParseStates, of all that was passed.
  };

  // What a walk through the whole vocabulary found, for walks from configurations that are alike.
  struct Reference {
    int32_t configuration;
    const std::vector<uint64_t>* words;
    const Common* common;  // Null: all of the mask.
  };

  // What follows stops where the steps are spent, and what it gives is not to be used then.

  // Sets `is_reference` where the mask was walked in full.
  Mask Compute(int32_t place, bool* is_reference);
  // The words of a mask from those that its configuration has in common with others. False when it has none.
  bool ComputeFromCommon(int32_t place, std::vector<uint64_t>* words);
  // Null when the steps are spent.
  const Common* CommonOf(int32_t configuration);
  // Finds the words of path_[0], of tokens of any length. With `common` it stays where the context does not matter.
  // False when it has left out what a reference knew.
  bool WalkAll(std::vector<uint64_t>* words, Common* common = nullptr);
  // Takes over what has at most as many bytes as the best reference and path_[0] have in common. Returns these bytes, 0
  // when no reference is good enough.
  int32_t TakeOver(std::vector<uint64_t>* words, Common* common);
  void Refer(const Reference& reference);
  // Sets the bits of the tokens below these nodes, all of which begin with path_[depth of the first - 1]. Tokens of up
  // to `known_bytes` are known already.
  void Walk(size_t begin, size_t end, int32_t known_bytes, std::vector<uint64_t>* words, Common* common = nullptr);
  // Sets path_ for the tokens below a node.
  void FollowTo(int32_t node);
  void SetEos(std::vector<uint64_t>* words) const;
  int32_t Keep(Mask mask);
  // Forgets masks and configurations, but for those of the places and the first ones of path_.
  void Drop(size_t path_length);
  void DropMasks();

  const std::shared_ptr<const Vocabulary> vocabulary_;
  const size_t max_bytes_;
  ParseStates states_;
  std::vector<Place> places_;
  std::deque<Mask> masks_;  // Without repeats.
  absl::flat_hash_map<size_t, std::vector<int32_t>> masks_by_hash_;
  std::vector<int32_t> mask_of_;                                     // By configuration, -1: not computed.
  absl::flat_hash_map<int32_t, std::unique_ptr<Common>> common_of_;  // By configuration without context.
  std::vector<Reference> references_;                                // At most kMaxMaskReferences.
  size_t next_reference_ = 0;                                        // The one that is replaced next.
  Mask ended_;                                                       // After the end of an output.
  size_t mask_bytes_ = 0;
  // The configurations along the branch of the vocabulary's tree that is being walked. The first is the mask's own.
  std::vector<int32_t> path_;
  int64_t num_computed_ = 0;
  int64_t num_shortened_ = 0;
  int64_t num_drops_ = 0;
};

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_TOKEN_MASKS_H_
