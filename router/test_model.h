// A served model for tests: tiny, in memory, with a chat template.
#ifndef BATON_ROUTER_TEST_MODEL_H_
#define BATON_ROUTER_TEST_MODEL_H_

#include "common/check.h"
#include "modelfile/tiny_llama.h"
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

}  // namespace baton::router

#endif  // BATON_ROUTER_TEST_MODEL_H_
