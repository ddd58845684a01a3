#include "modelfile/gguf_tokenizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "modelfile/limits.h"

namespace baton::modelfile {
namespace {

absl::Status RefusedTokenizer(std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("damaged GGUF tokenizer: ", ToAbsl(what),
                                                 "; fetch the file again or use another conversion of the model"));
}

absl::Status ReadTokens(const GgufDocument& document, TokenizerSpec* spec) {
  BATON_ASSIGN_OR_RETURN(const auto* tokens, document.StringArray("tokenizer.ggml.tokens"));
  if (tokens == nullptr || tokens->empty()) return RefusedTokenizer("tokenizer.ggml.tokens is missing or empty");
  if (tokens->size() > static_cast<size_t>(kMaxVocabSize)) {
    return RefusedTokenizer(
        absl::StrCat("tokenizer.ggml.tokens has ", tokens->size(), " tokens, limit ", kMaxVocabSize));
  }
  spec->tokens.reserve(tokens->size());
  for (const std::string_view token : *tokens) {
    if (token.size() > kMaxTokenBytes) {
      return RefusedTokenizer(
          absl::StrCat("token ", spec->tokens.size(), " has ", token.size(), " bytes, limit ", kMaxTokenBytes));
    }
    spec->tokens.emplace_back(token);
  }
  return absl::OkStatus();
}

absl::Status ReadTokenTypes(const GgufDocument& document, TokenizerSpec* spec) {
  const GgufValue* types = document.Find("tokenizer.ggml.token_type");
  if (types == nullptr) {
    spec->token_types.assign(spec->tokens.size(), TokenType::kNormal);
    return absl::OkStatus();
  }
  if (!types->is_array || types->count != spec->tokens.size()) {
    return RefusedTokenizer(absl::StrCat("tokenizer.ggml.token_type is ", ShowGgufType(*types),
                                         ", must be an array of ", spec->tokens.size(), " integers"));
  }
  spec->token_types.reserve(types->count);
  for (size_t i = 0; i < types->count; ++i) {
    const int64_t type = GgufInteger(*types, i).value_or(0);
    if (type < static_cast<int64_t>(TokenType::kNormal) || type > static_cast<int64_t>(TokenType::kByte)) {
      return RefusedTokenizer(
          absl::StrCat("tokenizer.ggml.token_type of token ", i, " must be an integer from 1 to 6"));
    }
    spec->token_types.push_back(static_cast<TokenType>(type));
  }
  return absl::OkStatus();
}

absl::Status ReadMerges(const GgufDocument& document, TokenizerSpec* spec) {
  BATON_ASSIGN_OR_RETURN(const auto* merges, document.StringArray("tokenizer.ggml.merges"));
  if (merges == nullptr) return absl::OkStatus();
  if (merges->size() > kMaxMerges) {
    return RefusedTokenizer(absl::StrCat("tokenizer.ggml.merges has ", merges->size(), " merges, limit ", kMaxMerges));
  }
  spec->merges.reserve(merges->size());
  for (const std::string_view merge : *merges) {
    // A merge is two tokens with a space between them.
    if (merge.size() > 2 * kMaxTokenBytes + 1) {
      return RefusedTokenizer(
          absl::StrCat("merge ", spec->merges.size(), " has ", merge.size(), " bytes, limit ", 2 * kMaxTokenBytes + 1));
    }
    spec->merges.emplace_back(merge);
  }
  return absl::OkStatus();
}

absl::Status ReadScores(const GgufDocument& document, TokenizerSpec* spec) {
  const GgufValue* scores = document.Find("tokenizer.ggml.scores");
  if (scores == nullptr) return absl::OkStatus();
  if (!scores->is_array || scores->type != GgufType::kF32 || scores->count != spec->tokens.size()) {
    return RefusedTokenizer(absl::StrCat("tokenizer.ggml.scores is ", ShowGgufType(*scores), ", must be an array of ",
                                         spec->tokens.size(), " f32"));
  }
  spec->scores.resize(scores->count);
  std::memcpy(spec->scores.data(), scores->bytes, scores->count * sizeof(float));
  for (size_t i = 0; i < spec->scores.size(); ++i) {
    if (!std::isfinite(spec->scores[i]))
      return RefusedTokenizer(absl::StrCat("the score of token ", i, " is not a number"));
  }
  return absl::OkStatus();
}

absl::StatusOr<int32_t> ReadTokenId(const GgufDocument& document, std::string_view key, size_t vocab_size) {
  BATON_ASSIGN_OR_RETURN(const std::optional<int64_t> id, document.Integer(key));
  if (!id.has_value()) return -1;
  if (*id < 0 || *id >= static_cast<int64_t>(vocab_size)) {
    return RefusedTokenizer(absl::StrCat(ToAbsl(key), " is ", *id, ", the vocabulary has ", vocab_size, " tokens"));
  }
  return static_cast<int32_t>(*id);
}

// Chat models end an answer with a special token, end of turn, which not all files call EOS.
absl::Status ReadEndTokens(const GgufDocument& document, TokenizerSpec* spec) {
  for (const std::string_view key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    BATON_ASSIGN_OR_RETURN(const int32_t id, ReadTokenId(document, key, spec->tokens.size()));
    const bool known = std::find(spec->eos_ids.begin(), spec->eos_ids.end(), id) != spec->eos_ids.end();
    if (id >= 0 && !known) spec->eos_ids.push_back(id);
  }
  return absl::OkStatus();
}

absl::Status ReadChatTemplate(const GgufDocument& document, TokenizerSpec* spec) {
  BATON_ASSIGN_OR_RETURN(const std::optional<std::string_view> text, document.String("tokenizer.chat_template"));
  if (!text.has_value()) return absl::OkStatus();
  if (text->size() > kMaxChatTemplateBytes) {
    return RefusedTokenizer(
        absl::StrCat("tokenizer.chat_template has ", text->size(), " bytes, limit ", kMaxChatTemplateBytes));
  }
  spec->chat_template = std::string(*text);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TokenizerSpec> ReadGgufTokenizer(const GgufDocument& document) {
  TokenizerSpec spec;
  BATON_ASSIGN_OR_RETURN(const std::optional<std::string_view> model, document.String("tokenizer.ggml.model"));
  spec.source = "tokenizer.ggml.model";
  if (!model.has_value()) return spec;
  spec.model = std::string(*model);
  BATON_ASSIGN_OR_RETURN(const std::optional<std::string_view> pre, document.String("tokenizer.ggml.pre"));
  spec.pre_tokenizer = std::string(pre.value_or(""));
  BATON_RETURN_IF_ERROR(ReadTokens(document, &spec));
  BATON_RETURN_IF_ERROR(ReadTokenTypes(document, &spec));
  BATON_RETURN_IF_ERROR(ReadMerges(document, &spec));
  BATON_RETURN_IF_ERROR(ReadScores(document, &spec));
  const size_t vocab_size = spec.tokens.size();
  BATON_ASSIGN_OR_RETURN(spec.bos_id, ReadTokenId(document, "tokenizer.ggml.bos_token_id", vocab_size));
  BATON_ASSIGN_OR_RETURN(spec.eos_id, ReadTokenId(document, "tokenizer.ggml.eos_token_id", vocab_size));
  BATON_ASSIGN_OR_RETURN(spec.unknown_id, ReadTokenId(document, "tokenizer.ggml.unknown_token_id", vocab_size));
  BATON_ASSIGN_OR_RETURN(spec.padding_id, ReadTokenId(document, "tokenizer.ggml.padding_token_id", vocab_size));
  BATON_ASSIGN_OR_RETURN(const std::optional<bool> add_bos, document.Bool("tokenizer.ggml.add_bos_token"));
  // A file that leaves a setting out means SentencePiece's default.
  const bool sentencepiece = spec.model == "llama";
  spec.add_bos = add_bos.value_or(sentencepiece && spec.bos_id >= 0);
  if (spec.add_bos && spec.bos_id < 0)
    return RefusedTokenizer("tokenizer.ggml.add_bos_token is set without bos_token_id");
  BATON_ASSIGN_OR_RETURN(const std::optional<bool> add_space, document.Bool("tokenizer.ggml.add_space_prefix"));
  if (add_space.value_or(sentencepiece)) spec.space_prefix = SpacePrefix::kFirst;
  BATON_RETURN_IF_ERROR(ReadEndTokens(document, &spec));
  BATON_RETURN_IF_ERROR(ReadChatTemplate(document, &spec));
  return spec;
}

}  // namespace baton::modelfile
