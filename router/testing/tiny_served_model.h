// A tiny served model with a chat template, made in memory. For tests.
#ifndef BATON_ROUTER_TESTING_TINY_SERVED_MODEL_H_
#define BATON_ROUTER_TESTING_TINY_SERVED_MODEL_H_

#include "common/check.h"
#include "modelfile/testing/tiny_hf.h"
#include "modelfile/testing/tiny_llama.h"
#include "router/served_model.h"

namespace baton::router {

inline ServedModel TestModel() {
  modelfile::GgufWriter writer = modelfile::TinyLlamaWriter({});
  writer.AddString("tokenizer.chat_template",
                   "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}");
  const std::vector<uint8_t> bytes = writer.Finish();
  auto file = modelfile::ParseGguf(bytes.data(), bytes.size());
  BATON_CHECK(file.ok()) << file.status().message();
  auto model = ServedModel::Create("tiny", **file);
  BATON_CHECK(model.ok()) << model.status().message();
  return *std::move(model);
}

// The same model as a Hugging Face directory with this generation_config.json. Its chat template writes BOS itself; the
// tokenizer adds BOS to text.
inline absl::StatusOr<ServedModel> TestModelWithDefaults(const std::string& generation_config) {
  modelfile::HfContents contents =
      modelfile::TinyHf({.matrix_type = modelfile::TensorType::kF32, .embedding_type = modelfile::TensorType::kF32});
  contents["generation_config.json"] = generation_config;
  contents["tokenizer_config.json"] = R"({"bos_token": "<|start|>", "eos_token": "<|end|>", "add_bos_token": true})";
  contents["chat_template.jinja"] = "{{ bos_token }}{% for m in messages %}{{ m['content'] }}{% endfor %}";
  auto file = modelfile::ParseHf(std::move(contents));
  BATON_CHECK(file.ok()) << file.status();
  return ServedModel::Create("tiny", **file);
}

}  // namespace baton::router

#endif  // BATON_ROUTER_TESTING_TINY_SERVED_MODEL_H_
