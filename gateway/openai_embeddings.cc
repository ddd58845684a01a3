#include "gateway/openai_embeddings.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status.h"
#include "gateway/field_reader.h"
#include "gateway/json_reading.h"
#include "gateway/json_writing.h"
#include "gateway/openai_prompt.h"
#include "gateway/sampling_fields.h"
#include "nlohmann/json.hpp"
#include "router/error_details.h"

namespace baton::gateway {
namespace {

using nlohmann::json;
using router::FieldViolation;

constexpr FieldRule kEmbeddingsFields[] = {
    {"model"},
    {"input"},
    {"encoding_format"},
    {"dimensions"},
    {"pooling"},
    {"add_special_tokens"},
    {"priority"},
    {"user", FieldUse::kIgnored},
    {"normalize", FieldUse::kUnbuilt, "true"},
    {"truncate_prompt_tokens", FieldUse::kUnbuilt},
    {"messages", FieldUse::kUnbuilt},
};

absl::StatusOr<Pooling> ReadPooling(FieldReader& fields) {
  const std::string name = fields.String("pooling");
  if (name.empty() || name == "last") return Pooling::kLast;
  if (name == "mean") return Pooling::kMean;
  return FieldViolation("pooling", R"(must be "last" or "mean")");
}

// A model that gives no number at all gives zeros.
std::vector<float> Normalized(const std::vector<float>& values) {
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * static_cast<double>(value);
  const double factor = squares > 0 && std::isfinite(squares) ? 1 / std::sqrt(squares) : 0;
  std::vector<float> normalized(values.size());
  for (size_t i = 0; factor > 0 && i < values.size(); ++i) {
    normalized[i] = static_cast<float>(static_cast<double>(values[i]) * factor);
  }
  return normalized;
}

// The fewest digits that give the same float again.
void AppendNumber(float value, std::string* text) {
  std::array<char, 32> digits;
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  BATON_CHECK(error == std::errc()) << value;
  text->append(digits.data(), end);
}

std::string NumbersOf(const std::vector<float>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += ',';
    AppendNumber(values[i], &text);
  }
  return text + "]";
}

std::string Base64Of(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return absl::StrCat("\"", absl::Base64Escape(bytes), "\"");
}

}  // namespace

absl::StatusOr<EmbeddingsRequest> ReadEmbeddingsRequest(std::string_view body, int32_t hidden_size) {
  BATON_ASSIGN_OR_RETURN(const json object, ParseJsonObject(body));
  BATON_RETURN_IF_ERROR(CheckFields(object, kEmbeddingsFields));
  FieldReader fields(object);
  EmbeddingsRequest request;
  router::GenerationRequest& generation = request.generation;
  generation.model = fields.String("model");
  generation.priority = ReadPriority(fields);
  generation.sampling.temperature = 0.0f;
  generation.sampling.max_tokens = 1;
  BATON_ASSIGN_OR_RETURN(generation.sampling.pooling, ReadPooling(fields));
  const std::string format = fields.String("encoding_format");
  request.is_base64 = format == "base64";
  if (!format.empty() && format != "float" && format != "base64") {
    return FieldViolation("encoding_format", R"(must be "float" or "base64")");
  }
  if (const auto dimensions = fields.Integer("dimensions"); dimensions.has_value() && *dimensions != hidden_size) {
    return FieldViolation("dimensions", absl::StrCat("the model's embeddings have ", hidden_size));
  }
  const bool adds = fields.Bool("add_special_tokens").value_or(true);
  BATON_RETURN_IF_ERROR(fields.status());
  const json* const input = fields.Find("input");
  if (input == nullptr) return FieldViolation("input", "must be given");
  BATON_RETURN_IF_ERROR(ReadPrompts(*input, "input", adds, generation));
  return request;
}

std::string EmbeddingsWriter::Chunk(const router::GenerationDelta& /*delta*/) { return {}; }
std::string EmbeddingsWriter::End(const router::GenerationFinished& /*finished*/) { return {}; }
std::string EmbeddingsWriter::End(const absl::Status& /*status*/) { return {}; }

std::string EmbeddingsWriter::Whole(absl::Span<const router::GenerationDelta> outputs,
                                    const router::GenerationFinished& finished) {
  std::string data;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::vector<float> values = Normalized(outputs[i].tokens.at(0).embedding);
    absl::StrAppend(&data, i > 0 ? "," : "", R"({"object":"embedding","index":)", i, R"(,"embedding":)",
                    is_base64_ ? Base64Of(values) : NumbersOf(values), "}");
  }
  return absl::StrCat(R"({"object":"list","data":[)", data, R"(],"model":)", JsonString(model_),
                      R"(,"usage":{"prompt_tokens":)", finished.usage.prompt_tokens, R"(,"total_tokens":)",
                      finished.usage.prompt_tokens, "}}");
}

}  // namespace baton::gateway
