#include "simulator/kept_oracle.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "engine/testing/fake_model.h"
#include "router/job_output.h"
#include "simulator/loop_process.h"
#include "tokenizer/bpe.h"

namespace baton::simulator {
namespace {

modelfile::TokenizerSpec FakeTokens() {
  const std::vector<std::string> parts = {"\xc3", "\xa9", "\xe2", "\x82", "\xac", "\xff", " ", "\n"};
  modelfile::TokenizerSpec spec{.model = "gpt2", .pre_tokenizer = "smollm", .eos_id = kEosId, .eos_ids = {kEosId}};
  const int32_t count = engine::FakeModelOptions().vocab_size;
  for (int32_t id = 0; id < count; ++id) {
    const auto number = static_cast<size_t>(id);
    const std::string bytes = number < parts.size() ? parts[number]
                              : id % 3 == 0         ? absl::StrCat("w", id)
                                                    : std::string(1, static_cast<char>('A' + id));
    spec.tokens.push_back(id == kEosId ? "<|end|>" : tokenizer::BytesToByteLevel(bytes));
    spec.token_types.push_back(id == kEosId ? modelfile::TokenType::kControl : modelfile::TokenType::kNormal);
  }
  return spec;
}

router::ServedModel MakeServedFakeModel() {
  router::ServedModel model;
  model.name = "fake";
  model.config.vocab_size = engine::FakeModelOptions().vocab_size;
  auto tokenizer = tokenizer::Tokenizer::Create(FakeTokens());
  BATON_CHECK(tokenizer.ok()) << tokenizer.status();
  model.tokenizer = *std::move(tokenizer);
  return model;
}

}  // namespace

const router::ServedModel& ServedFakeModel() {
  static const router::ServedModel kModel = MakeServedFakeModel();
  return kModel;
}

KeptOracle MakeKeptOracle(const std::vector<int32_t>& tokens, const std::vector<std::string>& stop) {
  absl::StatusOr<router::JobOutput> output = router::JobOutput::Create(*ServedFakeModel().tokenizer, stop);
  BATON_CHECK(output.ok()) << output.status();
  KeptOracle oracle;
  for (const int32_t token : tokens) {
    oracle.tokens.push_back(token);
    oracle.text += output->Push(token).value();
    oracle.text_ends.push_back(oracle.text.size());
    if (output->stopped()) break;
  }
  oracle.text += output->Flush();
  oracle.is_cut = output->stopped();
  return oracle;
}

}  // namespace baton::simulator
