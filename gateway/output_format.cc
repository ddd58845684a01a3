#include "gateway/output_format.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/output_grammar.h"
#include "common/status.h"
#include "gateway/field_reader.h"
#include "gateway/json_text.h"
#include "router/error_details.h"

namespace baton::gateway {
namespace {

using nlohmann::json;
using router::FieldViolation;

// The member at the pointer as the client wrote it, with the members of its objects in their order.
std::string TextOf(std::string_view body, const std::string& pointer) {
  std::string_view text = body;
  for (const auto name : absl::StrSplit(pointer, '/', absl::SkipEmpty())) text = JsonMember(text, ToStd(name));
  return CompactJson(text);
}

// Where a part of the request is.
struct Place {
  // For errors: "text.format".
  std::string field;
  // For the body: "/text/format".
  std::string pointer;
};

// `holder`, which is at `place`, has a schema.
absl::Status ReadJsonSchema(const json& holder, std::string_view body, const Place& place, OutputGrammar& grammar) {
  const auto schema = holder.find("schema");
  if (schema == holder.end() || !(schema->is_object() || schema->is_boolean())) {
    return FieldViolation(place.field + ".schema", "must be a JSON Schema");
  }
  grammar = {.kind = GrammarKind::kJsonSchema, .text = TextOf(body, place.pointer + "/schema")};
  return absl::OkStatus();
}

// A schema is obeyed whether it is called strict or not.
constexpr FieldRule kSchemaFields[] = {
    {"schema"}, {"name", FieldUse::kIgnored}, {"description", FieldUse::kIgnored}, {"strict", FieldUse::kIgnored}};

// OpenAI's format for an answer. Chats have a schema and its name in a member of their own, responses beside the type.
absl::Status ReadFormat(const json& format, std::string_view body, const Place& place, bool is_chat,
                        OutputGrammar& grammar) {
  if (!format.is_object()) return FieldViolation(place.field, "must be an object");
  const json type = format.value("type", json());
  static constexpr FieldRule kType[] = {{"type"}};
  static constexpr FieldRule kMember[] = {{"json_schema"}};
  const bool has_schema = type == "json_schema";
  const absl::Span<const FieldRule> rest = !has_schema ? absl::Span<const FieldRule>()
                                           : is_chat   ? absl::MakeConstSpan(kMember)
                                                       : kSchemaFields;
  BATON_RETURN_IF_ERROR(CheckFields(format, kType, rest, place.field + "."));
  if (type == "text") return absl::OkStatus();
  if (type == "json_object") {
    grammar.kind = GrammarKind::kJsonObject;
    return absl::OkStatus();
  }
  if (!has_schema) return FieldViolation(place.field + ".type", R"(must be "text", "json_object" or "json_schema")");
  if (!is_chat) return ReadJsonSchema(format, body, place, grammar);
  const Place inner = {.field = place.field + ".json_schema", .pointer = place.pointer + "/json_schema"};
  const json holder = format.value("json_schema", json());
  if (!holder.is_object()) return FieldViolation(inner.field, "must be an object");
  BATON_RETURN_IF_ERROR(CheckFields(holder, kSchemaFields, {}, inner.field + "."));
  return ReadJsonSchema(holder, body, inner, grammar);
}

absl::Status ReadWanted(const json& wanted, std::string_view body, OutputGrammar& grammar) {
  constexpr char kField[] = "structured_outputs";
  if (!wanted.is_object()) return FieldViolation(kField, "must be an object");
  static constexpr FieldRule kFields[] = {{"json"},
                                          {"json_object"},
                                          {"regex"},
                                          {"choice"},
                                          {"grammar"},
                                          {"disable_fallback", FieldUse::kIgnored},
                                          {"disable_any_whitespace", FieldUse::kUnbuilt, "false"},
                                          {"disable_additional_properties", FieldUse::kUnbuilt, "false"},
                                          {"whitespace_pattern", FieldUse::kUnbuilt},
                                          {"structural_tag", FieldUse::kUnbuilt}};
  BATON_RETURN_IF_ERROR(CheckFields(wanted, kFields, {}, absl::StrCat(kField, ".")));
  FieldReader fields(wanted, absl::StrCat(kField, "."));
  const bool is_any_object = fields.Bool("json_object").value_or(false);
  BATON_RETURN_IF_ERROR(fields.status());
  int given = is_any_object ? 1 : 0;
  for (const char* name : {"json", "regex", "choice", "grammar"}) given += fields.Find(name) != nullptr ? 1 : 0;
  if (given != 1) return FieldViolation(kField, "must have one of json, json_object, regex, choice and grammar");
  if (is_any_object) {
    grammar.kind = GrammarKind::kJsonObject;
  } else if (const json* const choice = fields.Find("choice")) {
    grammar = {.kind = GrammarKind::kChoice, .text = choice->dump()};
  } else if (const json* const schema = fields.Find("json")) {
    // A schema, or its text.
    grammar = {.kind = GrammarKind::kJsonSchema,
               .text = schema->is_string() ? fields.String("json") : TextOf(body, "/structured_outputs/json")};
  } else if (fields.Find("regex") != nullptr) {
    grammar = {.kind = GrammarKind::kRegex, .text = fields.String("regex")};
  } else {
    grammar = {.kind = GrammarKind::kEbnf, .text = fields.String("grammar")};
  }
  return fields.status();
}

absl::Status ReadAnthropicSchema(const json& format, std::string_view body, const Place& place,
                                 OutputGrammar& grammar) {
  if (!format.is_object()) return FieldViolation(place.field, "must be an object");
  static constexpr FieldRule kFields[] = {{"type"}, {"schema"}};
  BATON_RETURN_IF_ERROR(CheckFields(format, kFields, {}, place.field + "."));
  if (format.value("type", json()) != "json_schema") {
    return FieldViolation(place.field + ".type", R"(must be "json_schema")");
  }
  return ReadJsonSchema(format, body, place, grammar);
}

}  // namespace

absl::Status ReadStructuredOutputs(const json& object, std::string_view body, router::SamplingRequest& sampling) {
  const json* const wanted = FieldReader(object).Find("structured_outputs");
  if (wanted == nullptr) return absl::OkStatus();
  if (!sampling.grammar.empty()) {
    return FieldViolation("structured_outputs", "must be left out beside a response_format");
  }
  sampling.grammar_field = "structured_outputs";
  return ReadWanted(*wanted, body, sampling.grammar);
}

absl::Status ReadOpenAiFormat(const json& object, std::string_view body, router::SamplingRequest& sampling) {
  if (const json* const format = FieldReader(object).Find("response_format")) {
    sampling.grammar_field = "response_format";
    BATON_RETURN_IF_ERROR(ReadFormat(*format, body, {.field = "response_format", .pointer = "/response_format"},
                                     /*is_chat=*/true, sampling.grammar));
  }
  return ReadStructuredOutputs(object, body, sampling);
}

absl::Status ReadResponsesFormat(const json& object, std::string_view body, router::SamplingRequest& sampling) {
  const json* const text = FieldReader(object).Find("text");
  if (text == nullptr) return absl::OkStatus();
  if (!text->is_object()) return FieldViolation("text", "must be an object");
  static constexpr FieldRule kFields[] = {{"format"}, {"verbosity", FieldUse::kUnbuilt, R"("medium")"}};
  BATON_RETURN_IF_ERROR(CheckFields(*text, kFields, {}, "text."));
  const json* const format = FieldReader(*text).Find("format");
  if (format == nullptr) return absl::OkStatus();
  sampling.grammar_field = "text.format";
  return ReadFormat(*format, body, {.field = "text.format", .pointer = "/text/format"}, /*is_chat=*/false,
                    sampling.grammar);
}

absl::Status ReadAnthropicFormat(const json& object, std::string_view body, router::SamplingRequest& sampling) {
  const FieldReader fields(object);
  if (const json* const config = fields.Find("output_config")) {
    if (!config->is_object()) return FieldViolation("output_config", "must be an object");
    static constexpr FieldRule kFields[] = {{"format"}, {"effort", FieldUse::kUnbuilt}};
    BATON_RETURN_IF_ERROR(CheckFields(*config, kFields, {}, "output_config."));
    if (const json* const format = FieldReader(*config).Find("format")) {
      sampling.grammar_field = "output_config.format";
      BATON_RETURN_IF_ERROR(ReadAnthropicSchema(
          *format, body, {.field = sampling.grammar_field, .pointer = "/output_config/format"}, sampling.grammar));
    }
  }
  const json* const former = fields.Find("output_format");
  if (former == nullptr) return absl::OkStatus();
  if (!sampling.grammar.empty()) return FieldViolation("output_format", "must be left out beside output_config.format");
  sampling.grammar_field = "output_format";
  return ReadAnthropicSchema(*former, body, {.field = sampling.grammar_field, .pointer = "/output_format"},
                             sampling.grammar);
}

}  // namespace baton::gateway
