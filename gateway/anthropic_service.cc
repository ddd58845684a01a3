#include "gateway/anthropic_service.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "gateway/anthropic_request.h"
#include "gateway/anthropic_response.h"

namespace baton::gateway {
namespace {

constexpr ApiForm kAnthropicForm = {.make_error = AnthropicError, .request_id_header = "Request-Id"};

}  // namespace

void AnthropicService::AddRoutes(HttpServer& server) {
  server.AddRoute("POST", kMessagesPath, [this](const std::shared_ptr<HttpExchange>& exchange) {
    calls_.Generate(exchange, kAnthropicForm,
                    [this](const std::string& body, const JobId& id) { return Read(body, id); });
  });
  server.AddRoute(
      "POST", absl::StrCat(kMessagesPath, "/count_tokens"), [this](const std::shared_ptr<HttpExchange>& exchange) {
        calls_.Compute(exchange, kAnthropicForm, [this](const std::string& body) { return CountTokens(body); });
      });
}

absl::StatusOr<ReadCall> AnthropicService::Read(const std::string& body, const JobId& id) const {
  BATON_ASSIGN_OR_RETURN(AnthropicRequest read,
                         ReadAnthropicRequest(body, ToolStyleOf(ChatModelOf(calls_.model()).chat_template)));
  auto writer = std::make_unique<AnthropicWriter>(AnthropicAnswer{.id = absl::StrCat("msg_", id.ToHex()),
                                                                  .model = calls_.model().name,
                                                                  .max_tokens = *read.generation.sampling.max_tokens,
                                                                  .stop_sequences = read.generation.stop,
                                                                  .tools = std::move(read.tools),
                                                                  .is_stream = read.stream});
  return ReadCall{.generation = std::move(read.generation), .writer = std::move(writer), .is_stream = read.stream};
}

absl::StatusOr<std::string> AnthropicService::CountTokens(const std::string& body) const {
  BATON_ASSIGN_OR_RETURN(const AnthropicCount count,
                         ReadAnthropicCount(body, ToolStyleOf(ChatModelOf(calls_.model()).chat_template)));
  BATON_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, calls_.reader().Tokenize(count.model, count.prompt));
  return absl::StrCat(R"({"input_tokens":)", ids.size(), "}");
}

}  // namespace baton::gateway
