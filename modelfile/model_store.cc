// ResolveModel: what MODEL means on the command line.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status.h"
#include "modelfile/gguf_document.h"
#include "modelfile/limits.h"
#include "modelfile/model_file.h"

namespace baton::modelfile {
namespace {

constexpr std::string_view kSuffix = ".gguf";

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// An empty variable counts as unset.
std::string_view Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

absl::StatusOr<std::string> StoreDirectory() {
  if (const auto store = Environment("BATON_MODEL_STORE"); !store.empty()) return std::string(store);
  if (const auto data = Environment("XDG_DATA_HOME"); !data.empty()) return absl::StrCat(ToAbsl(data), "/baton/models");
  if (const auto home = Environment("HOME"); !home.empty()) {
    return absl::StrCat(ToAbsl(home), "/.local/share/baton/models");
  }
  return absl::NotFoundError(
      "there is no model store: none of BATON_MODEL_STORE, XDG_DATA_HOME and HOME is set; set one");
}

bool IsStoreName(std::string_view model) {
  return model.size() <= kMaxModelNameBytes && model.front() != '.' && model.front() != '-' &&
         std::all_of(model.begin(), model.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
                  c == '-';
         });
}

absl::StatusOr<std::string> ResolvePath(std::string_view model) {
  if (Exists(std::string(model))) return std::string(model);
  return absl::NotFoundError(absl::StrCat("there is no model file ", ShowText(model),
                                          "; check the path, or name a model of the store, such as ",
                                          ToAbsl(kDefaultModel), ", which `baton fetch-model` gets"));
}

absl::Status NotInStore(std::string_view model, const std::string& store) {
  const std::string what = absl::StrCat("there is no model ", ToAbsl(model), " in ", store);
  if (std::find(kFetchableModels.begin(), kFetchableModels.end(), model) != kFetchableModels.end()) {
    return absl::NotFoundError(absl::StrCat(what, "; run `baton fetch-model ", ToAbsl(model), "`"));
  }
  std::vector<absl::string_view> names;
  names.reserve(kFetchableModels.size());
  for (const std::string_view name : kFetchableModels) names.push_back(ToAbsl(name));
  return absl::NotFoundError(absl::StrCat(what,
                                          "; name a .gguf file, a model directory, or a model that `baton fetch-model` "
                                          "gets: ",
                                          absl::StrJoin(names, ", ")));
}

}  // namespace

absl::StatusOr<std::string> ResolveModel(std::string_view model) {
  if (model.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model is empty; name a .gguf file, a model directory or a model of the store, such as ",
                     ToAbsl(kDefaultModel)));
  }
  if (model.find('\0') != std::string_view::npos) {
    return absl::InvalidArgumentError(
        "the model's name contains a NUL byte; name a .gguf file, a model directory or a model of the store");
  }
  if (model.find('/') != std::string_view::npos || model.ends_with(kSuffix) || !IsStoreName(model)) {
    return ResolvePath(model);
  }
  BATON_ASSIGN_OR_RETURN(const std::string store, StoreDirectory());
  std::error_code error;
  const std::string stored = absl::StrCat(store, "/", ToAbsl(model));
  if (std::string file = absl::StrCat(stored, ToAbsl(kSuffix)); std::filesystem::is_regular_file(file, error))
    return file;
  if (std::filesystem::is_directory(stored, error)) return stored;
  if (Exists(std::string(model))) return std::string(model);
  return NotInStore(model, store);
}

}  // namespace baton::modelfile
