// The patterns of each family, from the tokenizer.json files of the models. A further family is a further row.
//
// {L}, {N}, {S} and {D} stand for the contents of a character class: see ExpandClasses in pre_tokenizer.cc.
#include "tokenizer/pre_tokenizer.h"

namespace baton::tokenizer {
namespace {

// ByteLevel's own pattern, from GPT-2.
constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?[{L}]+| ?[{N}]+| ?[^{S}{L}{N}]+|[{S}]+(?![^{S}])|[{S}]+)";

// Digits(individual_digits=True) cuts out each numeric character by itself.
constexpr std::string_view kSingleDigits = "[{D}]";

// Llama 3 groups at most three digits, and punctuation takes the line end that follows it.
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n{L}{N}]?[{L}]+|[{N}]{1,3}| ?[^{S}{L}{N}]+[\r\n]*|[{S}]*[\r\n]+|)"
    R"([{S}]+(?![^{S}])|[{S}]+)";

// Qwen2 is like Llama 3 with single digits.
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n{L}{N}]?[{L}]+|[{N}]| ?[^{S}{L}{N}]+[\r\n]*|[{S}]*[\r\n]+|)"
    R"([{S}]+(?![^{S}])|[{S}]+)";

constexpr PreTokenizerFamily kFamilies[] = {
    {"gpt-2", {kGpt2}},
    {"default", {kGpt2}},
    {"smollm", {kSingleDigits, kGpt2}},
    {"starcoder", {kSingleDigits, kGpt2}},
    {"command-r", {kSingleDigits, kGpt2}},
    {"llama-bpe", {kLlama3}, /*ignore_merges=*/true},
    {"llama3", {kLlama3}, /*ignore_merges=*/true},
    {"qwen2", {kQwen2}},
};

}  // namespace

const PreTokenizerFamily* FindPreTokenizerFamily(std::string_view name) {
  for (const PreTokenizerFamily& family : kFamilies) {
    if (family.name == name) return &family;
  }
  return nullptr;
}

}  // namespace baton::tokenizer
