#include "modelfile/hf_tokenizer_steps.h"

#include <optional>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status.h"

namespace baton::modelfile {
namespace {

constexpr std::string_view kWrittenSpace = "\xE2\x96\x81";

// Maps the regular expression of a Split step, as files spell it, to the row of tokenizer/pre_tokenizer_table.cc that
// splits in the same way.
struct SplitPattern {
  std::string_view regex;
  std::string_view family;
};
constexpr SplitPattern kSplitPatterns[] = {
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|)"
     R"(\s+(?!\S)|\s+)",
     "llama-bpe"},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|)"
     R"(\s+(?!\S)|\s+)",
     "qwen2"},
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", "gpt-2"},
};

// A member of a step. Null when the step is not an object or has no such member.
const Json* Member(const Json* step, const char* key) {
  if (step == nullptr || !step->is_object()) return nullptr;
  const auto it = step->find(key);
  return it == step->end() || it->is_null() ? nullptr : &*it;
}

std::string_view Text(const Json* value) {
  const std::string* text = value == nullptr ? nullptr : value->get_ptr<const std::string*>();
  return text == nullptr ? std::string_view() : std::string_view(*text);
}

std::string_view TypeOf(const Json* step) { return Text(Member(step, "type")); }

bool IsTrue(const Json* value) { return value != nullptr && value->is_boolean() && value->get<bool>(); }

// The steps of a Sequence; any other step by itself; nothing for null.
std::vector<const Json*> Flatten(const Json* step, const char* list) {
  if (step == nullptr) return {};
  if (TypeOf(step) != "Sequence") return {step};
  std::vector<const Json*> steps;
  if (const Json* members = Member(step, list); members != nullptr && members->is_array()) {
    for (const Json& member : *members) steps.push_back(&member);
  }
  return steps;
}

absl::Status NotBuilt(std::string_view step, std::string_view what) {
  return absl::UnimplementedError(absl::StrCat(ToAbsl(kTokenizerFile), ": ", ToAbsl(step), " ", ToAbsl(what),
                                               " is not one that Baton knows; use another model"));
}

bool IsByteLevel(const Json* step, bool use_regex) {
  // Both flags default to true.
  const Json* regex = Member(step, "use_regex");
  return TypeOf(step) == "ByteLevel" && !IsTrue(Member(step, "add_prefix_space")) &&
         Member(step, "add_prefix_space") != nullptr && (regex == nullptr || IsTrue(regex)) == use_regex;
}

// Empty unless the step is a Split into isolated matches of a known pattern.
std::string_view SplitFamily(const Json* step) {
  if (TypeOf(step) != "Split" || Text(Member(step, "behavior")) != "Isolated" || IsTrue(Member(step, "invert")))
    return "";
  const std::string_view regex = Text(Member(Member(step, "pattern"), "Regex"));
  for (const SplitPattern& pattern : kSplitPatterns) {
    if (pattern.regex == regex) return pattern.family;
  }
  return "";
}

bool IsReplace(const Json* step, std::string_view from, std::string_view to) {
  return TypeOf(step) == "Replace" && Text(Member(Member(step, "pattern"), "String")) == from &&
         Text(Member(step, "content")) == to;
}

std::optional<SpacePrefix> NormalizerPrefix(const std::vector<const Json*>& steps) {
  if (steps.size() == 1 && IsReplace(steps[0], " ", kWrittenSpace)) return SpacePrefix::kNone;
  const bool prepends = steps.size() == 2 && TypeOf(steps[0]) == "Prepend" &&
                        Text(Member(steps[0], "prepend")) == kWrittenSpace && IsReplace(steps[1], " ", kWrittenSpace);
  if (prepends) return SpacePrefix::kEach;
  return std::nullopt;
}

std::optional<SpacePrefix> MetaspacePrefix(const Json* step) {
  const Json* split = Member(step, "split");
  const bool known = TypeOf(step) == "Metaspace" && Text(Member(step, "replacement")) == kWrittenSpace &&
                     split != nullptr && !IsTrue(split);
  if (!known) return std::nullopt;
  const std::string_view scheme = Text(Member(step, "prepend_scheme"));
  if (scheme == "never") return SpacePrefix::kNone;
  if (scheme == "first") return SpacePrefix::kFirst;
  return std::nullopt;
}

// A split at spaces does nothing when the normalizer has replaced all spaces.
bool SplitsAtSpaces(const Json* step) {
  return TypeOf(step) == "Split" && Text(Member(Member(step, "pattern"), "String")) == " ";
}

// The decoder must turn written spaces into spaces and bytes into characters, join the tokens, and remove the space
// that the normalizer may have put before the text.
bool UndoesPieces(const std::vector<const Json*>& steps, SpacePrefix prefix) {
  const size_t expected = prefix == SpacePrefix::kNone ? 3 : 4;
  if (steps.size() != expected || !IsReplace(steps[0], kWrittenSpace, " ")) return false;
  if (TypeOf(steps[1]) != "ByteFallback" || TypeOf(steps[2]) != "Fuse") return false;
  if (prefix == SpacePrefix::kNone) return true;
  const Json* start = Member(steps[3], "start");
  const Json* stop = Member(steps[3], "stop");
  return TypeOf(steps[3]) == "Strip" && Text(Member(steps[3], "content")) == " " && start != nullptr && *start == 1 &&
         stop != nullptr && *stop == 0;
}

}  // namespace

absl::Status ReadByteLevelSteps(const JsonFields& fields, TokenizerSpec* spec) {
  if (fields.Find("normalizer") != nullptr) return NotBuilt("normalizer", ShowJson(*fields.Find("normalizer")));
  const std::vector<const Json*> steps = Flatten(fields.Find("pre_tokenizer"), "pretokenizers");
  if (steps.size() == 1 && IsByteLevel(steps[0], /*use_regex=*/true)) {
    spec->pre_tokenizer = "gpt-2";
  } else if (steps.size() == 2 && TypeOf(steps[0]) == "Digits" && IsTrue(Member(steps[0], "individual_digits")) &&
             IsByteLevel(steps[1], /*use_regex=*/true)) {
    spec->pre_tokenizer = "smollm";
  } else if (steps.size() == 2 && IsByteLevel(steps[1], /*use_regex=*/false)) {
    spec->pre_tokenizer = std::string(SplitFamily(steps[0]));
  }
  if (spec->pre_tokenizer.empty()) return NotBuilt("pre_tokenizer", "of this byte-level BPE");
  if (TypeOf(fields.Find("decoder")) != "ByteLevel") return NotBuilt("decoder", "of this byte-level BPE");
  return absl::OkStatus();
}

absl::Status ReadSentencePieceSteps(const JsonFields& fields, TokenizerSpec* spec) {
  const std::vector<const Json*> normalizer = Flatten(fields.Find("normalizer"), "normalizers");
  const std::vector<const Json*> splits = Flatten(fields.Find("pre_tokenizer"), "pretokenizers");
  std::optional<SpacePrefix> prefix;
  if (normalizer.empty() && splits.size() == 1) {
    prefix = MetaspacePrefix(splits[0]);
  } else if (splits.empty() || (splits.size() == 1 && SplitsAtSpaces(splits[0]))) {
    prefix = NormalizerPrefix(normalizer);
  }
  if (!prefix.has_value()) return NotBuilt("normalizer or pre_tokenizer", "of this BPE with byte fallback");
  spec->space_prefix = *prefix;
  if (!UndoesPieces(Flatten(fields.Find("decoder"), "decoders"), *prefix)) {
    return NotBuilt("decoder", "of this BPE with byte fallback");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadAddedBos(const JsonFields& fields) {
  std::string bos;
  for (const Json* step : Flatten(fields.Find("post_processor"), "processors")) {
    const std::string_view type = TypeOf(step);
    if (type == "ByteLevel") continue;  // changes offsets alone
    const Json* single = Member(step, "single");
    if (type != "TemplateProcessing" || single == nullptr || !single->is_array() || single->empty()) {
      return NotBuilt("post_processor", type);
    }
    const auto special = [single](size_t i) { return Text(Member(Member(&(*single)[i], "SpecialToken"), "id")); };
    const bool begins = !special(0).empty();
    if (single->size() != (begins ? 2 : 1) || Member(&single->back(), "Sequence") == nullptr) {
      return NotBuilt("post_processor", "that adds more than one token before the text");
    }
    if (begins) bos = std::string(special(0));
  }
  return bos;
}

}  // namespace baton::modelfile
