// The store, and ResolveModel: what MODEL means on the command line.
#include "modelfile/model_store.h"

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

// The folder of a model that is being removed. No model's name begins with a dot.
constexpr char kRemovedPrefix[] = ".removed-";

// Whether the entry of a store, of whatever kind, is a model. Fills its name in.
bool IsStoredModel(const std::filesystem::directory_entry& entry, StoredModel& model) {
  std::error_code error;
  model.path = entry.path().string();
  model.name = entry.path().filename().string();
  if (entry.is_directory(error)) return IsStoreName(model.name) && Exists(model.path + "/config.json");
  if (!model.name.ends_with(kSuffix) || !entry.is_regular_file(error)) return false;
  model.name.resize(model.name.size() - kSuffix.size());
  return IsStoreName(model.name);
}

absl::Status StoreError(const char* what, const std::string& path, const std::error_code& error) {
  return absl::PermissionDeniedError(absl::StrCat("cannot ", what, " ", path, ": ", error.message()));
}

absl::StatusOr<std::string> ResolvePath(std::string_view model) {
  if (Exists(std::string(model))) return std::string(model);
  return absl::NotFoundError(absl::StrCat("there is no model file ", ShowText(model),
                                          "; check the path, or name a model of the store, such as ",
                                          ToAbsl(kDefaultModel), ", which `baton pull` gets"));
}

absl::Status NotInStore(std::string_view model, const std::string& store) {
  const std::string what = absl::StrCat("there is no model ", ToAbsl(model), " in ", store);
  if (std::find(kFetchableModels.begin(), kFetchableModels.end(), model) != kFetchableModels.end()) {
    return absl::NotFoundError(absl::StrCat(what, "; run `baton pull ", ToAbsl(model), "`"));
  }
  std::vector<absl::string_view> names;
  names.reserve(kFetchableModels.size());
  for (const std::string_view name : kFetchableModels) names.push_back(ToAbsl(name));
  return absl::NotFoundError(absl::StrCat(what,
                                          "; name a .gguf file, a model directory, or a model that `baton pull` "
                                          "gets: ",
                                          absl::StrJoin(names, ", ")));
}

}  // namespace

absl::StatusOr<std::string> ModelStoreDirectory() {
  if (const auto store = Environment("BATON_MODEL_STORE"); !store.empty()) return std::string(store);
  if (const auto data = Environment("XDG_DATA_HOME"); !data.empty()) return absl::StrCat(ToAbsl(data), "/baton/models");
  if (const auto home = Environment("HOME"); !home.empty()) {
    return absl::StrCat(ToAbsl(home), "/.local/share/baton/models");
  }
  return absl::NotFoundError(
      "there is no model store: none of BATON_MODEL_STORE, XDG_DATA_HOME and HOME is set; set one");
}

bool IsStoreName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxModelNameBytes && name.front() != '.' && name.front() != '-' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
                  c == '-';
         });
}

absl::StatusOr<std::vector<StoredModel>> ListModelStore() {
  BATON_ASSIGN_OR_RETURN(const std::string store, ModelStoreDirectory());
  std::vector<StoredModel> models;
  std::error_code error;
  std::filesystem::directory_iterator entries(store, error);
  if (error == std::errc::no_such_file_or_directory) return models;
  for (const std::filesystem::directory_iterator end; !error && entries != end; entries.increment(error)) {
    if (StoredModel model; models.size() < kMaxListedModels && IsStoredModel(*entries, model)) {
      models.push_back(std::move(model));
    }
  }
  if (error) return StoreError("read the model store", store, error);
  // A file hides a directory of its name, as in ResolveModel.
  std::sort(models.begin(), models.end(), [](const StoredModel& a, const StoredModel& b) {
    return a.name != b.name ? a.name < b.name : a.path > b.path;
  });
  const auto same = [](const StoredModel& a, const StoredModel& b) { return a.name == b.name; };
  models.erase(std::unique(models.begin(), models.end(), same), models.end());
  return models;
}

absl::StatusOr<StoredModel> FindInModelStore(std::string_view name) {
  BATON_ASSIGN_OR_RETURN(const std::string store, ModelStoreDirectory());
  if (IsStoreName(name)) {
    std::error_code error;
    StoredModel model = {.name = std::string(name), .path = absl::StrCat(store, "/", ToAbsl(name), ToAbsl(kSuffix))};
    if (std::filesystem::is_regular_file(model.path, error)) return model;
    model.path = absl::StrCat(store, "/", ToAbsl(name));
    if (Exists(model.path + "/config.json")) return model;
  }
  return absl::NotFoundError(absl::StrCat("there is no model ", ShowText(name), " in ", store));
}

int64_t BytesOnDisk(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    const std::uintmax_t bytes = std::filesystem::file_size(path, error);
    return error ? 0 : static_cast<int64_t>(bytes);
  }
  int64_t bytes = 0;
  size_t files = 0;
  std::filesystem::recursive_directory_iterator entries(path, error);
  for (const std::filesystem::recursive_directory_iterator end; !error && entries != end && ++files < kMaxCountedFiles;
       entries.increment(error)) {
    std::error_code unread;
    const std::uintmax_t size = entries->is_regular_file(unread) ? entries->file_size(unread) : 0;
    if (!unread) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

absl::Status RemoveFromModelStore(const StoredModel& model) {
  std::error_code error;
  const std::filesystem::path path(model.path);
  if (std::filesystem::is_symlink(path, error) || !std::filesystem::is_directory(path, error)) {
    std::filesystem::remove(path, error);
    return error ? StoreError("remove", model.path, error) : absl::OkStatus();
  }
  // Nobody finds half of a directory, whatever stops its removal.
  const std::filesystem::path removed = path.parent_path() / (kRemovedPrefix + model.name);
  std::filesystem::remove_all(removed, error);
  if (!error) std::filesystem::rename(path, removed, error);
  if (!error) std::filesystem::remove_all(removed, error);
  return error ? StoreError("remove", model.path, error) : absl::OkStatus();
}

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
  BATON_ASSIGN_OR_RETURN(const std::string store, ModelStoreDirectory());
  std::error_code error;
  const std::string stored = absl::StrCat(store, "/", ToAbsl(model));
  if (std::string file = absl::StrCat(stored, ToAbsl(kSuffix)); std::filesystem::is_regular_file(file, error))
    return file;
  if (std::filesystem::is_directory(stored, error)) return stored;
  if (Exists(std::string(model))) return std::string(model);
  return NotInStore(model, store);
}

}  // namespace baton::modelfile
