#include "cli/generation_json.h"

#include <utility>

namespace baton::cli {
namespace {

using Json = nlohmann::ordered_json;

// How a token is written comes before its number, where it is known.
Json TokenJson(int32_t id, const TokenTexts& texts) {
  Json json = {{"token_id", id}};
  if (const auto found = texts.find(id); found != texts.end()) json["token"] = found->second;
  return json;
}

// The token is one of the output or of the prompt.
template <typename Token>
Json TokenLogprobs(const Token& token, const TokenTexts& texts) {
  Json json = TokenJson(token.id(), texts);
  json["logprob"] = token.logprob();
  json["top"] = Json::array();
  for (const v1::TopLogprob& entry : token.top_logprobs()) {
    Json& top = json["top"].emplace_back(TokenJson(entry.id(), texts));
    top["logprob"] = entry.logprob();
  }
  return json;
}

// Adds what the answer says of the prompt, whose first token has no log-probability.
void AddPrompt(const v1::Prompt& prompt, const TokenTexts& texts, Json& json) {
  if (!prompt.text().empty()) json["prompt_text"] = prompt.text();
  for (const v1::PromptToken& token : prompt.tokens()) {
    Json entry = TokenLogprobs(token, texts);
    entry["rank"] = token.rank();
    if (!token.has_logprob()) {
      entry = TokenJson(token.id(), texts);
      entry["logprob"] = nullptr;
    }
    json["prompt_logprobs"].push_back(std::move(entry));
  }
}

template <typename Token>
void AddIds(const Token& token, std::set<int32_t>& ids) {
  ids.insert(token.id());
  for (const v1::TopLogprob& entry : token.top_logprobs()) ids.insert(entry.id());
}

Json TimingJson(const v1::PhaseTimes& timing) {
  return {{"queue", timing.queue_ms()},       {"admission", timing.admission_ms()}, {"prefill", timing.prefill_ms()},
          {"transfer", timing.transfer_ms()}, {"decode", timing.decode_ms()},       {"network", timing.network_ms()},
          {"total", timing.total_ms()}};
}

Json ChoiceJson(const GeneratedChoice& choice, const TokenTexts& texts) {
  Json json;
  json["token_ids"] = Json::array();
  for (const v1::OutputToken& token : choice.tokens) json["token_ids"].push_back(token.id());
  json["text"] = choice.text;
  AddPrompt(choice.prompt, texts, json);
  if (!choice.tokens.empty() && choice.tokens.front().has_logprob()) {
    for (const v1::OutputToken& token : choice.tokens) json["logprobs"].push_back(TokenLogprobs(token, texts));
  }
  return json;
}

}  // namespace

const char* ReasonName(v1::FinishReason reason) { return reason == v1::FINISH_REASON_STOP ? "stop" : "length"; }

std::set<int32_t> IdsWithLogprobs(const Generation& generation) {
  std::set<int32_t> ids;
  for (const GeneratedChoice& choice : generation.choices) {
    for (const v1::PromptToken& token : choice.prompt.tokens()) AddIds(token, ids);
    for (const v1::OutputToken& token : choice.tokens) {
      if (token.has_logprob()) AddIds(token, ids);
    }
  }
  return ids;
}

Json FinishedJson(const v1::Finished& finished) {
  Json json;
  json["finish_reason"] = ReasonName(finished.reason());
  json["usage"] = {{"prompt_tokens", finished.usage().prompt_tokens()},
                   {"output_tokens", finished.usage().output_tokens()},
                   {"cached_prompt_tokens", finished.usage().cached_prompt_tokens()}};
  json["timing_ms"] = TimingJson(finished.timing());
  json["transfer"] = {{"bytes", finished.transfer().bytes()},
                      {"read_ms", finished.transfer().read_ms()},
                      {"digest_ms", finished.transfer().digest_ms()},
                      {"tail_ms", finished.transfer().tail_ms()}};
  if (!finished.kv_digest().empty()) json["kv_digest"] = finished.kv_digest();
  json["job_id"] = finished.job_id();
  json["seed"] = finished.seed();
  if (finished.has_other_numerics_from()) json["other_numerics_from"] = finished.other_numerics_from();
  return json;
}

Json GenerationJson(const Generation& generation, const TokenTexts& texts) {
  Json json;
  if (generation.choices.size() == 1) {
    json = ChoiceJson(generation.choices.front(), texts);
  } else {
    for (const GeneratedChoice& choice : generation.choices) {
      Json one = ChoiceJson(choice, texts);
      one["finish_reason"] = ReasonName(choice.reason);
      json["choices"].push_back(std::move(one));
    }
  }
  json.update(FinishedJson(generation.finished));
  return json;
}

Json OutputJson(const v1::Output& output, bool are_several) {
  Json json;
  if (are_several) json["choice"] = output.choice();
  json["text"] = output.text();
  AddPrompt(output.prompt(), {}, json);
  json["token_ids"] = Json::array();
  for (const v1::OutputToken& token : output.tokens()) {
    json["token_ids"].push_back(token.id());
    if (token.has_logprob()) json["logprobs"].push_back(TokenLogprobs(token, {}));
  }
  if (output.finish_reason() != v1::FINISH_REASON_UNSPECIFIED)
    json["finish_reason"] = ReasonName(output.finish_reason());
  return json;
}

}  // namespace baton::cli
