#include "common/utf8.h"

#include "common/check.h"

namespace baton {
namespace {

// How many bytes a character with this first byte has (0 if no character begins with it), and the range of its second
// byte. That range excludes overlong forms, surrogates and values beyond U+10FFFF (Unicode 15, table 3-7).
struct LeadByte {
  size_t bytes;
  uint8_t second_min;
  uint8_t second_max;
};

LeadByte ClassifyLead(uint8_t b) {
  if (b < 0x80) return {1, 0, 0};
  if (b < 0xC2) return {0, 0, 0};
  if (b < 0xE0) return {2, 0x80, 0xBF};
  if (b == 0xE0) return {3, 0xA0, 0xBF};
  if (b == 0xED) return {3, 0x80, 0x9F};
  if (b < 0xF0) return {3, 0x80, 0xBF};
  if (b == 0xF0) return {4, 0x90, 0xBF};
  if (b < 0xF4) return {4, 0x80, 0xBF};
  if (b == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

uint8_t ByteAt(std::string_view text, size_t i) { return static_cast<uint8_t>(text[i]); }

}  // namespace

Utf8Prefix ClassifyUtf8Prefix(std::string_view text) {
  BATON_CHECK(!text.empty());
  const LeadByte lead = ClassifyLead(ByteAt(text, 0));
  if (lead.bytes == 0) return {Utf8Kind::kInvalid, 1};
  for (size_t i = 1; i < lead.bytes; ++i) {
    if (i == text.size()) return {Utf8Kind::kIncomplete, i};
    const uint8_t min = i == 1 ? lead.second_min : 0x80;
    const uint8_t max = i == 1 ? lead.second_max : 0xBF;
    if (ByteAt(text, i) < min || ByteAt(text, i) > max) return {Utf8Kind::kInvalid, i};
  }
  return {Utf8Kind::kValid, lead.bytes};
}

size_t ValidUtf8Bytes(std::string_view text) {
  size_t offset = 0;
  while (offset < text.size()) {
    if (ByteAt(text, offset) < 0x80) {
      ++offset;
      continue;
    }
    const Utf8Prefix prefix = ClassifyUtf8Prefix(text.substr(offset));
    if (prefix.kind != Utf8Kind::kValid) break;
    offset += prefix.bytes;
  }
  return offset;
}

uint32_t NextCodePoint(std::string_view text, size_t* offset) {
  const uint8_t lead = ByteAt(text, *offset);
  const size_t bytes = ClassifyLead(lead).bytes;
  BATON_CHECK(bytes > 0 && *offset + bytes <= text.size()) << "not valid UTF-8 at " << *offset;
  uint32_t code_point = bytes == 1 ? lead : lead & (0xFFu >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) code_point = code_point << 6 | (ByteAt(text, *offset + i) & 0x3Fu);
  *offset += bytes;
  return code_point;
}

void AppendUtf8(uint32_t code_point, std::string* out) {
  const auto put = [out](uint32_t byte) { out->push_back(static_cast<char>(byte)); };
  const auto put_tail = [&put, code_point](int shift) { put(0x80 | (code_point >> shift & 0x3F)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put_tail(0);
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put_tail(6);
    put_tail(0);
  } else {
    put(0xF0 | code_point >> 18);
    put_tail(12);
    put_tail(6);
    put_tail(0);
  }
}

size_t CountCodePoints(std::string_view text) {
  size_t count = 0;
  for (const char c : text) count += (static_cast<uint8_t>(c) & 0xC0) != 0x80;
  return count;
}

void Utf8LossyDecoder::Push(std::string_view bytes, std::string* out) {
  // Joining copies at most three bytes and the piece, which is as short as a token.
  std::string joined;
  if (!pending_.empty()) {
    joined = pending_;
    joined.append(bytes);
    bytes = joined;
    pending_.clear();
  }
  while (!bytes.empty()) {
    const Utf8Prefix prefix = ClassifyUtf8Prefix(bytes);
    if (prefix.kind == Utf8Kind::kIncomplete) {
      pending_.assign(bytes);
      return;
    }
    out->append(prefix.kind == Utf8Kind::kValid ? bytes.substr(0, prefix.bytes) : kReplacementCharacter);
    bytes.remove_prefix(prefix.bytes);
  }
}

void Utf8LossyDecoder::Flush(std::string* out) {
  if (!pending_.empty()) out->append(kReplacementCharacter);
  pending_.clear();
}

std::string DecodeUtf8Lossy(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  Utf8LossyDecoder decoder;
  decoder.Push(bytes, &out);
  decoder.Flush(&out);
  return out;
}

std::string DecodeUtf8LossyPrefix(std::string_view bytes, size_t max_bytes) {
  std::string_view prefix = bytes.substr(0, max_bytes);
  const size_t valid = ValidUtf8Bytes(prefix);
  if (valid == prefix.size()) return std::string(prefix);
  const bool is_cut_character = prefix.size() < bytes.size() && prefix.size() - valid < kMaxUtf8Bytes &&
                                ClassifyUtf8Prefix(prefix.substr(valid)).kind == Utf8Kind::kIncomplete;
  return is_cut_character ? std::string(prefix.substr(0, valid)) : DecodeUtf8Lossy(prefix);
}

}  // namespace baton
