#include "gateway/openai_logprobs.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gateway/json_writing.h"

namespace baton::gateway {
namespace {

// The decoded token is what the token is alone.
std::string VllmEntry(const tokenizer::Tokenizer& tokenizer, const TopLogprob& each, std::optional<int32_t> rank) {
  return absl::StrCat(R"(")", each.token, R"(":{"logprob":)", LogprobText(each.logprob), R"(,"rank":)",
                      rank.has_value() ? absl::StrCat(*rank) : "null", R"(,"decoded_token":)",
                      TokenTextOf(tokenizer, each.token), "}");
}

std::string BytesText(const std::string& bytes) {
  std::string text = "[";
  for (const char byte : bytes) absl::StrAppend(&text, text.size() > 1 ? "," : "", static_cast<uint8_t>(byte));
  return text + "]";
}

}  // namespace

std::string LogprobText(float logprob) {
  return std::isnan(logprob) ? "null" : absl::StrFormat("%.6g", std::max(logprob, -9999.0F));
}

std::string TokenTextOf(const tokenizer::Tokenizer& tokenizer, int32_t id) {
  return JsonString(tokenizer.TokenText(id));
}

std::string LogprobEntries(const tokenizer::Tokenizer& tokenizer, const std::vector<OutputToken>& tokens) {
  const auto entry = [&tokenizer](int32_t id, float logprob) {
    return absl::StrCat(R"({"token":)", TokenTextOf(tokenizer, id), R"(,"logprob":)", LogprobText(logprob),
                        R"(,"bytes":)", BytesText(tokenizer.TokenBytes(id)));
  };
  std::string entries;
  for (const OutputToken& token : tokens) {
    std::string top;
    for (const TopLogprob& each : token.top) {
      absl::StrAppend(&top, top.empty() ? "" : ",", entry(each.token, each.logprob), "}");
    }
    absl::StrAppend(&entries, entries.empty() ? "" : ",", entry(token.token, token.logprob), R"(,"top_logprobs":[)",
                    top, "]}");
  }
  return absl::StrCat("[", entries, "]");
}

std::string VllmLogprobs(const tokenizer::Tokenizer& tokenizer, const TopLogprob& token, std::optional<int32_t> rank,
                         absl::Span<const TopLogprob> likely) {
  std::string entries = VllmEntry(tokenizer, token, rank);
  for (size_t i = 0; i < likely.size(); ++i) {
    if (likely[i].token == token.token) continue;
    absl::StrAppend(&entries, ",", VllmEntry(tokenizer, likely[i], static_cast<int32_t>(i) + 1));
  }
  return absl::StrCat("{", entries, "}");
}

}  // namespace baton::gateway
