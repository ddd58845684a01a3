#include "tokenizer/pre_tokenizer.h"

#include <string>
#include <utility>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/check.h"
#include "common/status.h"

namespace baton::tokenizer {
namespace {

// Letters that Unicode 15 and 16 added. `tokenizers` 0.23 knows them, PCRE2 10.42 (Unicode 14) does not; a PCRE2 that
// knows them matches the same. The list was found by asking the library about every code point:
// scripts/oracles/tokenizer_oracle.py --classes repeats that.
constexpr char kNewLetters[] =
    R"(\x{1C89}-\x{1C8A}\x{A7CB}-\x{A7CD}\x{A7DA}-\x{A7DC}\x{105C0}-\x{105F3}\x{10D4A}-\x{10D65}\x{10D6F}-\x{10D85})"
    R"(\x{10EC2}-\x{10EC4}\x{1123F}-\x{11240}\x{11380}-\x{11389}\x{1138B}\x{1138E}\x{11390}-\x{113B5}\x{113B7})"
    R"(\x{113D1}\x{113D3}\x{11BC0}-\x{11BE0}\x{11F02}\x{11F04}-\x{11F10}\x{11F12}-\x{11F33}\x{1342F})"
    R"(\x{13441}-\x{13446}\x{13460}-\x{143FA}\x{16100}-\x{1611D}\x{16D40}-\x{16D6C}\x{18CFF}\x{1B132}\x{1B155})"
    R"(\x{1DF25}-\x{1DF2A}\x{1E030}-\x{1E06D}\x{1E4D0}-\x{1E4EB}\x{1E5D0}-\x{1E5ED}\x{1E5F0}\x{2B739})"
    R"(\x{2EBF0}-\x{2EE5D}\x{31350}-\x{323AF})";
// The numbers that Unicode 15 and 16 added.
constexpr char kNewNumbers[] =
    R"(\x{10D40}-\x{10D49}\x{116D0}-\x{116E3}\x{11BF0}-\x{11BF9}\x{11F50}-\x{11F59}\x{16130}-\x{16139})"
    R"(\x{16D70}-\x{16D79}\x{1CCF0}-\x{1CCF9}\x{1D2C0}-\x{1D2D3}\x{1E4F0}-\x{1E4F9}\x{1E5F1}-\x{1E5FA})";
// The Digits pre-tokenizer asks Rust's standard library, which knows Unicode 17.
constexpr char kNewDigits[] = R"(\x{11DE0}-\x{11DE9}\x{16FF4}-\x{16FF6})";
// The property White_Space. PCRE2's \s also has U+180E, which is not a space since Unicode 6.3.
constexpr char kSpaces[] =
    R"(\t-\r\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

// Expands {L}, {N} and {S} to the letters, numbers and spaces of the library's regular expressions, and {D} to the
// numbers of its Digits step. The result is the content of a character class.
std::string ExpandClasses(std::string_view pattern) {
  const std::string numbers = absl::StrCat(R"(\p{N})", kNewNumbers);
  return absl::StrReplaceAll(ToAbsl(pattern), {{"{L}", absl::StrCat(R"(\p{L})", kNewLetters)},
                                               {"{N}", numbers},
                                               {"{S}", kSpaces},
                                               {"{D}", absl::StrCat(numbers, kNewDigits)}});
}

// The bound of one match attempt. The table's patterns do not nest repeats and need far less.
constexpr uint32_t kMatchLimit = 10'000'000;
constexpr uint32_t kDepthLimit = 1'000;

std::string PcreMessage(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

template <auto Free>
struct FreePcre {
  template <typename T>
  void operator()(T* p) const {
    Free(p);
  }
};
using CodePtr = std::unique_ptr<pcre2_code, FreePcre<pcre2_code_free>>;
using MatchDataPtr = std::unique_ptr<pcre2_match_data, FreePcre<pcre2_match_data_free>>;
using MatchContextPtr = std::unique_ptr<pcre2_match_context, FreePcre<pcre2_match_context_free>>;

struct PreTokenizer::Stage {
  CodePtr code;
  // All threads share it and only read it. JIT code runs in 32 KiB of the thread's own stack; that suffices because a
  // repeat of a class needs no stack, however long the match is.
  MatchContextPtr context;

  absl::Status Split(std::string_view piece, pcre2_match_data* data, std::vector<std::string_view>* out) const;
};

PreTokenizer::~PreTokenizer() = default;

absl::StatusOr<std::unique_ptr<PreTokenizer>> PreTokenizer::Create(const PreTokenizerFamily& family) {
  auto result = std::unique_ptr<PreTokenizer>(new PreTokenizer());
  for (const std::string_view pattern : family.stages) {
    if (pattern.empty()) continue;
    const std::string expanded = ExpandClasses(pattern);
    int error = 0;
    size_t offset = 0;
    auto stage = std::make_unique<Stage>();
    stage->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expanded.data()), expanded.size(),
                                    PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr));
    if (stage->code == nullptr) {
      return absl::InternalError(absl::StrCat("pre-tokenizer ", ToAbsl(family.name), " does not compile at ", offset,
                                              ": ", PcreMessage(error)));
    }
    stage->context.reset(pcre2_match_context_create(nullptr));
    BATON_CHECK(stage->context != nullptr) << "out of memory";
    pcre2_set_match_limit(stage->context.get(), kMatchLimit);
    pcre2_set_depth_limit(stage->context.get(), kDepthLimit);
    // Where the machine forbids executable memory, matching runs without JIT: slower, with the same result.
    (void)pcre2_jit_compile(stage->code.get(), PCRE2_JIT_COMPLETE);
    result->stages_.push_back(std::move(stage));
  }
  return result;
}

absl::Status PreTokenizer::Stage::Split(std::string_view piece, pcre2_match_data* data,
                                        std::vector<std::string_view>* out) const {
  size_t done = 0;
  size_t search_from = 0;
  while (search_from < piece.size()) {
    // The caller has checked once that the piece is valid UTF-8. A check per match would take quadratic time.
    const int matches = pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(piece.data()), piece.size(), search_from,
                                    PCRE2_NO_UTF_CHECK, data, context.get());
    if (matches == PCRE2_ERROR_NOMATCH) break;
    if (matches < 0) {
      return absl::ResourceExhaustedError(
          absl::StrCat("pre-tokenizing stopped at byte ", search_from, ": ", PcreMessage(matches)));
    }
    const PCRE2_SIZE* const range = pcre2_get_ovector_pointer(data);
    const size_t begin = range[0];
    const size_t end = range[1];
    // No pattern of the table has an empty match.
    BATON_CHECK(begin >= done && end > begin && end <= piece.size());
    if (begin > done) out->push_back(piece.substr(done, begin - done));
    out->push_back(piece.substr(begin, end - begin));
    done = search_from = end;
  }
  if (done < piece.size()) out->push_back(piece.substr(done));
  return absl::OkStatus();
}

absl::Status PreTokenizer::Split(std::string_view text, std::vector<std::string_view>* words) const {
  std::vector<std::string_view> pieces = {text};
  for (const std::unique_ptr<Stage>& stage : stages_) {
    const MatchDataPtr data(pcre2_match_data_create_from_pattern(stage->code.get(), nullptr));
    BATON_CHECK(data != nullptr) << "out of memory";
    std::vector<std::string_view> next;
    next.reserve(pieces.size() + text.size() / 4);
    for (const std::string_view piece : pieces) BATON_RETURN_IF_ERROR(stage->Split(piece, data.get(), &next));
    pieces = std::move(next);
  }
  words->insert(words->end(), pieces.begin(), pieces.end());
  return absl::OkStatus();
}

}  // namespace baton::tokenizer
