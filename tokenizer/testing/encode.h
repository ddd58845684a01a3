// Encoding in tests, where it must not fail.
#ifndef BATON_TOKENIZER_TESTING_ENCODE_H_
#define BATON_TOKENIZER_TESTING_ENCODE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "gtest/gtest.h"
#include "tokenizer/tokenizer.h"

namespace baton::tokenizer {

using Ids = std::vector<int32_t>;

inline std::unique_ptr<Tokenizer> MakeTokenizer(const modelfile::TokenizerSpec& spec) {
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::Create(spec);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

inline Ids EncodeOk(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options = {}) {
  absl::StatusOr<Ids> ids = tokenizer.Encode(text, options);
  EXPECT_TRUE(ids.ok()) << ids.status();
  return ids.ok() ? *ids : Ids{};
}

// A mebibyte of `unit` must decode to itself, and encoding it must not take quadratic time.
inline void ExpectEncodesAMebibyteFast(const Tokenizer& tokenizer, std::string_view unit) {
  std::string text;
  while (text.size() < (1u << 20)) text += unit;
  const TimeNs start = MonotonicClock().Now();
  const Ids ids = EncodeOk(tokenizer, text);
  // A quadratic step would take minutes. The bound allows for sanitizers, which cost a factor of ten.
  EXPECT_LT(MonotonicClock().Now() - start, 20 * kNsPerSecond) << unit;
  EXPECT_EQ(*tokenizer.Decode(ids, false), text);
}

}  // namespace baton::tokenizer

#endif  // BATON_TOKENIZER_TESTING_ENCODE_H_
