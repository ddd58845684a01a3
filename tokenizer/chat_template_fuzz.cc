// libFuzzer over template texts. Parsing and rendering give valid UTF-8 within the limits, or one error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/check.h"
#include "common/utf8.h"
#include "nlohmann/json.hpp"
#include "tokenizer/chat_template.h"

namespace {

// These limits are so low that one input takes milliseconds even with sanitizers.
baton::tokenizer::jinja::Limits FuzzLimits() {
  baton::tokenizer::jinja::Limits limits;
  limits.steps = 20'000;
  limits.output_bytes = 64u << 10;
  limits.allocated_bytes = 1u << 20;
  limits.time_ms = 10'000;
  return limits;
}

const nlohmann::ordered_json& Variables() {
  static const auto* const variables = new nlohmann::ordered_json(nlohmann::ordered_json::parse(R"({
    "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": " Gr\u00fc\u00dfe \ud83d\ude00\n"},
                 {"role": "assistant", "content": null}],
    "add_generation_prompt": true, "bos_token": "<s>", "tools": [{"a": [1, 2.5, {"b": "x"}]}], "n": -7, "none": null
  })"));
  return *variables;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace baton::tokenizer;  // NOLINT: one function
  RenderOptions options;
  options.limits = FuzzLimits();
  const auto chat_template =
      ChatTemplate::Parse(std::string_view(reinterpret_cast<const char*>(data), bytes), options.limits);
  if (!chat_template.ok()) return 0;
  const auto text = chat_template->Render(Variables(), options);
  if (!text.ok()) return 0;
  BATON_CHECK(baton::IsValidUtf8(*text));
  BATON_CHECK(text->size() <= options.limits.output_bytes);
  return 0;
}
