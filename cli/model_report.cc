#include "cli/model_report.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/status.h"
#include "modelfile/gguf_document.h"

namespace baton::cli {
namespace {

using Json = nlohmann::ordered_json;

// As people write it: 1e-05, where the double that is this float would be 9.999999747378752e-06.
double AsWritten(float value) { return std::strtod(modelfile::ShowFloat(value).c_str(), nullptr); }

std::string ShowParameters(int64_t count) {
  if (count >= 1'000'000'000) return absl::StrFormat("%.2f billion", static_cast<double>(count) / 1e9);
  if (count >= 1'000'000) return absl::StrFormat("%.1f million", static_cast<double>(count) / 1e6);
  return absl::StrCat(count);
}

// The number of tensors of each type.
std::map<std::string, int64_t> CountTypes(const ModelFacts& facts) {
  std::map<std::string, int64_t> counts;
  for (const modelfile::StoredTensor& tensor : facts.description.tensors) ++counts[tensor.type];
  return counts;
}

Json ConfigJson(const modelfile::ModelConfig& config) {
  Json json = {{"name", config.name},
               {"hidden_size", config.hidden_size},
               {"layers", config.layers},
               {"heads", config.heads},
               {"kv_heads", config.kv_heads},
               {"head_dim", config.head_dim},
               {"ffn_size", config.ffn_size},
               {"vocab_size", config.vocab_size},
               {"context_length", config.context_length},
               {"rope_theta", AsWritten(config.rope_theta)},
               {"rms_norm_eps", AsWritten(config.rms_norm_eps)}};
  if (config.sliding_window > 0) {
    json["sliding_window"] = config.sliding_window;
    json["sliding_layers"] = std::count(config.sliding_layers.begin(), config.sliding_layers.end(), true);
  }
  return json;
}

// What Baton read, or of a file that it does not run the sizes that the file states.
Json ConfigOf(const ModelFacts& facts) {
  if (facts.file != nullptr) return ConfigJson(facts.file->config());
  Json json = Json::object();
  for (const modelfile::StatedSize& size : facts.description.sizes) json[std::string(size.name)] = size.value;
  return json;
}

Json MemoryJson(const MemoryNeeds& needs) {
  Json json = {{"numerics", engine::NumericsName(needs.numerics)},
               {"weights", engine::WeightsName(needs.weights)},
               {"kv_dtype", KvDtypeName(needs.kv_dtype)},
               {"weight_bytes", needs.weight_bytes},
               {"kv_bytes_per_token", needs.token_bytes},
               {"kv_bytes_per_token_beyond_window", needs.token_bytes_beyond_window},
               {"kv_bytes_per_full_context", needs.context_bytes}};
  if (needs.fit.has_value()) {
    json["fits"] = {
        {"kv_bytes", needs.fit->kv_bytes}, {"tokens", needs.fit->tokens}, {"full_contexts", needs.fit->full_contexts}};
  }
  return json;
}

std::string MemoryText(const ModelFacts& facts, const std::string& memory) {
  const bool shows_fit = !memory.empty() && facts.memory.front().fit.has_value();
  std::vector<std::string> head = {"--numerics", "--weights", "--kv-dtype", "weights", "KV a token", "KV a context"};
  if (shows_fit) head.insert(head.end(), {absl::StrCat("tokens in ", memory), "contexts"});
  std::vector<std::vector<std::string>> rows = {head};
  for (const MemoryNeeds& needs : facts.memory) {
    std::vector<std::string> row = {std::string(engine::NumericsName(needs.numerics)),
                                    std::string(engine::WeightsName(needs.weights)),
                                    std::string(KvDtypeName(needs.kv_dtype)),
                                    ShowBytes(needs.weight_bytes),
                                    ShowBytes(needs.token_bytes),
                                    ShowBytes(needs.context_bytes)};
    if (shows_fit) {
      row.insert(row.end(), {absl::StrCat(needs.fit->tokens), absl::StrCat(needs.fit->full_contexts)});
    }
    rows.push_back(std::move(row));
  }
  return absl::StrCat("\npacked weights and KV of one worker\n", TextTable(rows, /*left=*/3));
}

// "15 of 18 layers see 512 tokens; ..."
std::string WindowText(const ModelFacts& facts) {
  const modelfile::ModelConfig& config = facts.file->config();
  const auto sliding = std::count(config.sliding_layers.begin(), config.sliding_layers.end(), true);
  return absl::StrFormat("%d of %d layers see %d tokens; a token beyond takes %s of KV (%s)", sliding, config.layers,
                         config.sliding_window, ShowBytes(facts.memory[0].token_bytes_beyond_window),
                         ToAbsl(KvDtypeName(facts.memory[0].kv_dtype)));
}

std::string SizesText(const ModelFacts& facts) {
  const modelfile::ModelDescription& description = facts.description;
  std::vector<std::string> types;
  for (const auto& [type, count] : CountTypes(facts)) types.push_back(absl::StrCat(count, " ", type));
  std::vector<std::vector<std::string>> rows = {
      {"architecture", description.architecture.empty() ? "not stated" : description.architecture},
      {"parameters", facts.parameters.has_value() ? ShowParameters(*facts.parameters) : "unknown, they are packed"},
      {"file", absl::StrCat(ShowBytes(static_cast<int64_t>(description.file_bytes)), ", ", ToAbsl(description.format))},
      {"tensors", absl::StrCat(description.tensors.size(), ": ", absl::StrJoin(types, ", "))}};
  const Json config = ConfigOf(facts);
  if (config.contains("context_length")) {
    rows.push_back({"context", absl::StrCat(config["context_length"].get<int64_t>(), " tokens")});
  }
  if (!facts.memory.empty() && config.contains("sliding_window")) rows.push_back({"window", WindowText(facts)});
  rows.push_back({"servable", facts.reason.empty() ? "yes" : absl::StrCat("no: ", facts.reason)});
  return TextTable(rows, /*left=*/2);
}

std::string ShowShape(const modelfile::StoredTensor& tensor) { return absl::StrJoin(tensor.shape, " x "); }

}  // namespace

std::string ShowBytes(int64_t bytes) {
  constexpr std::array<std::string_view, 4> kUnits = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return absl::StrFormat("%.1f %s", value, ToAbsl(kUnits[unit]));
}

std::string TextTable(const std::vector<std::vector<std::string>>& rows, size_t left) {
  std::vector<size_t> widths(rows[0].size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const int width = static_cast<int>(widths[i]);
      absl::StrAppend(&line, "  ",
                      i < left ? absl::StrFormat("%-*s", width, row[i]) : absl::StrFormat("%*s", width, row[i]));
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

Json ModelFactsJson(const ModelFacts& facts) {
  const modelfile::ModelDescription& description = facts.description;
  Json json = {{"name", facts.name},
               {"servable", facts.reason.empty()},
               {"reason", facts.reason.empty() ? Json() : Json(facts.reason)},
               {"format", description.format},
               {"architecture", description.architecture},
               {"parameters", facts.parameters.has_value() ? Json(*facts.parameters) : Json()},
               {"file_bytes", description.file_bytes},
               {"tensor_types", CountTypes(facts)},
               {"config", ConfigOf(facts)},
               {"memory", Json::array()},
               {"weights_digest", facts.file == nullptr ? Json() : Json(facts.file->WeightsDigest().ToHex())},
               {"metadata", Json::object()},
               {"tensors", Json::array()}};
  for (const MemoryNeeds& needs : facts.memory) json["memory"].push_back(MemoryJson(needs));
  for (const modelfile::MetadataEntry& entry : description.metadata) json["metadata"][entry.key] = entry.value;
  for (const modelfile::StoredTensor& tensor : description.tensors) {
    json["tensors"].push_back(
        {{"name", tensor.name}, {"type", tensor.type}, {"shape", tensor.shape}, {"bytes", tensor.bytes}});
  }
  return json;
}

std::string ModelFactsText(const ModelFacts& facts, const ModelReportOptions& options) {
  std::string text = absl::StrCat(facts.name, "\n", SizesText(facts));
  if (!facts.memory.empty()) absl::StrAppend(&text, MemoryText(facts, options.memory));
  std::vector<std::vector<std::string>> rows;
  const Json config = ConfigOf(facts);
  for (const auto& [key, value] : config.items()) {
    rows.push_back({key, value.is_string() ? value.get<std::string>() : value.dump()});
  }
  if (!rows.empty()) absl::StrAppend(&text, "\nconfig\n", TextTable(rows, /*left=*/2));
  if (options.metadata && !facts.description.metadata.empty()) {
    rows.clear();
    for (const modelfile::MetadataEntry& entry : facts.description.metadata) {
      rows.push_back({entry.key, entry.type, entry.value});
    }
    absl::StrAppend(&text, "\nmetadata\n", TextTable(rows, /*left=*/3));
  }
  if (options.tensors && !facts.description.tensors.empty()) {
    rows.clear();
    for (const modelfile::StoredTensor& tensor : facts.description.tensors) {
      rows.push_back({tensor.name, tensor.type, ShowShape(tensor), absl::StrCat(tensor.bytes, " bytes")});
    }
    absl::StrAppend(&text, "\ntensors\n", TextTable(rows, /*left=*/2));
  }
  return text;
}

}  // namespace baton::cli
