#include "cli/inspect_command.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/input_file.h"
#include "cli/model_loading.h"
#include "cli/options.h"
#include "cli/process.h"
#include "common/status.h"
#include "common/version.h"
#include "nlohmann/json.hpp"
#include "tokenizer/tokenizer.h"

namespace baton::cli {
namespace {

using Json = nlohmann::ordered_json;

struct InspectFlags {
  std::string model;
  std::optional<std::string> text, file;
  std::vector<int32_t> token_ids;
  bool json = false;
};

absl::StatusOr<std::unique_ptr<tokenizer::Tokenizer>> LoadTokenizer(const std::string& model) {
  BATON_ASSIGN_OR_RETURN(const LoadedModelFile loaded, LoadModelFile(model));
  return tokenizer::Tokenizer::Create(loaded.file->tokenizer());
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

Json ConfigJson(const modelfile::ModelConfig& config) {
  Json json = {{"architecture", config.architecture},
               {"name", config.name},
               {"hidden_size", config.hidden_size},
               {"layers", config.layers},
               {"heads", config.heads},
               {"kv_heads", config.kv_heads},
               {"head_dim", config.head_dim},
               {"ffn_size", config.ffn_size},
               {"vocab_size", config.vocab_size},
               {"context_length", config.context_length},
               {"rope_theta", config.rope_theta},
               {"rms_norm_eps", config.rms_norm_eps}};
  if (config.sliding_window > 0) {
    json["sliding_window"] = config.sliding_window;
    json["sliding_layers"] = std::count(config.sliding_layers.begin(), config.sliding_layers.end(), true);
  }
  return json;
}

Json InspectJson(const LoadedModelFile& loaded) {
  Json json;
  json["name"] = loaded.name;
  json["config"] = ConfigJson(loaded.file->config());
  json["weights_digest"] = loaded.file->WeightsDigest().ToHex();
  for (const modelfile::MetadataEntry& entry : loaded.file->metadata()) json["metadata"][entry.key] = entry.value;
  for (const modelfile::TensorView& tensor : loaded.file->tensors()) {
    json["tensors"].push_back({{"name", tensor.name},
                               {"type", modelfile::TensorTypeName(tensor.type)},
                               {"rows", tensor.rows},
                               {"cols", tensor.cols},
                               {"bytes", tensor.bytes}});
  }
  return json;
}

absl::Status Inspect(const InspectFlags& flags) {
  BATON_ASSIGN_OR_RETURN(const LoadedModelFile loaded, LoadModelFile(flags.model));
  const Json json = InspectJson(loaded);
  if (flags.json) {
    std::cout << json.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
    return absl::OkStatus();
  }
  std::cout << loaded.name << "\n\n";
  for (const auto& [key, value] : json["config"].items()) {
    std::cout << absl::StreamFormat("  %-16s %s\n", key, value.is_string() ? value.get<std::string>() : value.dump());
  }
  std::cout << "\nmetadata\n";
  for (const modelfile::MetadataEntry& entry : loaded.file->metadata()) {
    std::cout << absl::StreamFormat("  %-42s %-10s %s\n", entry.key, entry.type, entry.value);
  }
  std::cout << "\ntensors\n";
  for (const modelfile::TensorView& tensor : loaded.file->tensors()) {
    std::cout << absl::StreamFormat("  %-32s %-5s %8d x %-6d %10d bytes\n", tensor.name,
                                    std::string(modelfile::TensorTypeName(tensor.type)), tensor.rows, tensor.cols,
                                    tensor.bytes);
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
  CLI::App* command = app.add_subcommand("inspect", "shows the architecture, sizes, types and metadata of a model");
  AddModelPosition(*command, flags->model);
  command->add_flag("--json", flags->json);
  SetCallback(*command, flags, Inspect, exit_code);
}

void AddVersionCommand(CLI::App& app, int& exit_code) {
  app.add_subcommand("version", "prints the version")->callback([&exit_code] {
    std::cout << "baton " << kVersion << std::endl;
    exit_code = kExitDone;
  });
}

}  // namespace baton::cli
