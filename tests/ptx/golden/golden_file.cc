#include "tests/ptx/golden/golden_file.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/status.h"
#include "engine/kernels/half.h"

namespace baton::ptx {
namespace {

constexpr char kFirstLine[] = "baton PTX fragments 1";
constexpr int kLanesOfFile = 32;
constexpr int kMostWords = 64;

class GoldenParser {
 public:
  explicit GoldenParser(std::string_view text) : lines_(absl::StrSplit(ToAbsl(text), '\n')) {}

  absl::StatusOr<GoldenFile> Parse() {
    if (Next() != kFirstLine) return Wrong("the first line of a golden file");
    GoldenFile file;
    file.device = std::string(After("device "));
    if (file.device.empty()) return Wrong("a device");
    if (!absl::SimpleAtoi(After("capability "), &file.capability)) return Wrong("a capability");
    if (!absl::SimpleAtoi(After("driver "), &file.driver)) return Wrong("a driver");
    while (Next() != "end") {
      BATON_ASSIGN_OR_RETURN(FragmentResult result, ParseFragment());
      file.results.push_back(std::move(result));
    }
    return file;
  }

 private:
  // The next line, which becomes the current one; empty behind the last.
  absl::string_view Next() { return line_ < lines_.size() ? lines_[line_++] : absl::string_view(); }
  absl::string_view Current() const { return lines_[line_ - 1]; }
  absl::string_view After(absl::string_view prefix) {
    absl::string_view line = Next();
    return absl::ConsumePrefix(&line, prefix) ? line : absl::string_view();
  }
  absl::Status Wrong(absl::string_view wanted) const {
    return absl::InvalidArgumentError(absl::StrCat("line ", line_, " is not ", wanted));
  }

  // Of its first line, which is the current one, and those of its lanes.
  absl::StatusOr<FragmentResult> ParseFragment() {
    const std::vector<absl::string_view> parts = absl::StrSplit(Current(), ' ');
    FragmentResult result;
    if (parts.size() != 4 || parts[0] != "fragment" || !absl::SimpleAtoi(parts[2], &result.words) || result.words < 1 ||
        result.words > kMostWords) {
      return Wrong("a fragment with its words and digest, nor the end");
    }
    result.name = std::string(parts[1]);
    result.inputs = std::string(parts[3]);
    for (int lane = 0; lane < kLanesOfFile; ++lane) {
      const std::vector<absl::string_view> words = absl::StrSplit(After(absl::StrCat("lane ", lane, " ")), ' ');
      if (words.size() != static_cast<size_t>(result.words)) return Wrong(absl::StrCat("lane ", lane));
      for (const absl::string_view word : words) {
        uint32_t value = 0;
        if (!absl::SimpleHexAtoi(word, &value)) return Wrong("in hexadecimal");
        result.values.push_back(value);
      }
    }
    return result;
  }

  const std::vector<absl::string_view> lines_;
  size_t line_ = 0;
};

bool IsWithin(uint32_t got, uint32_t want, float tolerance) {
  const float a = engine::kernels::BitsToFloat(got), b = engine::kernels::BitsToFloat(want);
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::fabs(double{a} - b) <= tolerance;
}

// What is wrong with the fragment; empty: nothing.
std::string DifferenceOf(const FragmentResult& golden, const Fragment& fragment, const FragmentResult& result,
                         int& other_bits) {
  if (golden.inputs != result.inputs || golden.words != result.words) {
    return absl::StrCat(result.name, " was recorded with other inputs: record it again");
  }
  int wrong = 0;
  std::string first;
  for (size_t i = 0; i < result.values.size(); ++i) {
    const uint32_t got = result.values[i], want = golden.values[i];
    if (got == want) continue;
    if (!fragment.tolerances.empty() && IsWithin(got, want, fragment.tolerances[i])) {
      ++other_bits;
      continue;
    }
    if (++wrong > 1) continue;
    const int words = result.words, at = static_cast<int>(i);
    first = absl::StrFormat("lane %d, word %d is %08x and not %08x", at / words, at % words, got, want);
  }
  if (wrong == 0) return "";
  return absl::StrFormat("%s: %d of %d words are wrong; %s", result.name, wrong, result.values.size(), first);
}

}  // namespace

std::string GoldenText(const GoldenFile& file) {
  std::string text = absl::StrFormat("%s\ndevice %s\ncapability %d\ndriver %d\n", kFirstLine, file.device,
                                     file.capability, file.driver);
  for (const FragmentResult& result : file.results) {
    absl::StrAppendFormat(&text, "fragment %s %d %s\n", result.name, result.words, result.inputs);
    for (int lane = 0; lane < kLanesOfFile; ++lane) {
      absl::StrAppendFormat(&text, "lane %d", lane);
      for (int i = 0; i < result.words; ++i) {
        absl::StrAppendFormat(&text, " %08x", result.values[static_cast<size_t>(lane * result.words + i)]);
      }
      text += '\n';
    }
  }
  return text + "end\n";
}

absl::StatusOr<GoldenFile> ParseGolden(std::string_view text) { return GoldenParser(text).Parse(); }

std::string GoldenName(const GoldenFile& file) {
  std::string name = file.device;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '-'; },
      '_');
  return absl::StrCat(name, "-sm", file.capability, ToAbsl(kGoldenSuffix));
}

GoldenComparison CompareWithGolden(const GoldenFile& golden, const std::vector<Fragment>& fragments,
                                   const std::vector<FragmentResult>& results) {
  GoldenComparison comparison;
  for (size_t i = 0; i < fragments.size(); ++i) {
    const auto found = std::find_if(golden.results.begin(), golden.results.end(),
                                    [&](const FragmentResult& one) { return one.name == fragments[i].name; });
    if (found == golden.results.end()) {
      comparison.not_recorded.push_back(fragments[i].name);
      continue;
    }
    const std::string difference = DifferenceOf(*found, fragments[i], results[i], comparison.other_bits);
    if (!difference.empty()) comparison.differences.push_back(difference);
  }
  return comparison;
}

}  // namespace baton::ptx
