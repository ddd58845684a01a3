#include "cli/models_command.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "cli/model_report.h"
#include "cli/options.h"
#include "cli/process.h"
#include "cli/terminal_text.h"
#include "common/status.h"
#include "modelfile/model_description.h"
#include "modelfile/model_file.h"
#include "modelfile/model_store.h"
#include "nlohmann/json.hpp"

namespace baton::cli {
namespace {

using ModelsJson = nlohmann::ordered_json;

// The kinds of matrices that a table shows for one model, those with the most bytes first.
constexpr size_t kMaxShownTypes = 4;

struct ListedModel {
  modelfile::StoredModel stored;
  int64_t bytes = 0;
  std::string architecture;
  // "Q8_0+Q4_K"
  std::string quantisation;
  std::optional<int64_t> context_length;
  // Why it cannot be read. Empty: it can.
  std::string error;
};

// Vectors, such as the weights of norms, stay in floating point whatever a file's matrices are.
std::string MatrixTypes(const modelfile::ModelDescription& description) {
  std::map<std::string, uint64_t> bytes;
  for (const modelfile::StoredTensor& tensor : description.tensors) {
    if (tensor.shape.size() > 1) bytes[tensor.type] += tensor.bytes;
  }
  std::vector<std::pair<uint64_t, std::string>> types;
  types.reserve(bytes.size());
  for (const auto& [type, size] : bytes) types.emplace_back(size, type);
  std::sort(types.rbegin(), types.rend());
  if (types.size() > kMaxShownTypes) types.resize(kMaxShownTypes);
  return absl::StrJoin(types, "+", [](std::string* out, const auto& type) { out->append(type.second); });
}

ListedModel Describe(modelfile::StoredModel stored) {
  ListedModel model = {.stored = std::move(stored)};
  model.bytes = modelfile::BytesOnDisk(model.stored.path);
  const auto description = modelfile::DescribeModelFile(model.stored.path);
  if (!description.ok()) {
    // The line names the model already.
    model.error = std::string(absl::StripPrefix(description.status().message(), absl::StrCat(model.stored.path, ": ")));
    return model;
  }
  model.architecture = description->architecture;
  model.quantisation = MatrixTypes(*description);
  for (const modelfile::StatedSize& size : description->sizes) {
    if (size.name == "context_length") model.context_length = size.value;
  }
  return model;
}

std::vector<std::string> NotStored(const std::vector<ListedModel>& models) {
  std::vector<std::string> names;
  for (const std::string_view name : modelfile::kFetchableModels) {
    const auto is_it = [name](const ListedModel& model) { return model.stored.name == name; };
    if (std::none_of(models.begin(), models.end(), is_it)) names.emplace_back(name);
  }
  return names;
}

void PrintModelsJson(const std::string& store, const std::vector<ListedModel>& models) {
  ModelsJson json = {{"store", store}, {"models", ModelsJson::array()}, {"fetchable", ModelsJson::array()}};
  for (const ListedModel& model : models) {
    const bool is_read = model.error.empty();
    json["models"].push_back(
        {{"name", model.stored.name},
         {"path", model.stored.path},
         {"bytes", model.bytes},
         {"architecture", is_read ? ModelsJson(model.architecture) : ModelsJson()},
         {"quantisation", is_read ? ModelsJson(model.quantisation) : ModelsJson()},
         {"context_length", model.context_length.has_value() ? ModelsJson(*model.context_length) : ModelsJson()},
         {"error", is_read ? ModelsJson() : ModelsJson(model.error)}});
  }
  for (const std::string_view name : modelfile::kFetchableModels) json["fetchable"].push_back(std::string(name));
  std::cout << json.dump(-1, ' ', false, ModelsJson::error_handler_t::replace) << std::endl;
}

// The table's last column is flush right by itself.
std::string PadRight(const std::string& text, size_t bytes) {
  return absl::StrCat(text, std::string(bytes - std::min(bytes, text.size()), ' '));
}

void PrintModelsText(const std::string& store, const std::vector<ListedModel>& models) {
  std::vector<std::vector<std::string>> rows = {{"name", "architecture", "quantisation", "size", "context"}};
  std::string errors;
  size_t path_bytes = 0;
  for (const ListedModel& model : models) path_bytes = std::max(path_bytes, model.stored.path.size());
  rows.front().push_back(PadRight("path", path_bytes));
  for (const ListedModel& model : models) {
    if (!model.error.empty()) absl::StrAppend(&errors, model.stored.name, " cannot be read: ", model.error, "\n");
    rows.push_back({model.stored.name, model.error.empty() ? model.architecture : "?",
                    model.error.empty() ? model.quantisation : "?", ShowBytes(model.bytes),
                    model.context_length.has_value() ? absl::StrCat(*model.context_length) : "?",
                    PadRight(model.stored.path, path_bytes)});
  }
  std::string text = models.empty() ? absl::StrCat("There is no model in ", store, ".\n") : TextTable(rows, /*left=*/3);
  absl::StrAppend(&text, errors);
  if (const std::vector<std::string> names = NotStored(models); !names.empty()) {
    absl::StrAppend(&text, "`baton pull NAME` gets: ", absl::StrJoin(names, ", "), "\n");
  }
  // A file says its architecture itself.
  std::cout << ForTerminal(text) << std::flush;
}

absl::Status ListModels(bool as_json) {
  BATON_ASSIGN_OR_RETURN(const std::string store, modelfile::ModelStoreDirectory());
  BATON_ASSIGN_OR_RETURN(std::vector<modelfile::StoredModel> stored, modelfile::ListModelStore());
  std::vector<ListedModel> models;
  models.reserve(stored.size());
  for (modelfile::StoredModel& model : stored) models.push_back(Describe(std::move(model)));
  as_json ? PrintModelsJson(store, models) : PrintModelsText(store, models);
  return absl::OkStatus();
}

// Asks at a terminal. FAILED_PRECONDITION where the user does not say yes.
absl::Status AskToRemove(const modelfile::StoredModel& model) {
  if (isatty(STDIN_FILENO) == 0) {
    return absl::FailedPreconditionError(absl::StrCat("removing ", model.path, " needs --yes"));
  }
  std::fprintf(stderr, "Remove %s (%s)? [y/N] ", ForTerminalLine(model.path).c_str(),
               ShowBytes(modelfile::BytesOnDisk(model.path)).c_str());
  std::string answer;
  std::getline(std::cin, answer);
  const std::string word = absl::AsciiStrToLower(absl::StripAsciiWhitespace(answer));
  if (word == "y" || word == "yes") return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(model.path, " stays"));
}

absl::Status RemoveModel(const std::string& name, bool is_agreed) {
  BATON_ASSIGN_OR_RETURN(const modelfile::StoredModel model, modelfile::FindInModelStore(name));
  if (!is_agreed) BATON_RETURN_IF_ERROR(AskToRemove(model));
  BATON_RETURN_IF_ERROR(modelfile::RemoveFromModelStore(model));
  std::cout << "removed " << ForTerminalLine(model.path) << std::endl;
  return absl::OkStatus();
}

}  // namespace

void AddModelsCommand(CLI::App& app, int& exit_code) {
  auto json = std::make_shared<bool>(false);
  CLI::App* models = app.add_subcommand("models", "lists the models of the model store, and those that can be had");
  models->add_flag("--json", *json, "prints everything for programs");
  auto name = std::make_shared<std::string>();
  auto is_agreed = std::make_shared<bool>(false);
  CLI::App* remove = models->add_subcommand("remove", "removes a model from the model store");
  remove->add_option("NAME", *name, "which model of the store")->required();
  remove->add_flag("--yes", *is_agreed, "removes it without asking");
  // CLI11 also calls back the command above the one that was named.
  models->callback([json, models, &exit_code] {
    if (models->get_subcommands().empty()) exit_code = Report(ListModels(*json));
  });
  remove->callback([name, is_agreed, &exit_code] { exit_code = Report(RemoveModel(*name, *is_agreed)); });
}

}  // namespace baton::cli
