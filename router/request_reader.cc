#include "router/request_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/limits.h"
#include "common/status.h"
#include "router/error_details.h"

namespace baton::router {
namespace {

constexpr size_t kMaxTenantBytes = 128;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

grpc::Status CheckStop(const v1::GenerateRequest& request) {
  if (request.stop_size() > kMaxStopStrings) {
    return FieldViolation("stop", absl::StrCat("at most ", kMaxStopStrings, " strings, not ", request.stop_size()));
  }
  for (const std::string& stop : request.stop()) {
    if (stop.empty() || stop.size() > kMaxStopStringBytes) {
      return FieldViolation("stop", absl::StrCat("each string has 1 to ", kMaxStopStringBytes, " bytes"));
    }
  }
  return grpc::Status::OK;
}

}  // namespace

#define BATON_RETURN_IF_GRPC_ERROR(expr)               \
  do {                                                 \
    if (grpc::Status s_ = (expr); !s_.ok()) return s_; \
  } while (false)

grpc::Status RequestReader::CheckModel(const std::string& model) const {
  if (model.empty() || model == model_.name) return grpc::Status::OK;
  return {grpc::StatusCode::NOT_FOUND,
          absl::StrCat("model ", model.substr(0, kMaxTenantBytes), " is not served here; ", model_.name, " is")};
}

grpc::Status RequestReader::EncodeText(const std::string& text, std::vector<int32_t>& ids) const {
  if (text.size() > kMaxPromptBytes) {
    return FieldViolation("text", absl::StrCat("at most ", kMaxPromptBytes, " bytes, not ", text.size()));
  }
  auto encoded = model_.tokenizer->Encode(text, {.add_bos = true, .parse_special = true});
  if (!encoded.ok()) return FieldViolation("text", Message(encoded.status()));
  ids = *std::move(encoded);
  return grpc::Status::OK;
}

grpc::Status RequestReader::EncodeChat(const v1::ChatPrompt& chat, bool add_generation_prompt,
                                       std::vector<int32_t>& ids) const {
  if (!model_.chat_template.has_value()) return FieldViolation("chat", "this model has no chat template: send text");
  if (chat.messages_size() == 0 || chat.messages_size() > kMaxChatMessages) {
    return FieldViolation("chat.messages",
                          absl::StrCat("1 to ", kMaxChatMessages, " messages, not ", chat.messages_size()));
  }
  const tokenizer::Tokenizer& tokenizer = *model_.tokenizer;
  tokenizer::ChatInput input{.messages = {},
                             .add_generation_prompt = add_generation_prompt,
                             .bos_token = tokenizer.TokenText(tokenizer.bos_id()),
                             .eos_token = tokenizer.TokenText(tokenizer.eos_id())};
  size_t bytes = 0;
  for (const v1::ChatMessage& message : chat.messages()) {
    bytes += message.role().size() + message.content().size();
    input.messages.push_back({.role = message.role(), .content = message.content()});
  }
  if (bytes > kMaxPromptBytes) {
    return FieldViolation("chat.messages", absl::StrCat("at most ", kMaxPromptBytes, " bytes, not ", bytes));
  }
  auto text = model_.chat_template->RenderChat(input);
  if (!text.ok()) return FieldViolation("chat", Message(text.status()));
  auto encoded = tokenizer.Encode(*text, {.add_bos = false, .parse_special = true});
  if (!encoded.ok()) return FieldViolation("chat", Message(encoded.status()));
  ids = *std::move(encoded);
  return grpc::Status::OK;
}

grpc::Status RequestReader::ReadPrompt(const v1::GenerateRequest& request, std::vector<int32_t>& ids) const {
  switch (request.prompt_case()) {
    case v1::GenerateRequest::kText:
      BATON_RETURN_IF_GRPC_ERROR(EncodeText(request.text(), ids));
      break;
    case v1::GenerateRequest::kChat:
      BATON_RETURN_IF_GRPC_ERROR(EncodeChat(request.chat(), /*add_generation_prompt=*/true, ids));
      break;
    case v1::GenerateRequest::kTokenIds:
      ids = {request.token_ids().ids().begin(), request.token_ids().ids().end()};
      break;
    case v1::GenerateRequest::PROMPT_NOT_SET:
      return FieldViolation("prompt", "set text, chat or token_ids");
  }
  if (ids.empty()) return FieldViolation("prompt", "must not be empty");
  for (int32_t id : ids) {
    if (id < 0 || id >= model_.config.vocab_size) {
      return FieldViolation("token_ids", absl::StrCat("id ", id, " is not in [0, ", model_.config.vocab_size, ")"));
    }
  }
  if (static_cast<int64_t>(ids.size()) >= model_.config.context_length) {
    return FieldViolation("prompt", absl::StrCat(ids.size(), " tokens leave no room in the model's context of ",
                                                 model_.config.context_length));
  }
  return grpc::Status::OK;
}

grpc::Status RequestReader::ReadSampling(const v1::SamplingParams& proto, SamplingParams& params) const {
  params = model_.sampling_defaults;
  if (proto.has_temperature()) params.temperature = proto.temperature();
  if (proto.has_top_k()) params.top_k = proto.top_k();
  if (proto.has_top_p()) params.top_p = proto.top_p();
  if (proto.has_min_p()) params.min_p = proto.min_p();
  if (proto.has_repetition_penalty()) params.repetition_penalty = proto.repetition_penalty();
  if (proto.has_frequency_penalty()) params.frequency_penalty = proto.frequency_penalty();
  if (proto.has_presence_penalty()) params.presence_penalty = proto.presence_penalty();
  params.seed = proto.has_seed() ? proto.seed() : random_.Next64();
  if (proto.has_max_tokens()) params.max_tokens = proto.max_tokens();
  params.min_tokens = proto.min_tokens();
  params.ignore_eos = proto.ignore_eos();
  params.stop_token_ids = {proto.stop_token_ids().begin(), proto.stop_token_ids().end()};
  if (proto.has_logprobs()) {
    // -1 means "none" inside; a client leaves the field out instead.
    if (proto.logprobs() < 0) return FieldViolation("sampling.logprobs", "must not be negative");
    params.logprobs = proto.logprobs();
  }
  const absl::Status status = ValidateSamplingParams(params, model_.config.vocab_size);
  if (status.ok()) return grpc::Status::OK;
  const std::string message = Message(status);
  const size_t colon = message.find(": ");
  return FieldViolation("sampling." + message.substr(0, colon), message.substr(colon + 2));
}

grpc::Status RequestReader::Read(const v1::GenerateRequest& request, PreparedJob& prepared) const {
  prepared = {};
  BATON_RETURN_IF_GRPC_ERROR(CheckModel(request.model()));
  BATON_RETURN_IF_GRPC_ERROR(CheckStop(request));
  if (request.tenant().size() > kMaxTenantBytes) {
    return FieldViolation("tenant", absl::StrCat("at most ", kMaxTenantBytes, " bytes"));
  }
  BATON_RETURN_IF_GRPC_ERROR(ReadSampling(request.sampling(), prepared.job.sampling));
  BATON_RETURN_IF_GRPC_ERROR(ReadPrompt(request, prepared.job.prompt));
  prepared.job.tenant = request.tenant();
  prepared.job.want_kv_digest = request.return_kv_digest();
  prepared.stop = {request.stop().begin(), request.stop().end()};
  return grpc::Status::OK;
}

grpc::Status RequestReader::Read(const v1::TokenizeRequest& request, std::vector<int32_t>& token_ids) const {
  BATON_RETURN_IF_GRPC_ERROR(CheckModel(request.model()));
  if (request.has_chat()) return EncodeChat(request.chat(), /*add_generation_prompt=*/true, token_ids);
  if (request.text().size() > kMaxPromptBytes) {
    return FieldViolation("text", absl::StrCat("at most ", kMaxPromptBytes, " bytes, not ", request.text().size()));
  }
  auto encoded = model_.tokenizer->Encode(request.text(), {.add_bos = false, .parse_special = true});
  if (!encoded.ok()) return FieldViolation("text", Message(encoded.status()));
  token_ids = *std::move(encoded);
  return grpc::Status::OK;
}

grpc::Status RequestReader::Read(const v1::DetokenizeRequest& request, std::string& text) const {
  BATON_RETURN_IF_GRPC_ERROR(CheckModel(request.model()));
  const std::vector<int32_t> ids(request.token_ids().begin(), request.token_ids().end());
  auto decoded = model_.tokenizer->Decode(ids, request.skip_special_tokens());
  if (!decoded.ok()) return FieldViolation("token_ids", Message(decoded.status()));
  text = *std::move(decoded);
  return grpc::Status::OK;
}

}  // namespace baton::router
