#include "cli/inspect_command.h"

#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/input_file.h"
#include "cli/model_facts.h"
#include "cli/model_loading.h"
#include "cli/model_report.h"
#include "cli/options.h"
#include "cli/process.h"
#include "common/status.h"
#include "common/version.h"
#include "engine/device_plugin.h"
#include "nlohmann/json.hpp"
#include "tokenizer/tokenizer.h"

namespace baton::cli {
namespace {

using Json = nlohmann::ordered_json;

struct InspectFlags {
  std::string model;
  std::optional<std::string> text, file;
  std::vector<int32_t> token_ids;
  ModelReportOptions report;
  bool json = false;
};

absl::StatusOr<std::unique_ptr<tokenizer::Tokenizer>> LoadTokenizer(const std::string& model) {
  BATON_ASSIGN_OR_RETURN(const LoadedModelFile loaded, LoadModelFile(model));
  auto tokenizer = tokenizer::Tokenizer::Create(loaded.file->tokenizer());
  if (!tokenizer.ok()) return loaded.Blame(tokenizer.status());
  return tokenizer;
}

absl::Status Tokenize(const InspectFlags& flags) {
  std::string text = flags.text.value_or("");
  if (flags.file) {
    BATON_ASSIGN_OR_RETURN(text, ReadInputFile("--file", *flags.file, kMaxTextFileBytes));
  }
  BATON_ASSIGN_OR_RETURN(const auto tokenizer, LoadTokenizer(flags.model));
  BATON_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer->Encode(text));
  if (flags.json) {
    std::cout << Json{{"token_ids", ids}}.dump() << std::endl;
    return absl::OkStatus();
  }
  for (int32_t id : ids)
    std::cout << id << '\t' << Json(tokenizer->TokenBytes(id)).dump(-1, ' ', false, Json::error_handler_t::replace)
              << '\n';
  return absl::OkStatus();
}

absl::Status Detokenize(const InspectFlags& flags) {
  BATON_ASSIGN_OR_RETURN(const auto tokenizer, LoadTokenizer(flags.model));
  BATON_ASSIGN_OR_RETURN(const std::string text, tokenizer->Decode(flags.token_ids, /*skip_special=*/false));
  if (flags.json) {
    std::cout << Json{{"text", text}}.dump() << std::endl;
  } else {
    std::cout << text << std::endl;
  }
  return absl::OkStatus();
}

absl::Status Inspect(const InspectFlags& flags) {
  std::optional<int64_t> memory_bytes;
  if (!flags.report.memory.empty()) memory_bytes = static_cast<int64_t>(ParseByteSize(flags.report.memory));
  BATON_ASSIGN_OR_RETURN(const ModelFacts facts, GatherModelFacts(flags.model, memory_bytes));
  if (flags.json) {
    std::cout << ModelFactsJson(facts).dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
  } else {
    std::cout << ModelFactsText(facts, flags.report) << std::flush;
  }
  return absl::OkStatus();
}

void SetCallback(CLI::App& command, const std::shared_ptr<InspectFlags>& flags,
                 absl::Status (*run)(const InspectFlags&), int& exit_code) {
  command.callback([flags, run, &exit_code] { exit_code = Report(run(*flags)); });
}

}  // namespace

void AddTokenizeCommands(CLI::App& app, int& exit_code) {
  auto encode = std::make_shared<InspectFlags>();
  CLI::App* tokenize = app.add_subcommand("tokenize", "turns text into token ids and adds no special tokens");
  AddModelFlag(*tokenize, encode->model);
  CLI::Option_group* input = tokenize->add_option_group("input");
  input->add_option("--text", encode->text);
  input->add_option("--file", encode->file);
  input->require_option(1);
  tokenize->add_flag("--json", encode->json);
  SetCallback(*tokenize, encode, Tokenize, exit_code);

  auto decode = std::make_shared<InspectFlags>();
  CLI::App* detokenize = app.add_subcommand("detokenize", "turns token ids into text");
  AddModelFlag(*detokenize, decode->model);
  detokenize->add_option("--token-ids", decode->token_ids, "1,2,3")->delimiter(',')->required();
  detokenize->add_flag("--json", decode->json);
  SetCallback(*detokenize, decode, Detokenize, exit_code);
}

void AddInspectCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App* command =
      app.add_subcommand("inspect", "shows what a model is, what it takes and whether it can be served");
  AddModelPosition(*command, flags->model);
  command->add_option("--memory", flags->report.memory, "says what fits into this memory of a worker, such as 8GiB")
      ->check(ByteSize());
  command->add_flag("--metadata", flags->report.metadata, "shows the metadata too");
  command->add_flag("--tensors", flags->report.tensors, "lists the tensors too");
  command->add_flag("--json", flags->json, "prints everything for programs");
  SetCallback(*command, flags, Inspect, exit_code);
}

void AddVersionCommand(CLI::App& app, int& exit_code) {
  app.add_subcommand("version", "prints the version")->callback([&exit_code] {
    std::cout << "baton " << kVersion << "\n" << engine::CudaStatement() << std::endl;
    exit_code = kExitDone;
  });
}

}  // namespace baton::cli
