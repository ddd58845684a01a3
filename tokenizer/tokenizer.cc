#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status.h"
#include "common/utf8.h"
#include "tokenizer/stream_detokenizer.h"

namespace baton::tokenizer {
namespace {

using modelfile::TokenizerSpec;
using modelfile::TokenType;

constexpr std::string_view kByteLevel = "gpt2";
constexpr std::string_view kSentencePiece = "llama";
// What templates trim.
constexpr char kBlanks[] = " \t\n\v\f\r";

// Whether the token is found as written, before any splitting or merging.
bool IsAdded(TokenType type) { return type == TokenType::kControl || type == TokenType::kUserDefined; }
// Whether the token is left out of the answer's text.
bool IsSpecialType(TokenType type) { return type == TokenType::kControl; }

absl::Status CheckId(std::string_view name, int32_t id, size_t vocab_size) {
  if (id >= -1 && id < static_cast<int64_t>(vocab_size)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tokenizer ", ToAbsl(name), " id ", id, " is not in the vocabulary of ", vocab_size, " tokens"));
}

absl::Status CheckSpec(const TokenizerSpec& spec) {
  if (spec.model.empty()) {
    return absl::NotFoundError(
        absl::StrCat("the model has no tokenizer: ", spec.source, " is missing; fetch the model again, with it"));
  }
  if (spec.model != kByteLevel && spec.model != kSentencePiece) {
    return absl::UnimplementedError(
        absl::StrCat("tokenizer model \"", spec.model,
                     "\" is not supported: byte-level BPE (\"gpt2\") and SentencePiece BPE (\"llama\") are"));
  }
  if (spec.tokens.empty()) return absl::InvalidArgumentError("the tokenizer has no tokens");
  if (spec.tokens.size() > static_cast<size_t>(INT32_MAX) || spec.merges.size() > static_cast<size_t>(INT32_MAX)) {
    return absl::InvalidArgumentError("the tokenizer has more than 2^31 tokens or merges");
  }
  if (spec.token_types.size() != spec.tokens.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the tokenizer has ", spec.tokens.size(), " tokens but ",
                                                   spec.token_types.size(), " token types"));
  }
  BATON_RETURN_IF_ERROR(CheckId("BOS", spec.bos_id, spec.tokens.size()));
  BATON_RETURN_IF_ERROR(CheckId("EOS", spec.eos_id, spec.tokens.size()));
  BATON_RETURN_IF_ERROR(CheckId("unknown", spec.unknown_id, spec.tokens.size()));
  BATON_RETURN_IF_ERROR(CheckId("padding", spec.padding_id, spec.tokens.size()));
  if (spec.add_bos && spec.bos_id < 0) {
    return absl::InvalidArgumentError("the tokenizer adds BOS but names no BOS id");
  }
  return absl::OkStatus();
}

// The form in which rules and special tokens name the token.
std::string WrittenForm(const TokenizerSpec& spec, size_t id) {
  const std::string& token = spec.tokens[id];
  if (spec.model != kSentencePiece || !IsSpaceRun(token)) return token;
  std::string written;
  for (size_t i = 0; i < token.size(); ++i) written += kWrittenSpace;
  return written;
}

absl::StatusOr<Vocabulary> BuildVocabulary(const TokenizerSpec& spec) {
  Vocabulary vocab;
  vocab.reserve(spec.tokens.size());
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const std::string token = WrittenForm(spec, id);
    if (token.empty()) return absl::InvalidArgumentError(absl::StrCat("tokenizer token ", id, " is empty"));
    const auto [it, inserted] = vocab.try_emplace(token, static_cast<int32_t>(id));
    if (!inserted) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokenizer tokens ", it->second, " and ", id, " have the same text"));
    }
  }
  return vocab;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> TokenTexts(const TokenizerSpec& spec) {
  BATON_RETURN_IF_ERROR(CheckSpec(spec));
  std::vector<std::string> texts(spec.tokens.size());
  for (size_t id = 0; id < texts.size(); ++id) {
    const TokenType type = spec.token_types[id];
    if (IsSpecialType(type) || type == TokenType::kUnknown || type == TokenType::kUnused) continue;
    texts[id] = spec.model == kByteLevel ? ByteLevelToBytes(spec.tokens[id]) : PieceToBytes(WrittenForm(spec, id));
  }
  return texts;
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Create(const TokenizerSpec& spec) {
  BATON_RETURN_IF_ERROR(CheckSpec(spec));
  BATON_ASSIGN_OR_RETURN(const Vocabulary vocab, BuildVocabulary(spec));

  auto tokenizer = std::unique_ptr<Tokenizer>(new Tokenizer());
  tokenizer->bos_id_ = spec.bos_id;
  tokenizer->eos_id_ = spec.eos_id;
  tokenizer->unknown_id_ = spec.unknown_id;
  tokenizer->padding_id_ = spec.padding_id;
  tokenizer->adds_bos_ = spec.add_bos;
  tokenizer->token_bytes_.reserve(spec.tokens.size());
  tokenizer->special_.reserve(spec.tokens.size());
  const absl::Status status =
      spec.model == kByteLevel ? tokenizer->InitByteLevel(spec, vocab) : tokenizer->InitSentencePiece(spec, vocab);
  if (!status.ok()) return status;
  tokenizer->InitMinTokens(spec, vocab);
  return tokenizer;
}

void Tokenizer::InitMinTokens(const TokenizerSpec& spec, const Vocabulary& vocab) {
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    longest_token_bytes_ = std::max({longest_token_bytes_, WrittenForm(spec, id).size(), token_bytes_[id].size()});
  }
  // A byte-level tokenizer drops a byte that is no token, and the other kind makes one unknown token of several
  // characters that it cannot write as bytes.
  for (size_t byte = 0; byte < kept_bytes_.size(); ++byte) {
    const std::string text(1, static_cast<char>(byte));
    kept_bytes_[byte] = pieces_ == nullptr ? vocab.contains(BytesToByteLevel(text)) : pieces_->has_all_bytes();
  }
}

size_t Tokenizer::MinTokens(std::string_view text) const {
  const auto kept =
      std::count_if(text.begin(), text.end(), [this](char c) { return kept_bytes_[static_cast<uint8_t>(c)]; });
  return (static_cast<size_t>(kept) + longest_token_bytes_ - 1) / longest_token_bytes_;
}

void Tokenizer::AddToken(std::string bytes, TokenType type) {
  token_bytes_.push_back(std::move(bytes));
  special_.push_back(IsSpecialType(type));
}

absl::Status Tokenizer::InitByteLevel(const TokenizerSpec& spec, const Vocabulary& vocab) {
  const PreTokenizerFamily* family = FindPreTokenizerFamily(spec.pre_tokenizer);
  if (family == nullptr) {
    return absl::UnimplementedError(absl::StrCat("pre-tokenizer \"", spec.pre_tokenizer,
                                                 "\" is not supported: add a row to tokenizer/pre_tokenizer_table.cc"));
  }
  const bool ignore_merges = spec.ignore_merges.value_or(family->ignore_merges);
  Vocabulary whole_words;
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const TokenType type = spec.token_types[id];
    AddToken(ByteLevelToBytes(spec.tokens[id]), type);
    if (IsAdded(type)) all_added_.Add(spec.tokens[id], static_cast<int32_t>(id));
    if (type == TokenType::kUserDefined) user_defined_.Add(spec.tokens[id], static_cast<int32_t>(id));
    if (type == TokenType::kControl) control_.Add(spec.tokens[id], static_cast<int32_t>(id));
    if (ignore_merges && type == TokenType::kNormal) {
      whole_words.emplace(token_bytes_.back(), static_cast<int32_t>(id));
    }
  }
  BATON_RETURN_IF_ERROR(bpe_.Build(vocab, spec.merges));
  bpe_.SetWholeWords(std::move(whole_words));
  BATON_ASSIGN_OR_RETURN(pre_tokenizer_, PreTokenizer::Create(*family));
  return absl::OkStatus();
}

absl::Status Tokenizer::InitSentencePiece(const TokenizerSpec& spec, const Vocabulary& vocab) {
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const std::string written = WrittenForm(spec, id);
    // transformers treats the unknown token as a special token.
    const TokenType type = spec.token_types[id] == TokenType::kUnknown ? TokenType::kControl : spec.token_types[id];
    AddToken(PieceToBytes(written), type);
    byte_token_.push_back(ByteOfToken(written).has_value());
    const bool user_defined = type == TokenType::kUserDefined && !IsSpaceRun(spec.tokens[id]);
    if (user_defined || type == TokenType::kControl) all_added_.Add(written, static_cast<int32_t>(id));
    if (user_defined) user_defined_.Add(written, static_cast<int32_t>(id));
    if (type == TokenType::kControl) control_.Add(written, static_cast<int32_t>(id));
  }
  strips_space_prefix_ = spec.space_prefix != modelfile::SpacePrefix::kNone;
  BATON_ASSIGN_OR_RETURN(pieces_, SentencePieceEncoder::Create(spec, vocab));
  return absl::OkStatus();
}

absl::Status Tokenizer::EncodePlain(std::string_view text, bool at_start, size_t max_ids,
                                    std::vector<int32_t>* ids) const {
  if (text.empty()) return absl::OkStatus();
  if (pieces_ != nullptr) {
    pieces_->Encode(text, at_start, ids);
    return absl::OkStatus();
  }
  std::vector<std::string_view> words;
  BATON_RETURN_IF_ERROR(pre_tokenizer_->Split(text, &words));
  for (const std::string_view word : words) {
    if (ids->size() > max_ids) break;
    bpe_.Merge(word, ids);
  }
  return absl::OkStatus();
}

std::vector<size_t> Tokenizer::FindSpecialSpellings(std::string_view text) const {
  const size_t last = text.find_last_not_of(kBlanks);
  const std::string_view trimmed = text.substr(0, last == std::string_view::npos ? 0 : last + 1);
  std::vector<size_t> begins;
  for (size_t begin = 0; begin < text.size(); ++begin) {
    if (!control_.MayBeginWith(text[begin])) continue;
    const SpecialTokenMatcher::Match match = control_.MatchAt(text, begin);
    const bool is_cut = match.cut || (begin < trimmed.size() && control_.MatchAt(trimmed, begin).cut);
    if (match.id >= 0 || is_cut) begins.push_back(begin);
  }
  return begins;
}

SpecialTokenMatcher::Match Tokenizer::FindAdded(std::string_view text, size_t from,
                                                const EncodeOptions& options) const {
  if (!options.parse_special) return user_defined_.Find(text, from);
  while (true) {
    const SpecialTokenMatcher::Match match = all_added_.Find(text, from);
    if (match.id < 0 || !IsSpecial(match.id)) return match;
    if (!std::binary_search(options.literal_at.begin(), options.literal_at.end(), match.begin)) return match;
    const SpecialTokenMatcher::Match user_defined = user_defined_.MatchAt(text, match.begin);
    if (user_defined.id >= 0) return user_defined;
    from = match.begin + 1;
  }
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::Encode(std::string_view text, const EncodeOptions& options) const {
  if (text.size() > kMaxEncodeBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the text has ", text.size(), " bytes; at most ", kMaxEncodeBytes, " can be tokenized"));
  }
  if (const size_t valid = ValidUtf8Bytes(text); valid != text.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the text is not valid UTF-8 at byte ", valid));
  }
  std::vector<int32_t> ids;
  if (options.add_bos && adds_bos_) ids.push_back(bos_id_);
  size_t done = 0;
  while (done < text.size()) {
    const SpecialTokenMatcher::Match match = FindAdded(text, done, options);
    const size_t plain_end = match.id < 0 ? text.size() : match.begin;
    BATON_RETURN_IF_ERROR(EncodePlain(text.substr(done, plain_end - done), done == 0, options.max_ids, &ids));
    if (match.id >= 0) ids.push_back(match.id);
    if (ids.size() > options.max_ids) {
      return absl::OutOfRangeError(absl::StrCat("the text has more than ", options.max_ids, " tokens"));
    }
    done = match.id < 0 ? text.size() : match.end;
  }
  return ids;
}

absl::StatusOr<std::string> Tokenizer::Decode(absl::Span<const int32_t> ids, bool skip_special,
                                              size_t max_bytes) const {
  StreamDetokenizer stream(*this, skip_special);
  std::string text;
  for (const int32_t id : ids) {
    BATON_ASSIGN_OR_RETURN(const std::string piece, stream.Push(id));
    text += piece;
    if (text.size() > max_bytes) break;
  }
  text += stream.Flush();
  if (text.size() > max_bytes) {
    return absl::OutOfRangeError(absl::StrCat("the tokens have a text of more than ", max_bytes, " bytes"));
  }
  return text;
}

const std::string& Tokenizer::TokenBytes(int32_t id) const {
  BATON_CHECK(IsValidId(id)) << "token id " << id;
  return token_bytes_[id];
}

}  // namespace baton::tokenizer
