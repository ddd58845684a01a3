#include "tokenizer/sentencepiece.h"

#include <algorithm>
#include <charconv>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "common/status.h"
#include "common/utf8.h"

namespace baton::tokenizer {
namespace {

using modelfile::SpacePrefix;
using modelfile::TokenizerSpec;
using modelfile::TokenType;

std::string EscapeSpaces(std::string_view text) {
  return absl::StrReplaceAll(ToAbsl(text), {{" ", ToAbsl(kWrittenSpace)}});
}

// How many bytes the character has that begins with this byte of valid UTF-8.
size_t CharacterBytes(char lead) {
  const auto byte = static_cast<uint8_t>(lead);
  if (byte < 0x80) return 1;
  return byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

std::optional<int32_t> FindToken(const Vocabulary& vocab, std::string_view written) {
  const auto it = vocab.find(ToAbsl(written));
  if (it == vocab.end()) return std::nullopt;
  return it->second;
}

// The ids of the tokens that derived rules may make, in the order of the rules' ranks.
std::vector<int32_t> MergeableTokens(const TokenizerSpec& spec) {
  std::vector<int32_t> ids;
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (spec.token_types[id] == TokenType::kNormal || IsSpaceRun(spec.tokens[id])) {
      ids.push_back(static_cast<int32_t>(id));
    }
  }
  // Converters give user-defined tokens a meaningless score. In the model's own file it is 0, the best.
  const auto score = [&spec](int32_t id) {
    const auto i = static_cast<size_t>(id);
    return spec.token_types[i] == TokenType::kNormal ? spec.scores[i] : 0.0f;
  };
  std::stable_sort(ids.begin(), ids.end(), [&score](int32_t a, int32_t b) { return score(a) > score(b); });
  return ids;
}

}  // namespace

std::optional<uint8_t> ByteOfToken(std::string_view written) {
  if (written.size() != 6 || !written.starts_with("<0x") || written.back() != '>') return std::nullopt;
  uint8_t byte = 0;
  const char* const end = written.data() + 5;
  const auto [parsed, error] = std::from_chars(written.data() + 3, end, byte, 16);
  if (error != std::errc() || parsed != end) return std::nullopt;
  return byte;
}

std::string PieceToBytes(std::string_view written) {
  if (const std::optional<uint8_t> byte = ByteOfToken(written)) return std::string(1, static_cast<char>(*byte));
  return absl::StrReplaceAll(ToAbsl(written), {{ToAbsl(kWrittenSpace), " "}});
}

bool IsSpaceRun(std::string_view token) {
  return !token.empty() && token.find_first_not_of(' ') == std::string_view::npos;
}

absl::StatusOr<std::unique_ptr<SentencePieceEncoder>> SentencePieceEncoder::Create(const TokenizerSpec& spec,
                                                                                   const Vocabulary& vocab) {
  auto encoder = std::unique_ptr<SentencePieceEncoder>(new SentencePieceEncoder());
  encoder->unknown_id_ = spec.unknown_id;
  encoder->space_prefix_ = spec.space_prefix;
  for (int b = 0; b < 256; ++b) {
    encoder->byte_ids_[static_cast<size_t>(b)] = FindToken(vocab, absl::StrFormat("<0x%02X>", b)).value_or(-1);
  }
  for (const auto& [token, id] : vocab) {
    if (CharacterBytes(token[0]) == token.size()) encoder->characters_.emplace(token, id);
  }
  if (!spec.merges.empty()) {
    BATON_RETURN_IF_ERROR(encoder->rules_.AddAll(vocab, spec.merges));
  } else if (spec.scores.size() == spec.tokens.size()) {
    encoder->DeriveRules(spec, vocab);
  } else {
    return absl::InvalidArgumentError(
        absl::StrFormat("the tokenizer has no merges, and %d scores for %d tokens: use another conversion of the model",
                        spec.scores.size(), spec.tokens.size()));
  }
  return encoder;
}

void SentencePieceEncoder::DeriveRules(const TokenizerSpec& spec, const Vocabulary& vocab) {
  rules_.Reserve(2 * spec.tokens.size());
  for (const int32_t merged : MergeableTokens(spec)) {
    const std::string written = EscapeSpaces(spec.tokens[static_cast<size_t>(merged)]);
    // Among the cuts of one token, the one with the longer left part ranks first.
    for (size_t cut = written.size() - 1; cut > 0; --cut) {
      const bool inside_character = (static_cast<uint8_t>(written[cut]) & 0xC0) == 0x80;
      if (inside_character) continue;
      const std::string_view text = written;
      const std::optional<int32_t> left = FindToken(vocab, text.substr(0, cut));
      if (!left.has_value()) continue;
      const std::optional<int32_t> right = FindToken(vocab, text.substr(cut));
      if (right.has_value()) rules_.Add({*left, *right, merged});
    }
  }
}

void SentencePieceEncoder::AddCharacter(std::string_view character, std::vector<int32_t>* symbols) const {
  if (const std::optional<int32_t> id = FindToken(characters_, character)) {
    symbols->push_back(*id);
    return;
  }
  const auto byte_id = [this](char byte) { return byte_ids_[static_cast<uint8_t>(byte)]; };
  if (std::all_of(character.begin(), character.end(), [&](char byte) { return byte_id(byte) >= 0; })) {
    for (const char byte : character) symbols->push_back(byte_id(byte));
  } else if (unknown_id_ >= 0 && (symbols->empty() || symbols->back() != unknown_id_)) {
    symbols->push_back(unknown_id_);
  }
}

void SentencePieceEncoder::Encode(std::string_view text, bool at_start, std::vector<int32_t>* ids) const {
  if (text.empty()) return;
  std::vector<int32_t> symbols;
  symbols.reserve(text.size() + 1);
  const bool begins_with_space = text.starts_with(' ') || text.starts_with(kWrittenSpace);
  if (space_prefix_ == SpacePrefix::kEach || (space_prefix_ == SpacePrefix::kFirst && at_start && !begins_with_space)) {
    AddCharacter(kWrittenSpace, &symbols);
  }
  for (size_t offset = 0; offset < text.size();) {
    const size_t bytes = CharacterBytes(text[offset]);
    AddCharacter(text[offset] == ' ' ? kWrittenSpace : text.substr(offset, bytes), &symbols);
    offset += bytes;
  }
  rules_.Merge(symbols, ids);
}

void ByteRunDecoder::Push(uint8_t byte, std::string* out) {
  if (broken_) {
    out->append(kReplacementCharacter);
    return;
  }
  run_.push_back(static_cast<char>(byte));
  const size_t valid = ValidUtf8Bytes(run_);
  if (valid < run_.size() && ClassifyUtf8Prefix(std::string_view(run_).substr(valid)).kind == Utf8Kind::kInvalid) {
    for (size_t i = 0; i < run_.size(); ++i) out->append(kReplacementCharacter);
    run_.clear();
    broken_ = true;
  } else if (run_.size() >= kMaxHeldRunBytes) {
    out->append(run_, 0, valid);
    run_.erase(0, valid);
  }
}

void ByteRunDecoder::EndRun(std::string* out) {
  if (IsValidUtf8(run_)) {
    out->append(run_);
  } else {
    for (size_t i = 0; i < run_.size(); ++i) out->append(kReplacementCharacter);
  }
  run_.clear();
  broken_ = false;
}

}  // namespace baton::tokenizer
