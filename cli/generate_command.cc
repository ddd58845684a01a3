#include "cli/generate_command.h"

#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/choice_printer.h"
#include "cli/client_flags.h"
#include "cli/generation_client.h"
#include "cli/generation_json.h"
#include "cli/input_file.h"
#include "cli/options.h"
#include "cli/process.h"
#include "cli/utf8_check.h"
#include "common/limits.h"
#include "common/status.h"
#include "nlohmann/json.hpp"
#include "router/job.h"

namespace baton::cli {
namespace {

using Json = nlohmann::ordered_json;

// A message of kMaxMessageBytes, written as a list of token ids with spaces.
constexpr size_t kMaxInputBytes = 8 * static_cast<size_t>(kMaxMessageBytes);

struct GenerateFlags : ClientFlags {
  std::optional<std::string> prompt, prompt_file, token_ids, token_ids_file, messages;
  std::string tenant;
  std::string idempotency_key;
  std::optional<int32_t> prompt_logprobs;
  int priority = 0;
  int choices = 1;
  bool echo = false;
  bool allow_other_numerics = false;
  bool kv_digest = false;
  bool json = false;
  bool jsonl = false;
};

absl::Status ParseTokenIds(const std::string& text, v1::TokenIds& ids) {
  for (absl::string_view part : absl::StrSplit(text, absl::ByAnyChar(", \n\t[]"), absl::SkipEmpty())) {
    int32_t id = 0;
    if (!absl::SimpleAtoi(part, &id)) {
      return absl::InvalidArgumentError(absl::StrCat("'", part, "' is not a token id: write 1,2,3"));
    }
    ids.add_ids(id);
  }
  if (ids.ids().empty()) return absl::InvalidArgumentError("expected token ids: write 1,2,3");
  return absl::OkStatus();
}

// [{"role": "user", "content": "..."}, ...]
absl::Status ParseMessages(const std::string& text, v1::ChatPrompt& chat) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto bad = [] {
    return absl::InvalidArgumentError("messages must be a JSON list of {\"role\": ..., \"content\": ...}");
  };
  if (!json.is_array()) return bad();
  for (const Json& message : json) {
    if (!message.is_object() || !message.contains("role") || !message.contains("content") ||
        !message["role"].is_string() || !message["content"].is_string()) {
      return bad();
    }
    v1::ChatMessage* proto = chat.add_messages();
    proto->set_role(message["role"].get<std::string>());
    proto->set_content(message["content"].get<std::string>());
  }
  return absl::OkStatus();
}

// What the file of `flag` holds, by one of the functions above.
template <typename Proto>
absl::Status FillFromFile(const std::string& flag, const std::string& path,
                          absl::Status (*parse)(const std::string&, Proto&), Proto& proto) {
  BATON_ASSIGN_OR_RETURN(const std::string text, ReadInputFile(flag, path, kMaxInputBytes));
  absl::Status parsed = parse(text, proto);
  if (parsed.ok()) return parsed;
  return absl::InvalidArgumentError(absl::StrCat(flag, " ", path, ": ", parsed.message()));
}

absl::Status FillText(const std::string& text, v1::GenerateRequest& request) {
  BATON_RETURN_IF_ERROR(CheckUtf8(text));
  request.set_text(text);
  return absl::OkStatus();
}

absl::Status FillPrompt(const GenerateFlags& flags, v1::GenerateRequest& request) {
  if (flags.prompt) return FillText(*flags.prompt, request);
  if (flags.prompt_file) return FillFromFile("--prompt-file", *flags.prompt_file, FillText, request);
  if (flags.token_ids) return ParseTokenIds(*flags.token_ids, *request.mutable_token_ids());
  if (flags.token_ids_file) {
    return FillFromFile("--token-ids-file", *flags.token_ids_file, ParseTokenIds, *request.mutable_token_ids());
  }
  return FillFromFile("--messages", *flags.messages, ParseMessages, *request.mutable_chat());
}

void PrintLine(const Json& json) {
  std::cout << json.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
}

// Tells people where the time went. It goes to stderr, so that stdout has nothing but the text.
void PrintTiming(const v1::Finished& finished) {
  const v1::PhaseTimes& t = finished.timing();
  std::fprintf(stderr,
               "\n%s after %d prompt and %d output tokens, %.1f ms: queue %.1f, admission %.1f, prefill %.1f, "
               "transfer %.1f, decode %.1f, network %.1f\n",
               ReasonName(finished.reason()), finished.usage().prompt_tokens(), finished.usage().output_tokens(),
               t.total_ms(), t.queue_ms(), t.admission_ms(), t.prefill_ms(), t.transfer_ms(), t.decode_ms(),
               t.network_ms());
}

void PrintOtherNumerics(const v1::Finished& finished) {
  if (!finished.has_other_numerics_from()) return;
  std::fprintf(stderr, "workers with other numerics made the output from token %d on\n",
               finished.other_numerics_from() + 1);
}

absl::Status Generate(const GenerateFlags& flags) {
  v1::GenerateRequest request;
  request.set_model(flags.model);
  request.set_tenant(flags.tenant);
  request.set_idempotency_key(flags.idempotency_key);
  request.set_priority(flags.priority);
  request.set_return_kv_digest(flags.kv_digest || flags.json);
  request.set_echo(flags.echo);
  request.set_allow_other_numerics(flags.allow_other_numerics);
  FillSampling(flags.sampling, request);
  if (flags.prompt_logprobs) request.mutable_sampling()->set_prompt_logprobs(*flags.prompt_logprobs);
  BATON_RETURN_IF_ERROR(FillPrompt(flags, request));
  if (flags.choices != 1) request.set_choices(flags.choices);
  ChoicePrinter printer(flags.choices, isatty(STDOUT_FILENO) != 0);
  const auto on_output = [&](const v1::Output& output) {
    if (flags.jsonl) {
      PrintLine(OutputJson(output, flags.choices > 1));
    } else if (!flags.json) {
      std::cout << printer.Add(output) << std::flush;
    }
    // Nobody reads on: the rest would be computed in vain.
    return std::cout.good();
  };
  BATON_ASSIGN_OR_RETURN(const auto channel, OpenChannel(flags.router));
  GenerationClient client(flags.router.target, channel);
  BATON_ASSIGN_OR_RETURN(const Generation generation,
                         client.Generate(request, {.timeout_ms = flags.timeout_ms}, on_output));
  // main says why.
  if (!std::cout) return absl::OkStatus();
  if (flags.json) {
    const auto texts = client.TokenTexts(flags.model, IdsWithLogprobs(generation), {.timeout_ms = flags.timeout_ms});
    // What has been generated is shown in any case.
    PrintLine(GenerationJson(generation, texts.ok() ? *texts : TokenTexts()));
    return texts.status();
  }
  if (flags.jsonl) {
    PrintLine(FinishedJson(generation.finished));
  } else {
    std::cout << printer.Flush() << std::endl;
    PrintTiming(generation.finished);
    PrintOtherNumerics(generation.finished);
  }
  return absl::OkStatus();
}

}  // namespace

void AddGenerateCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<GenerateFlags>();
  CLI::App* command = app.add_subcommand("generate", "generates from a prompt and streams the text");
  AddClientFlags(*command, *flags);
  CLI::Option_group* prompt = command->add_option_group("prompt");
  prompt->add_option("--prompt", flags->prompt, "raw text; special tokens in it are parsed");
  prompt->add_option("--prompt-file", flags->prompt_file, "a file of raw text; - is stdin");
  prompt->add_option("--token-ids", flags->token_ids, "1,2,3");
  prompt->add_option("--token-ids-file", flags->token_ids_file, "a file of token ids; - is stdin");
  prompt->add_option("--messages", flags->messages, "a JSON file of chat messages; - is stdin");
  prompt->require_option(1);
  command->add_option("--tenant", flags->tenant, "the tenant whose prefix cache is used");
  command->add_option("--idempotency-key", flags->idempotency_key,
                      "the request follows the one that had this key, or its result; a broken stream is resumed");
  command->add_option("--priority", flags->priority, "below 0: while requests wait, those of higher priority go first")
      ->check(CLI::Range(router::kMinPriority, router::kMaxPriority))
      ->capture_default_str();
  command->add_option("-n,--outputs", flags->choices, "outputs of the one prompt; each has a seed of its own")
      ->check(CLI::Range(1, kMaxChoices))
      ->capture_default_str();
  command->add_option(
      "--prompt-logprobs", flags->prompt_logprobs,
      "with --json: log-probabilities of the prompt's tokens and of this many likely ones in each place");
  command->add_flag("--echo", flags->echo, "the prompt's text before the output");
  command->add_flag("--allow-other-numerics", flags->allow_other_numerics,
                    "after a failure, go on at workers that may compute another continuation, rather than fail");
  command->add_flag("--kv-digest", flags->kv_digest, "print the digest of the prompt's KV blocks; --json always does");
  command->add_flag("--json", flags->json, "print one JSON object at the end");
  command->add_flag("--jsonl", flags->jsonl, "print one JSON object per message");
  command->callback([flags, &exit_code] { exit_code = Report(Generate(*flags)); });
}

}  // namespace baton::cli
