// grammar_bench MODEL...: what masks cost with the vocabulary of each model file: compiling a schema of 30 properties,
// the first mask inside a JSON string, the first one inside a string of another property, a mask that is known, the
// first masks of all lengths of a string with a maxLength, and what costly grammars and masks take.
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/grammar_matcher.h"
#include "grammar/token_masks.h"
#include "grammar/vocabulary.h"
#include "modelfile/model_file.h"
#include "tokenizer/tokenizer.h"

namespace baton::grammar {
namespace {

double ThreadUs() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e6 * static_cast<double>(time.tv_sec) + 1e-3 * static_cast<double>(time.tv_nsec);
}

// On the core: a neighbour takes other time.
double TimeUs(const std::function<void()>& work) {
  const double begin = ThreadUs();
  work();
  return ThreadUs() - begin;
}

double MedianUs(int times, const std::function<double()>& measure) {
  std::vector<double> samples;
  for (int i = 0; i < times; ++i) samples.push_back(measure());
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

std::string SchemaOf(int properties) {
  const char* const types[] = {R"({"type": "string"})", R"({"type": "integer", "minimum": 0, "maximum": 150})",
                               R"({"type": "array", "items": {"type": "string"}})", R"({"enum": ["red", "green"]})",
                               R"({"anyOf": [{"type": "number"}, {"type": "null"}]})"};
  std::string members;
  std::string required;
  for (int i = 0; i < properties; ++i) {
    const std::string name = "\"property_" + std::to_string(i) + "\"";
    members += (i == 0 ? "" : ", ") + name + ": " + types[i % 5];
    if (i % 2 == 0) required += (i == 0 ? "" : ", ") + name;
  }
  return R"({"type": "object", "properties": {)" + members + R"(}, "required": [)" + required +
         R"(], "additionalProperties": false})";
}

std::shared_ptr<const Vocabulary> VocabularyOf(const std::string& path) {
  const auto file = modelfile::OpenModelFile(path);
  if (!file.ok()) return nullptr;
  const auto tokenizer = tokenizer::Tokenizer::Create((*file)->tokenizer());
  if (!tokenizer.ok()) return nullptr;
  std::vector<std::string> bytes;
  for (int32_t id = 0; id < (*tokenizer)->vocab_size(); ++id) {
    bytes.push_back((*tokenizer)->IsSpecial(id) ? "" : (*tokenizer)->TokenBytes(id));
  }
  return Vocabulary::Create(std::move(bytes), (*file)->tokenizer().eos_ids);
}

void Write(GrammarMatcher& matcher, const Vocabulary& vocabulary, const std::string& text) {
  for (const char byte : text) {
    for (int32_t id = 0; id < vocabulary.size(); ++id) {
      if (vocabulary.bytes(id) == std::string(1, byte) && matcher.Accept(id)) break;
    }
  }
}

void MeasureMasks(const std::shared_ptr<const Vocabulary>& vocabulary) {
  const auto grammar = *CompileGrammar({GrammarKind::kJsonSchema, SchemaOf(30)});
  double other = 0;
  const double cold = MedianUs(15, [&] {
    const auto masks = std::make_shared<TokenMasks>(grammar, vocabulary);
    GrammarMatcher matcher(masks);
    Write(matcher, *vocabulary, R"({"property_0": "a)");
    const double first = TimeUs([&] { matcher.mask(); });
    Write(matcher, *vocabulary, R"(", "property_2": ["a)");
    other = TimeUs([&] { matcher.mask(); });
    return first;
  });
  std::printf("  first mask in a string: %.0f us, in a string of another property: %.0f us\n", cold, other);
  const auto masks = std::make_shared<TokenMasks>(grammar, vocabulary);
  GrammarMatcher matcher(masks);
  Write(matcher, *vocabulary, R"({"property_0": "a)");
  int32_t letter = 0;
  while (vocabulary->bytes(letter) != "a") ++letter;
  constexpr int kTimes = 100'000;
  uint64_t sum = matcher.mask().words[0];
  const double warm = TimeUs([&] {
    for (int i = 0; i < kTimes; ++i) sum += matcher.mask().words[0] + (matcher.Accept(letter) ? 1 : 0);
  });
  std::printf("  known mask and Accept: %.3f us (%llu), kept: %zu KiB\n", warm / kTimes,
              static_cast<unsigned long long>(sum % 2), masks->MemoryBytes() >> 10);
}

void MeasureLengths(const std::shared_ptr<const Vocabulary>& vocabulary) {
  constexpr int kLengths = 40;
  const auto grammar = *CompileGrammar({GrammarKind::kJsonSchema, R"({"type": "string", "maxLength": 40})"});
  const double all = MedianUs(15, [&] {
    GrammarMatcher matcher(std::make_shared<TokenMasks>(grammar, vocabulary));
    Write(matcher, *vocabulary, "\"");
    double us = 0;
    for (int i = 0; i < kLengths; ++i) {
      us += TimeUs([&] { matcher.mask(); });
      Write(matcher, *vocabulary, "a");
    }
    return us;
  });
  std::printf("  first mask of a length of a string: %.0f us, mean of %d\n", all / kLengths, kLengths);
}

// An output of which each letter may be one of the first half or of the second, and the first half is remembered: no
// two texts lead to the same place.
std::string HostileEbnf() {
  std::string root = "root ::= (";
  std::string rules;
  for (char c = 'a'; c <= 'z'; ++c) {
    const std::string letter(1, c);
    root += (c == 'a' ? "\"" : " | \"") + letter + "\" root end_" + letter;
    rules += "\nend_" + letter + " ::= [a-zA-Z ]";
  }
  return root + ")?" + rules;
}

void MeasureHostile(const std::shared_ptr<const Vocabulary>& vocabulary) {
  const auto grammar = CompileGrammar({GrammarKind::kEbnf, HostileEbnf()});
  if (!grammar.ok()) {
    std::printf("  the hostile grammar: %s\n", std::string(grammar.status().message()).c_str());
    return;
  }
  for (const int letters : {0, 20, 60, 100}) {
    GrammarMatcher matcher(std::make_shared<TokenMasks>(*grammar, vocabulary, size_t{8} << 20));
    std::string text;
    for (int i = 0; i < letters; ++i) text += static_cast<char>('a' + i * 7 % 26);
    Write(matcher, *vocabulary, text);
    int64_t steps = int64_t{1} << 20;
    const double stopped = TimeUs([&] { matcher.FindMask(steps); });
    const double us = TimeUs([&] { matcher.mask(); });
    std::printf(
        "  first mask of a hostile grammar behind %d letters: %.0f us, and %.0f us of 2^20 steps before, %lld left\n",
        letters, us, stopped, static_cast<long long>(steps));
  }
}

int Run(int argc, char** argv) {
  for (const int length : {10, 11, 12, 13, 14}) {
    const std::string text = "(a|b)*a(a|b){" + std::to_string(length) + "}";
    bool is_legal = false;
    const double us = MedianUs(5, [&] {
      return TimeUs([&] { is_legal = CompileGrammar({GrammarKind::kRegex, text}).ok(); });
    });
    std::printf("compile %s: %.0f us, %s\n", text.c_str(), us, is_legal ? "legal" : "refused");
  }
  for (const int properties : {30, 100}) {
    const std::string schema = SchemaOf(properties);
    const double us = MedianUs(15, [&] {
      return TimeUs([&] { (void)CompileGrammar({GrammarKind::kJsonSchema, schema}).ok(); });
    });
    std::printf("compile a schema of %d properties: %.0f us\n", properties, us);
  }
  for (int i = 1; i < argc; ++i) {
    std::shared_ptr<const Vocabulary> vocabulary;
    const double us = TimeUs([&] { vocabulary = VocabularyOf(argv[i]); });
    if (vocabulary == nullptr) {
      std::fprintf(stderr, "%s has no vocabulary\n", argv[i]);
      return 1;
    }
    std::printf("%s: %d tokens, %zu nodes, %zu KiB, read in %.0f ms\n", argv[i], vocabulary->size(),
                vocabulary->nodes().size(), vocabulary->MemoryBytes() >> 10, us / 1000);
    MeasureMasks(vocabulary);
    MeasureLengths(vocabulary);
    MeasureHostile(vocabulary);
  }
  return 0;
}

}  // namespace
}  // namespace baton::grammar

int main(int argc, char** argv) { return baton::grammar::Run(argc, argv); }
