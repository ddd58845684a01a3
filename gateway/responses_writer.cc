#include "gateway/responses_writer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "gateway/api_error.h"
#include "gateway/json_writing.h"
#include "gateway/openai_logprobs.h"

namespace baton::gateway {
namespace {

const char* StatusOf(const router::GenerationFinished& finished) {
  return finished.reason == FinishReason::kStop ? "completed" : "incomplete";
}

// The inside of a list of log-probabilities.
std::string EntriesOf(const tokenizer::Tokenizer& tokenizer, const router::GenerationDelta& delta) {
  if (!delta.has_logprobs) return {};
  const std::string list = LogprobEntries(tokenizer, delta.tokens);
  return list.substr(1, list.size() - 2);
}

std::string ResponsesUsage(const router::GenerationUsage& usage) {
  return absl::StrCat(R"({"input_tokens":)", usage.prompt_tokens,
                      R"(,"input_tokens_details":{"cache_write_tokens":0,"cached_tokens":)", usage.cached_prompt_tokens,
                      R"(},"output_tokens":)", usage.output_tokens,
                      R"(,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":)",
                      usage.prompt_tokens + usage.output_tokens, "}");
}

}  // namespace

std::string ResponsesWriter::Response(const char* status, const std::string& output, const std::string& end) const {
  const ResponsesRequest& asked = answer_.request;
  return absl::StrCat(R"({"id":"resp_)", answer_.id, R"(","object":"response","created_at":)", answer_.created_unix_s,
                      R"(,"status":")", status, R"(","background":false,"instructions":)", asked.instructions,
                      R"(,"max_output_tokens":)", asked.max_output_tokens, R"(,"metadata":)", asked.metadata,
                      R"(,"model":)", JsonString(answer_.model), R"(,"output":[)", output,
                      R"(],"parallel_tool_calls":)", asked.parallel_tool_calls,
                      R"(,"previous_response_id":null,"store":false,"temperature":)", asked.temperature, R"(,"text":)",
                      asked.text, R"(,"tool_choice":)", asked.tool_choice, R"(,"tools":)", asked.tools, R"(,"top_p":)",
                      asked.top_p, R"(,"truncation":"disabled")", end, "}");
}

std::string ResponsesWriter::Finished(const router::GenerationFinished& finished) const {
  const char* const status = StatusOf(finished);
  const bool is_cut = finished.reason != FinishReason::kStop;
  return Response(
      status, output_.Items(status),
      absl::StrCat(R"(,"error":null,"incomplete_details":)", is_cut ? R"({"reason":"max_output_tokens"})" : "null",
                   R"(,"usage":)", ResponsesUsage(finished.usage)));
}

void ResponsesWriter::Begin() {
  if (std::exchange(has_begun_, true)) return;
  const std::string response = absl::StrCat(
      R"(,"response":)", Response("in_progress", "", R"(,"error":null,"incomplete_details":null,"usage":null)"));
  events_.Add("response.created", response);
  events_.Add("response.in_progress", response);
  output_.Begin();
}

void ResponsesWriter::Append(const router::GenerationDelta& delta) {
  output_.Add(delta.text, EntriesOf(tokenizer_, delta));
}

std::string ResponsesWriter::Chunk(const router::GenerationDelta& delta) {
  Begin();
  Append(delta);
  return events_.Take();
}

std::string ResponsesWriter::End(const router::GenerationFinished& finished) {
  Begin();
  output_.End(StatusOf(finished));
  const bool is_cut = finished.reason != FinishReason::kStop;
  events_.Add(is_cut ? "response.incomplete" : "response.completed",
              absl::StrCat(R"(,"response":)", Finished(finished)));
  return events_.Take();
}

std::string ResponsesWriter::End(const absl::Status& status) {
  Begin();
  const ApiError error = DescribeError(status);
  const std::string end =
      absl::StrCat(R"(,"error":{"code":")", error.http_status == 429 ? "rate_limit_exceeded" : "server_error",
                   R"(","message":)", JsonString(error.message), R"(},"incomplete_details":null,"usage":null)");
  events_.Add("response.failed", absl::StrCat(R"(,"response":)", Response("failed", output_.Items("incomplete"), end)));
  return events_.Take();
}

std::string ResponsesWriter::Whole(absl::Span<const router::GenerationDelta> outputs,
                                   const router::GenerationFinished& finished) {
  output_.Begin();
  Append(outputs.front());
  output_.End(StatusOf(finished));
  return Finished(finished);
}

}  // namespace baton::gateway
