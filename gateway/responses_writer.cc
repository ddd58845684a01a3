#include "gateway/responses_writer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "gateway/api_error.h"
#include "gateway/json_writing.h"
#include "gateway/openai_logprobs.h"

namespace baton::gateway {
namespace {

// Where the one text of the one message is.
constexpr char kPlace[] = R"(,"output_index":0,"content_index":0)";

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

std::string ResponsesWriter::Event(const char* type, const std::string& members) {
  return absl::StrCat("event: ", type, "\ndata: {\"type\":\"", type, R"(","sequence_number":)", next_number_++, members,
                      "}\n\n");
}

std::string ResponsesWriter::Response(const char* status, const std::string& output, const std::string& end) const {
  const ResponsesRequest& asked = answer_.request;
  return absl::StrCat(R"({"id":"resp_)", answer_.id, R"(","object":"response","created_at":)", answer_.created_unix_s,
                      R"(,"status":")", status, R"(","background":false,"instructions":)", asked.instructions,
                      R"(,"max_output_tokens":)", asked.max_output_tokens, R"(,"metadata":)", asked.metadata,
                      R"(,"model":)", JsonString(answer_.model), R"(,"output":[)", output,
                      R"(],"parallel_tool_calls":true,"previous_response_id":null,"store":false,"temperature":)",
                      asked.temperature, R"(,"text":)", asked.text, R"(,"tool_choice":"auto","tools":[],"top_p":)",
                      asked.top_p, R"(,"truncation":"disabled")", end, "}");
}

std::string ResponsesWriter::Message(const char* status, const std::string& content) const {
  return absl::StrCat(R"({"id":"msg_)", answer_.id, R"(","type":"message","status":")", status,
                      R"(","role":"assistant","content":[)", content, "]}");
}

std::string ResponsesWriter::Part() const {
  return absl::StrCat(R"({"type":"output_text","annotations":[],"logprobs":[)", logprobs_, R"(],"text":)",
                      JsonString(text_), "}");
}

std::string ResponsesWriter::Finished(const router::GenerationFinished& finished) const {
  const char* const status = StatusOf(finished);
  const bool is_cut = finished.reason != FinishReason::kStop;
  return Response(
      status, Message(status, Part()),
      absl::StrCat(R"(,"error":null,"incomplete_details":)", is_cut ? R"({"reason":"max_output_tokens"})" : "null",
                   R"(,"usage":)", ResponsesUsage(finished.usage)));
}

std::string ResponsesWriter::Begin() {
  if (std::exchange(has_begun_, true)) return {};
  const std::string response = absl::StrCat(
      R"(,"response":)", Response("in_progress", "", R"(,"error":null,"incomplete_details":null,"usage":null)"));
  std::string events = Event("response.created", response);
  events += Event("response.in_progress", response);
  events +=
      Event("response.output_item.added", absl::StrCat(R"(,"output_index":0,"item":)", Message("in_progress", "")));
  return events + Event("response.content_part.added",
                        absl::StrCat(R"(,"item_id":"msg_)", answer_.id, "\"", kPlace, R"(,"part":)", Part()));
}

void ResponsesWriter::Append(const router::GenerationDelta& delta) {
  text_ += delta.text;
  const std::string entries = EntriesOf(tokenizer_, delta);
  absl::StrAppend(&logprobs_, logprobs_.empty() || entries.empty() ? "" : ",", entries);
}

std::string ResponsesWriter::Chunk(const router::GenerationDelta& delta) {
  std::string events = Begin();
  Append(delta);
  // Tokens without a text, which half a character is, change nothing that a client sees but their log-probabilities.
  if (delta.text.empty() && !delta.has_logprobs) return events;
  return events + Event("response.output_text.delta",
                        absl::StrCat(R"(,"item_id":"msg_)", answer_.id, "\"", kPlace, R"(,"delta":)",
                                     JsonString(delta.text), R"(,"logprobs":[)", EntriesOf(tokenizer_, delta), "]"));
}

std::string ResponsesWriter::End(const router::GenerationFinished& finished) {
  std::string events = Begin();
  const std::string item = absl::StrCat(R"(,"item_id":"msg_)", answer_.id, "\"", kPlace);
  events += Event("response.output_text.done",
                  absl::StrCat(item, R"(,"text":)", JsonString(text_), R"(,"logprobs":[)", logprobs_, "]"));
  events += Event("response.content_part.done", absl::StrCat(item, R"(,"part":)", Part()));
  events += Event("response.output_item.done",
                  absl::StrCat(R"(,"output_index":0,"item":)", Message(StatusOf(finished), Part())));
  const bool is_cut = finished.reason != FinishReason::kStop;
  return events + Event(is_cut ? "response.incomplete" : "response.completed",
                        absl::StrCat(R"(,"response":)", Finished(finished)));
}

std::string ResponsesWriter::End(const absl::Status& status) {
  std::string events = Begin();
  const ApiError error = DescribeError(status);
  const std::string end =
      absl::StrCat(R"(,"error":{"code":")", error.http_status == 429 ? "rate_limit_exceeded" : "server_error",
                   R"(","message":)", JsonString(error.message), R"(},"incomplete_details":null,"usage":null)");
  return events + Event("response.failed",
                        absl::StrCat(R"(,"response":)", Response("failed", Message("incomplete", Part()), end)));
}

std::string ResponsesWriter::Whole(absl::Span<const router::GenerationDelta> outputs,
                                   const router::GenerationFinished& finished) {
  Append(outputs.front());
  return Finished(finished);
}

}  // namespace baton::gateway
