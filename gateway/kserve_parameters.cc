#include "gateway/kserve_parameters.h"

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/limits.h"
#include "common/status.h"
#include "gateway/field_reader.h"
#include "gateway/json_reading.h"
#include "gateway/kserve_model.h"
#include "gateway/output_format.h"
#include "gateway/sampling_fields.h"
#include "router/error_details.h"

namespace baton::gateway {
namespace {

using inference::InferParameter;
using nlohmann::json;
using router::FieldViolation;

constexpr FieldRule kSamplingRules[] = {
    {"max_tokens"},
    {"temperature"},
    {"top_p"},
    {"top_k"},
    {"min_p"},
    {"seed"},
    {"stop"},
    {"stop_token_ids"},
    {"ignore_eos"},
    {"min_tokens"},
    {"repetition_penalty"},
    {"frequency_penalty"},
    {"presence_penalty"},
    {"logit_bias"},
    {"structured_outputs"},
    {"n"},
    {"logprobs"},
    // Baton's own.
    {"add_special_tokens"},
    {"best_of", FieldUse::kUnbuilt, "1"},
    // Triton's backend has no output for them.
    {"prompt_logprobs", FieldUse::kUnbuilt},
    {"use_beam_search", FieldUse::kUnbuilt, "false"},
    {"length_penalty", FieldUse::kUnbuilt, "1.0"},
    {"early_stopping", FieldUse::kUnbuilt, "false"},
    {"bad_words", FieldUse::kUnbuilt, "[]"},
    {"detokenize", FieldUse::kUnbuilt, "true"},
    {"include_stop_str_in_output", FieldUse::kUnbuilt, "false"},
    {"skip_special_tokens", FieldUse::kUnbuilt, "true"},
    {"spaces_between_special_tokens", FieldUse::kUnbuilt, "true"},
    {"truncate_prompt_tokens", FieldUse::kUnbuilt},
    {"guided_decoding", FieldUse::kUnbuilt},
    {"logits_processors", FieldUse::kUnbuilt},
    {"lora_name", FieldUse::kUnbuilt},
    {"extra_args", FieldUse::kUnbuilt},
};

// Clients of Triton's backend write numbers and truths as strings, too.
constexpr const char* kWholeNumbers[] = {"max_tokens", "top_k", "seed", "min_tokens", "n", "best_of", "logprobs"};
constexpr const char* kNumbers[] = {
    "temperature", "top_p", "min_p", "repetition_penalty", "frequency_penalty", "presence_penalty", "length_penalty"};
constexpr const char* kTruths[] = {"ignore_eos",
                                   "use_beam_search",
                                   "include_stop_str_in_output",
                                   "skip_special_tokens",
                                   "spaces_between_special_tokens",
                                   "detokenize",
                                   "early_stopping",
                                   "add_special_tokens"};

// Triton's priorities, of which 1 is the highest and 0 the default.
constexpr auto kLowestPriority = static_cast<uint64_t>(router::kPriorityLevels);

template <typename Convert>
void ConvertString(json& object, const char* name, Convert convert) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return;
  // What is no such value stays a string, which is refused when it is read.
  json value = convert(absl::StripAsciiWhitespace(found->get_ref<const std::string&>()));
  if (!value.is_null()) *found = std::move(value);
}

void ConvertStrings(json& object) {
  for (const char* name : kWholeNumbers) {
    ConvertString(object, name, [](absl::string_view text) {
      uint64_t natural = 0;
      if (absl::SimpleAtoi(text, &natural)) return json(natural);
      int64_t whole = 0;
      return absl::SimpleAtoi(text, &whole) ? json(whole) : json();
    });
  }
  for (const char* name : kNumbers) {
    ConvertString(object, name, [](absl::string_view text) {
      double number = 0;
      return absl::SimpleAtod(text, &number) ? json(number) : json();
    });
  }
  for (const char* name : kTruths) {
    ConvertString(object, name, [](absl::string_view text) {
      bool truth = false;
      return absl::SimpleAtob(text, &truth) ? json(truth) : json();
    });
  }
}

json ToJson(const InferParameter& parameter) {
  switch (parameter.parameter_choice_case()) {
    case InferParameter::kBoolParam:
      return parameter.bool_param();
    case InferParameter::kInt64Param:
      // JSON's readers know a number that is not negative as unsigned.
      return parameter.int64_param() < 0 ? json(parameter.int64_param())
                                         : json(static_cast<uint64_t>(parameter.int64_param()));
    case InferParameter::kStringParam:
      return parameter.string_param();
    case InferParameter::kDoubleParam:
      return parameter.double_param();
    case InferParameter::kUint64Param:
      return parameter.uint64_param();
    case InferParameter::PARAMETER_CHOICE_NOT_SET:
      return nullptr;
  }
  return nullptr;
}

// A number that is not negative, of either type.
absl::StatusOr<uint64_t> ReadNatural(const std::string& name, const InferParameter& parameter) {
  const json value = ToJson(parameter);
  if (value.is_number_unsigned()) return value.get<uint64_t>();
  return FieldViolation(name, "must be a whole number that is not negative");
}

absl::Status ReadPriority(const InferParameter& parameter, KserveParameters& read) {
  BATON_ASSIGN_OR_RETURN(const uint64_t priority, ReadNatural("priority", parameter));
  if (priority > kLowestPriority) {
    return FieldViolation("priority", absl::StrCat("must be in [0, ", kLowestPriority, "]"));
  }
  if (priority > 0) read.priority = router::kMaxPriority + 1 - static_cast<int32_t>(priority);
  return absl::OkStatus();
}

absl::Status ReadTimeout(const InferParameter& parameter, KserveParameters& read) {
  BATON_ASSIGN_OR_RETURN(const uint64_t timeout_us, ReadNatural("timeout", parameter));
  // Longer ones are none on the clock.
  constexpr uint64_t kLongestUs = std::numeric_limits<int64_t>::max() / 4'000;
  if (timeout_us > 0 && timeout_us < kLongestUs) read.timeout_us = static_cast<int64_t>(timeout_us);
  return absl::OkStatus();
}

// One parameter of the protocol's own. False when `name` is none, and so a sampling parameter.
absl::StatusOr<bool> ReadOwnParameter(const std::string& name, const InferParameter& parameter,
                                      KserveParameters& read) {
  if (name == "priority" || name == "timeout") {
    BATON_RETURN_IF_ERROR(name == "priority" ? ReadPriority(parameter, read) : ReadTimeout(parameter, read));
    return true;
  }
  if (name == "triton_enable_empty_final_response") {
    if (!parameter.has_bool_param()) return FieldViolation(name, "must be true or false");
    read.wants_empty_final = parameter.bool_param();
    return true;
  }
  if (absl::StartsWith(name, "sequence_") || absl::StartsWith(name, "triton_")) return UnbuiltKserveField(name);
  return false;
}

absl::Status ReadParameters(const KserveParameterMap& parameters, json& sampling, KserveParameters& read) {
  for (const auto& [name, parameter] : parameters) {
    BATON_ASSIGN_OR_RETURN(const bool is_own, ReadOwnParameter(name, parameter, read));
    if (is_own) continue;
    if (sampling.contains(name)) {
      return FieldViolation(name.substr(0, kMaxShownNameBytes), "is given in sampling_parameters and beside them");
    }
    sampling[name] = ToJson(parameter);
  }
  return absl::OkStatus();
}

// `text` is the JSON that the client sent, which has the order of a schema's properties.
absl::Status ReadSampling(json& object, std::string_view text, KserveParameters& read) {
  ConvertStrings(object);
  BATON_RETURN_IF_ERROR(CheckFields(object, kSamplingRules));
  FieldReader fields(object);
  read.sampling = ReadSamplingFields(fields);
  BATON_RETURN_IF_ERROR(ReadStructuredOutputs(object, text, read.sampling));
  if (!read.sampling.max_tokens.has_value()) read.sampling.max_tokens = kKserveMaxTokens;
  read.sampling.logprobs = fields.Integer("logprobs");
  read.choices = fields.Integer("n").value_or(1);
  if (read.choices < 1 || read.choices > kMaxChoices) {
    return FieldViolation("n", absl::StrCat("must be in [1, ", kMaxChoices, "]"));
  }
  read.stop = fields.Strings("stop");
  read.add_special_tokens = fields.Bool("add_special_tokens").value_or(true);
  return fields.status();
}

}  // namespace

absl::Status UnbuiltKserveField(const std::string& field) {
  return router::FieldStatus(absl::StatusCode::kUnimplemented,
                             {.field = field.substr(0, kMaxShownNameBytes), .description = "not supported yet"});
}

absl::StatusOr<KserveParameters> ReadKserveParameters(const std::optional<std::string>& sampling_json,
                                                      const KserveParameterMap& parameters) {
  json sampling = json::object();
  if (sampling_json.has_value()) {
    absl::StatusOr<json> parsed = ParseJsonObject(*sampling_json);
    if (!parsed.ok()) return FieldViolation(kSamplingInput, ToStd(parsed.status().message()));
    sampling = *std::move(parsed);
  }
  KserveParameters read;
  BATON_RETURN_IF_ERROR(ReadParameters(parameters, sampling, read));
  BATON_RETURN_IF_ERROR(ReadSampling(sampling, sampling_json.value_or(""), read));
  return read;
}

}  // namespace baton::gateway
