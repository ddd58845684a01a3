#include "cli/chat_settings.h"

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/sampling_params.h"
#include "common/status.h"
#include "google/protobuf/descriptor.h"

namespace baton::cli {
namespace {

using google::protobuf::FieldDescriptor;

// In the order in which they are shown. Each is a field of SamplingParams that has one value.
constexpr std::array<std::string_view, 11> kSettings = {
    "temperature",      "top_p", "top_k",      "min_p",      "repetition_penalty", "frequency_penalty",
    "presence_penalty", "seed",  "max_tokens", "min_tokens", "ignore_eos"};

const FieldDescriptor* FindSetting(const std::string& name) {
  for (const std::string_view known : kSettings) {
    if (known == name) return v1::SamplingParams::descriptor()->FindFieldByName(name);
  }
  return nullptr;
}

// Returns what was expected, or nothing when `value` is of that kind and the field has it now.
std::string_view ParseInto(const std::string& value, const FieldDescriptor& field, v1::SamplingParams& sampling) {
  const google::protobuf::Reflection& fields = *sampling.GetReflection();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_FLOAT) {
    float number = 0;
    if (!absl::SimpleAtof(value, &number)) return "a number";
    fields.SetFloat(&sampling, &field, number);
  } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
    int32_t number = 0;
    if (!absl::SimpleAtoi(value, &number)) return "an integer";
    fields.SetInt32(&sampling, &field, number);
  } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_UINT64) {
    uint64_t number = 0;
    if (!absl::SimpleAtoi(value, &number)) return "an integer from 0";
    fields.SetUInt64(&sampling, &field, number);
  } else {
    if (value != "on" && value != "off") return "on or off";
    fields.SetBool(&sampling, &field, value == "on");
  }
  return "";
}

// What the server would say of the settings. Whatever it knows better, such as its own defaults, it says itself.
absl::Status CheckSampling(const v1::SamplingParams& sampling) {
  SamplingParams params;
  if (sampling.has_temperature()) params.temperature = sampling.temperature();
  if (sampling.has_top_k()) params.top_k = sampling.top_k();
  if (sampling.has_top_p()) params.top_p = sampling.top_p();
  if (sampling.has_min_p()) params.min_p = sampling.min_p();
  if (sampling.has_repetition_penalty()) params.repetition_penalty = sampling.repetition_penalty();
  if (sampling.has_frequency_penalty()) params.frequency_penalty = sampling.frequency_penalty();
  if (sampling.has_presence_penalty()) params.presence_penalty = sampling.presence_penalty();
  if (sampling.has_max_tokens()) params.max_tokens = sampling.max_tokens();
  if (sampling.has_min_tokens()) params.min_tokens = sampling.min_tokens();
  return ValidateSamplingParams(params, std::numeric_limits<int32_t>::max());
}

std::string ShowSetting(const FieldDescriptor& field, const v1::SamplingParams& sampling) {
  const google::protobuf::Reflection& fields = *sampling.GetReflection();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) return fields.GetBool(sampling, &field) ? "on" : "off";
  if (!fields.HasField(sampling, &field)) return kDefaultSetting;
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_FLOAT) return absl::StrCat(fields.GetFloat(sampling, &field));
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT32) return absl::StrCat(fields.GetInt32(sampling, &field));
  return absl::StrCat(fields.GetUInt64(sampling, &field));
}

}  // namespace

absl::Status SetSampling(const std::string& name, const std::string& value, v1::SamplingParams& sampling) {
  const FieldDescriptor* const field = FindSetting(absl::StrReplaceAll(name, {{"-", "_"}}));
  if (field == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, " is no setting: ", absl::StrJoin(kSettings, ", ", [](std::string* out, std::string_view known) {
          out->append(known);
        })));
  }
  v1::SamplingParams changed = sampling;
  if (value == kDefaultSetting) {
    changed.GetReflection()->ClearField(&changed, field);
  } else if (const std::string_view expected = ParseInto(value, *field, changed); !expected.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(field->name(), ": expected ", ToAbsl(expected), " or ", kDefaultSetting, ", not ", value));
  }
  BATON_RETURN_IF_ERROR(CheckSampling(changed));
  sampling = changed;
  return absl::OkStatus();
}

std::string ShowSampling(const v1::SamplingParams& sampling) {
  std::string text;
  for (const std::string_view name : kSettings) {
    const FieldDescriptor* const field = FindSetting(std::string(name));
    absl::StrAppend(&text, absl::StrFormat("%-20s", std::string(name)), ShowSetting(*field, sampling), "\n");
  }
  return text;
}

int MaxAnswerTokens(const v1::SamplingParams& sampling) {
  return sampling.has_max_tokens() ? sampling.max_tokens() : SamplingParams().max_tokens;
}

}  // namespace baton::cli
