#include "modelfile/hf_tokenizer.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "modelfile/gguf_document.h"
#include "modelfile/hf_tokenizer_steps.h"
#include "modelfile/limits.h"

namespace baton::modelfile {
namespace {

absl::Status BadTokenizer(std::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(ToAbsl(kTokenizerFile), ": ", ToAbsl(what), "; fetch the model again or correct the file"));
}

// Sets the token of an id. Fails if the id has another token already.
absl::Status SetToken(std::string_view text, const Json* id, TokenizerSpec* spec, size_t* index) {
  if (text.empty() || text.size() > kMaxTokenBytes) {
    return BadTokenizer(absl::StrCat("a token has ", text.size(), " bytes, must have 1 to ", kMaxTokenBytes));
  }
  const auto* number = id == nullptr ? nullptr : id->get_ptr<const Json::number_unsigned_t*>();
  if (number == nullptr || *number >= spec->tokens.size()) {
    return BadTokenizer(absl::StrCat("the id of token ", ShowText(text), " is ",
                                     id == nullptr ? "missing" : ShowJson(*id),
                                     ", must be below config.json's vocab_size ", spec->tokens.size()));
  }
  *index = static_cast<size_t>(*number);
  std::string& token = spec->tokens[*index];
  if (!token.empty() && token != text) {
    return BadTokenizer(
        absl::StrCat("tokens ", ShowText(token), " and ", ShowText(text), " have the same id ", *number));
  }
  token = std::string(text);
  return absl::OkStatus();
}

absl::Status AddVocabToken(std::string_view text, const Json& id, TokenizerSpec* spec) {
  size_t index = 0;
  BATON_RETURN_IF_ERROR(SetToken(text, &id, spec, &index));
  spec->token_types[index] = TokenType::kNormal;
  return absl::OkStatus();
}

absl::Status ReadVocab(const HfTokenizerJson& file, const JsonFields& fields, TokenizerSpec* spec) {
  if (file.vocab.has_value()) {
    for (const auto& [text, id] : *file.vocab) BATON_RETURN_IF_ERROR(AddVocabToken(text, id, spec));
  } else {
    BATON_ASSIGN_OR_RETURN(const Json* vocab, fields.Object("vocab"));
    if (vocab == nullptr) return fields.Refuse("vocab", "an object");
    for (const auto& [text, id] : vocab->items()) BATON_RETURN_IF_ERROR(AddVocabToken(text, id, spec));
  }
  BATON_ASSIGN_OR_RETURN(const std::optional<std::string> unknown, fields.String("unk_token"));
  if (!unknown.has_value()) return absl::OkStatus();
  const auto it = std::find(spec->tokens.begin(), spec->tokens.end(), *unknown);
  if (it == spec->tokens.end()) return fields.Refuse("unk_token", "a token of the vocabulary");
  spec->unknown_id = static_cast<int32_t>(it - spec->tokens.begin());
  return absl::OkStatus();
}

absl::Status AddMerge(std::string text, TokenizerSpec* spec) {
  if (std::count(text.begin(), text.end(), ' ') != 1 || text.size() > 2 * kMaxTokenBytes + 1) {
    return BadTokenizer(absl::StrCat("merge ", spec->merges.size(), " is not two tokens without spaces"));
  }
  spec->merges.push_back(std::move(text));
  return absl::OkStatus();
}

// The merge as "left right". Files write it so, or since tokenizers 0.20 as a pair of strings. Empty for anything else.
std::string MergeText(const Json& merge) {
  if (merge.is_string()) return merge.get<std::string>();
  if (!merge.is_array() || merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string()) return "";
  return absl::StrCat(*merge[0].get_ptr<const std::string*>(), " ", *merge[1].get_ptr<const std::string*>());
}

absl::Status ReadMerges(const HfTokenizerJson& file, const JsonFields& fields, TokenizerSpec* spec) {
  BATON_ASSIGN_OR_RETURN(const Json* merges, fields.Array("merges"));
  const size_t count = file.merges.has_value() ? file.merges->size() : merges == nullptr ? 0 : merges->size();
  if ((merges == nullptr && !file.merges.has_value()) || count > kMaxMerges) {
    return fields.Refuse("merges", absl::StrCat("an array of at most ", kMaxMerges));
  }
  spec->merges.reserve(count);
  if (file.merges.has_value()) {
    for (const std::string& merge : *file.merges) BATON_RETURN_IF_ERROR(AddMerge(merge, spec));
  } else {
    for (const Json& merge : *merges) BATON_RETURN_IF_ERROR(AddMerge(MergeText(merge), spec));
  }
  return absl::OkStatus();
}

absl::Status CheckModel(const JsonFields& fields) {
  BATON_ASSIGN_OR_RETURN(const std::optional<std::string> type, fields.String("type"));
  if (type.value_or("BPE") != "BPE") return fields.NotBuilt("type");
  for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    BATON_ASSIGN_OR_RETURN(const std::optional<std::string> affix, fields.String(key));
    if (!affix.value_or("").empty()) return fields.NotBuilt(key);
  }
  BATON_ASSIGN_OR_RETURN(const std::optional<double> dropout, fields.Number("dropout"));
  if (dropout.value_or(0) != 0) return fields.NotBuilt("dropout");
  return absl::OkStatus();
}

absl::Status ReadAddedToken(const Json& entry, bool normalizes, TokenizerSpec* spec) {
  const JsonFields fields(entry, absl::StrCat(ToAbsl(kTokenizerFile), ": added token"));
  BATON_ASSIGN_OR_RETURN(const std::optional<std::string> content, fields.String("content"));
  size_t index = 0;
  BATON_RETURN_IF_ERROR(SetToken(content.value_or(""), fields.Find("id"), spec, &index));
  for (const std::string_view key : {"single_word", "lstrip", "rstrip", "normalized"}) {
    BATON_ASSIGN_OR_RETURN(const std::optional<bool> set, fields.Bool(key));
    // Such a token is looked for in the normalized text, which is the text itself if there is no normalizer.
    const bool harmless = key == "normalized" && !normalizes;
    if (set.value_or(false) && !harmless) {
      return absl::UnimplementedError(absl::StrCat(ToAbsl(kTokenizerFile), ": added token ", ShowText(*content), " is ",
                                                   ToAbsl(key), ", which Baton does not do; use another model"));
    }
  }
  BATON_ASSIGN_OR_RETURN(const std::optional<bool> special, fields.Bool("special"));
  spec->token_types[index] = special.value_or(false) ? TokenType::kControl : TokenType::kUserDefined;
  return absl::OkStatus();
}

absl::Status ReadAddedTokens(const JsonFields& fields, TokenizerSpec* spec) {
  BATON_ASSIGN_OR_RETURN(const Json* added, fields.Array("added_tokens"));
  if (added == nullptr) return absl::OkStatus();
  for (const Json& entry : *added) {
    BATON_RETURN_IF_ERROR(ReadAddedToken(entry, fields.Find("normalizer") != nullptr, spec));
  }
  return absl::OkStatus();
}

int32_t FindToken(const TokenizerSpec& spec, std::string_view text) {
  const auto it = std::find(spec.tokens.begin(), spec.tokens.end(), text);
  return it == spec.tokens.end() ? -1 : static_cast<int32_t>(it - spec.tokens.begin());
}

// A special token is given by its text, either plain or as the content of an object. Keeps `id` if there is none.
absl::Status ReadSpecialToken(const JsonFields& fields, std::string_view key, const TokenizerSpec& spec, int32_t* id) {
  const Json* value = fields.Find(key);
  if (value == nullptr) return absl::OkStatus();
  const JsonFields object(*value, fields.file());
  const Json* content = value->is_object() ? object.Find("content") : value;
  if (content == nullptr || !content->is_string()) return fields.Refuse(key, "a token's text");
  const int32_t found = FindToken(spec, *content->get_ptr<const std::string*>());
  if (found < 0) return fields.Refuse(key, "a token of tokenizer.json");
  *id = found;
  return absl::OkStatus();
}

// A file has one template, or several with names; "default" is then the one for chats.
absl::Status ReadTemplates(const JsonFields& fields, TokenizerSpec* spec) {
  const Json* value = fields.Find("chat_template");
  if (value == nullptr) return absl::OkStatus();
  const Json* chosen = value->is_string() ? value : nullptr;
  if (value->is_array()) {
    for (const Json& entry : *value) {
      const JsonFields named(entry, fields.file());
      const Json* name = named.Find("name");
      if (name != nullptr && *name == "default") chosen = named.Find("template");
    }
    if (chosen == nullptr) return absl::OkStatus();
  }
  if (chosen == nullptr || !chosen->is_string()) return fields.Refuse("chat_template", "a template's text");
  spec->chat_template = chosen->get<std::string>();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TokenizerSpec> ReadHfTokenizer(const HfTokenizerJson& file, int32_t vocab_size) {
  const JsonFields fields(file.json, kTokenizerFile);
  BATON_ASSIGN_OR_RETURN(const Json* model, fields.Object("model"));
  if (model == nullptr) return fields.Refuse("model", "an object");
  const JsonFields model_fields(*model, absl::StrCat(ToAbsl(kTokenizerFile), ": model"));
  BATON_RETURN_IF_ERROR(CheckModel(model_fields));
  TokenizerSpec spec;
  spec.tokens.resize(static_cast<size_t>(vocab_size));
  spec.token_types.assign(spec.tokens.size(), TokenType::kUnused);
  BATON_RETURN_IF_ERROR(ReadVocab(file, model_fields, &spec));
  BATON_RETURN_IF_ERROR(ReadMerges(file, model_fields, &spec));
  BATON_RETURN_IF_ERROR(ReadAddedTokens(fields, &spec));
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    // The embedding has rows for ids that no text leads to.
    if (spec.tokens[id].empty()) spec.tokens[id] = absl::StrCat("[PAD", id, "]");
  }
  BATON_ASSIGN_OR_RETURN(const std::optional<bool> byte_fallback, model_fields.Bool("byte_fallback"));
  spec.model = byte_fallback.value_or(false) ? "llama" : "gpt2";
  BATON_ASSIGN_OR_RETURN(spec.ignore_merges, model_fields.Bool("ignore_merges"));
  if (spec.model == "llama") {
    if (spec.ignore_merges.value_or(false)) return model_fields.NotBuilt("ignore_merges");
    BATON_RETURN_IF_ERROR(ReadSentencePieceSteps(fields, &spec));
  } else {
    spec.ignore_merges = spec.ignore_merges.value_or(false);
    BATON_RETURN_IF_ERROR(ReadByteLevelSteps(fields, &spec));
  }
  BATON_ASSIGN_OR_RETURN(const std::string bos, ReadAddedBos(fields));
  if (bos.empty()) return spec;
  spec.bos_id = FindToken(spec, bos);
  if (spec.bos_id < 0)
    return BadTokenizer(absl::StrCat("the post-processor adds ", ShowText(bos), ", which is no token"));
  spec.add_bos = true;
  return spec;
}

absl::Status ReadHfTokenizerConfig(const Json& config, TokenizerSpec* spec) {
  const JsonFields fields(config, "tokenizer_config.json");
  BATON_RETURN_IF_ERROR(ReadSpecialToken(fields, "bos_token", *spec, &spec->bos_id));
  BATON_RETURN_IF_ERROR(ReadSpecialToken(fields, "eos_token", *spec, &spec->eos_id));
  BATON_RETURN_IF_ERROR(ReadSpecialToken(fields, "pad_token", *spec, &spec->padding_id));
  BATON_ASSIGN_OR_RETURN(const std::optional<bool> add_bos, fields.Bool("add_bos_token"));
  spec->add_bos = add_bos.value_or(spec->add_bos);
  if (spec->add_bos && spec->bos_id < 0) return fields.Refuse("bos_token", "a token, since add_bos_token is true");
  return ReadTemplates(fields, spec);
}

}  // namespace baton::modelfile
