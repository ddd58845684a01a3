#include "modelfile/hf_quantization.h"

#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "modelfile/gguf_document.h"

namespace baton::modelfile {
namespace {

constexpr std::string_view kConfig = "quantization_config";
constexpr std::string_view kFp8Method = "fp8";
constexpr std::string_view kCompressedMethod = "compressed-tensors";
constexpr std::string_view kFloatFormat = "float-quantized";

// The members of an object inside of `outer`.
JsonFields Inside(const JsonFields& outer, std::string_view key, const Json& object) {
  return JsonFields(object, absl::StrCat(ToAbsl(outer.file()), ": ", ToAbsl(key)));
}

// UNIMPLEMENTED where the member is there and holds anything but an empty object.
absl::Status MustBeUnused(const JsonFields& fields, std::string_view key) {
  const Json* const value = fields.Find(key);
  return value == nullptr || (value->is_object() && value->empty()) ? absl::OkStatus() : fields.NotBuilt(key);
}

// UNIMPLEMENTED unless the member is this text, or absent.
absl::Status MustBeText(const JsonFields& fields, std::string_view key, std::string_view wanted) {
  BATON_ASSIGN_OR_RETURN(const std::optional<std::string> text, fields.String(key));
  return text.value_or(std::string(wanted)) == wanted ? absl::OkStatus() : fields.NotBuilt(key);
}

// Whether a member says blocks of kFp8Block by kFp8Block; false where it is absent.
absl::StatusOr<bool> HasBlocks(const JsonFields& fields, std::string_view key) {
  const Json* const value = fields.Find(key);
  if (value == nullptr) return false;
  if (*value == Json::array({kFp8Block, kFp8Block})) return true;
  return absl::UnimplementedError(absl::StrCat(ToAbsl(fields.file()), ": ", ToAbsl(key), " is ",
                                               ShowText(value->dump()), ", and Baton runs [", kFp8Block, ", ",
                                               kFp8Block, "]; use another model"));
}

absl::StatusOr<Fp8Scheme> ReadFp8Method(const JsonFields& fields) {
  BATON_RETURN_IF_ERROR(MustBeText(fields, "fmt", "e4m3"));
  BATON_RETURN_IF_ERROR(MustBeUnused(fields, "kv_cache_scheme"));
  BATON_ASSIGN_OR_RETURN(const bool blocks, HasBlocks(fields, "weight_block_size"));
  return Fp8Scheme{.tensor_scales = !blocks, .row_scales = !blocks, .block_scales = blocks};
}

// `weights` of a group of layers.
absl::Status AddWeights(const JsonFields& fields, Fp8Scheme* scheme) {
  BATON_ASSIGN_OR_RETURN(const std::optional<int64_t> bits, fields.Integer("num_bits"));
  if (bits.value_or(0) != 8) return fields.NotBuilt("num_bits");
  BATON_ASSIGN_OR_RETURN(const std::optional<std::string> type, fields.String("type"));
  if (type.value_or("int") != "float") return fields.NotBuilt("type");
  BATON_ASSIGN_OR_RETURN(const std::optional<bool> symmetric, fields.Bool("symmetric"));
  if (!symmetric.value_or(true)) return fields.NotBuilt("symmetric");
  BATON_ASSIGN_OR_RETURN(const std::optional<std::string> strategy, fields.String("strategy"));
  if (strategy == "tensor") {
    scheme->tensor_scales = true;
  } else if (strategy == "channel") {
    scheme->row_scales = true;
  } else if (strategy == "block") {
    BATON_ASSIGN_OR_RETURN(const bool blocks, HasBlocks(fields, "block_structure"));
    if (!blocks) return fields.NotBuilt("block_structure");
    scheme->block_scales = true;
  } else {
    return fields.NotBuilt("strategy");
  }
  return absl::OkStatus();
}

absl::Status AddGroup(const JsonFields& fields, Fp8Scheme* scheme) {
  BATON_RETURN_IF_ERROR(MustBeText(fields, "format", kFloatFormat));
  BATON_RETURN_IF_ERROR(MustBeUnused(fields, "output_activations"));
  BATON_ASSIGN_OR_RETURN(const Json* const weights, fields.Object("weights"));
  if (weights == nullptr) return fields.NotBuilt("weights");
  return AddWeights(Inside(fields, "weights", *weights), scheme);
}

absl::Status CheckSparsity(const JsonFields& fields) {
  BATON_ASSIGN_OR_RETURN(const Json* const sparsity, fields.Object("sparsity_config"));
  if (sparsity == nullptr || sparsity->empty()) return absl::OkStatus();
  const JsonFields inside = Inside(fields, "sparsity_config", *sparsity);
  BATON_ASSIGN_OR_RETURN(const std::optional<std::string> format, inside.String("format"));
  return format == "dense" ? absl::OkStatus() : inside.NotBuilt("format");
}

absl::StatusOr<Fp8Scheme> ReadCompressedMethod(const JsonFields& fields) {
  BATON_ASSIGN_OR_RETURN(const std::optional<std::string> format, fields.String("format"));
  if (format != kFloatFormat) return fields.NotBuilt("format");
  // Rotations and the like, which activations would have to follow.
  BATON_RETURN_IF_ERROR(MustBeUnused(fields, "transform_config"));
  BATON_RETURN_IF_ERROR(MustBeUnused(fields, "kv_cache_scheme"));
  BATON_RETURN_IF_ERROR(CheckSparsity(fields));
  BATON_ASSIGN_OR_RETURN(const Json* const groups, fields.Object("config_groups"));
  if (groups == nullptr || groups->empty())
    return fields.Refuse("config_groups", "an object with the quantized layers");
  const JsonFields members = Inside(fields, "config_groups", *groups);
  Fp8Scheme scheme;
  for (const auto& [name, group] : groups->items()) {
    if (!group.is_object()) return members.Refuse(name, "an object");
    BATON_RETURN_IF_ERROR(AddGroup(Inside(members, ShowText(name), group), &scheme));
  }
  return scheme;
}

}  // namespace

absl::StatusOr<Fp8Scheme> ReadHfQuantization(const JsonFields& fields) {
  BATON_ASSIGN_OR_RETURN(const Json* const config, fields.Object(kConfig));
  if (config == nullptr) return Fp8Scheme{};
  const JsonFields inside = Inside(fields, kConfig, *config);
  BATON_ASSIGN_OR_RETURN(const std::optional<std::string> method, inside.String("quant_method"));
  if (method == kFp8Method) return ReadFp8Method(inside);
  if (method == kCompressedMethod) return ReadCompressedMethod(inside);
  return inside.NotBuilt("quant_method");
}

}  // namespace baton::modelfile
