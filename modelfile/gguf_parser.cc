// GgufDocument::Parse: header, metadata, tensor infos, then the place of every tensor's data.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "modelfile/gguf_cursor.h"
#include "modelfile/gguf_document.h"
#include "modelfile/limits.h"

namespace baton::modelfile {
namespace {

// The smallest entry has a key of one byte, a type and a value of one byte.
constexpr size_t kMinEntryBytes = 8 + 1 + 4 + 1;
// The smallest tensor info has a name of one byte, the number of dimensions, one dimension, a type and an offset.
constexpr size_t kMinTensorInfoBytes = 8 + 1 + 4 + 8 + 4 + 8;
constexpr size_t kMinStringBytes = 8;

}  // namespace

class GgufParser {
 public:
  GgufParser(const uint8_t* data, size_t bytes, bool describes)
      : data_(data), bytes_(bytes), describes_(describes), cursor_(data, bytes) {}

  absl::StatusOr<GgufDocument> Run() {
    BATON_RETURN_IF_ERROR(ParseHeader());
    BATON_RETURN_IF_ERROR(ParseMetadata());
    BATON_RETURN_IF_ERROR(ParseTensorInfos());
    BATON_RETURN_IF_ERROR(PlaceTensors());
    return std::move(document_);
  }

 private:
  // Where the tensor's data lies in the data section.
  struct Extent {
    uint64_t begin = 0;
    uint64_t end = 0;
    std::string_view name;
    size_t info_offset = 0;
  };
  // As the file has them: the columns come first.
  using Dims = std::vector<uint64_t>;

  absl::Status ParseHeader();
  absl::Status ParseMetadata();
  absl::StatusOr<GgufValue> ParseValue(std::string_view key);
  absl::Status ParseArray(std::string_view what, GgufValue* value);
  absl::Status ParseScalars(std::string_view what, GgufValue* value);
  absl::StatusOr<GgufType> ParseType(std::string_view what);
  absl::Status ParseAlignment();
  absl::Status ParseTensorInfos();
  absl::Status ParseTensorInfo();
  absl::StatusOr<Dims> ParseDims(std::string_view what);
  absl::StatusOr<uint32_t> ParseTensorType(std::string_view what);
  absl::Status AddTensor(std::string_view name, const Dims& dims, uint32_t type);
  absl::Status PlaceTensors();

  const uint8_t* const data_;
  const size_t bytes_;
  const bool describes_;
  GgufCursor cursor_;
  GgufDocument document_;
  std::vector<Extent> extents_;
  size_t tensor_count_ = 0;
  size_t entry_count_ = 0;
  uint64_t alignment_ = kDefaultAlignment;
};

absl::Status GgufParser::ParseHeader() {
  if (bytes_ == 0) return absl::InvalidArgumentError("the file is empty; fetch it again");
  BATON_ASSIGN_OR_RETURN(const auto magic, (cursor_.Read<std::array<char, 4>>("the magic number")));
  if (std::string_view(magic.data(), magic.size()) != kGgufMagic) {
    return absl::InvalidArgumentError("not a GGUF file: it does not begin with \"GGUF\"; name a .gguf file");
  }
  BATON_ASSIGN_OR_RETURN(const uint32_t version, cursor_.Read<uint32_t>("the version"));
  if (version != 0 && (version & 0xFFFF) == 0) {
    return absl::UnimplementedError("big-endian GGUF: Baton reads little-endian files; convert the model again");
  }
  if (version != kGgufVersion) {
    return absl::UnimplementedError(
        absl::StrCat("GGUF version ", version, ": Baton reads version ", kGgufVersion, "; convert the model again"));
  }
  // Both counts are read before either is checked against what is left of the file.
  const size_t counts_offset = cursor_.offset();
  BATON_ASSIGN_OR_RETURN(const uint64_t tensors, cursor_.Read<uint64_t>("the tensor count"));
  BATON_ASSIGN_OR_RETURN(entry_count_,
                         cursor_.ReadCount(kMaxMetadataEntries, kMinEntryBytes, "the count of metadata entries"));
  if (tensors > kMaxTensors) {
    return DamagedAt(counts_offset, absl::StrCat("the tensor count is ", tensors, ", limit ", kMaxTensors));
  }
  if (tensors > cursor_.left() / kMinTensorInfoBytes) {
    return DamagedAt(counts_offset,
                     absl::StrCat("the tensor count is ", tensors, ", more than the rest of the file can hold"));
  }
  tensor_count_ = static_cast<size_t>(tensors);
  return absl::OkStatus();
}

absl::Status GgufParser::ParseMetadata() {
  document_.entries_.reserve(entry_count_);
  for (size_t i = 0; i < entry_count_; ++i) {
    const size_t offset = cursor_.offset();
    BATON_ASSIGN_OR_RETURN(const std::string_view key,
                           cursor_.ReadString(kMaxKeyBytes, absl::StrCat("the key of metadata entry ", i)));
    if (key.empty()) return DamagedAt(offset, absl::StrCat("metadata entry ", i, " has an empty key"));
    if (!document_.entry_index_.emplace(ToAbsl(key), i).second) {
      return DamagedAt(offset, absl::StrCat("key ", ShowText(key), " stands twice"));
    }
    BATON_ASSIGN_OR_RETURN(GgufValue value, ParseValue(key));
    document_.entries_.push_back({key, std::move(value)});
  }
  return ParseAlignment();
}

absl::StatusOr<GgufType> GgufParser::ParseType(std::string_view what) {
  const size_t offset = cursor_.offset();
  BATON_ASSIGN_OR_RETURN(const uint32_t type, cursor_.Read<uint32_t>(what));
  if (type >= kGgufTypes) return DamagedAt(offset, absl::StrCat(ToAbsl(what), " is the unknown number ", type));
  return static_cast<GgufType>(type);
}

absl::StatusOr<GgufValue> GgufParser::ParseValue(std::string_view key) {
  const std::string what = absl::StrCat("the value of ", ShowText(key));
  GgufValue value;
  BATON_ASSIGN_OR_RETURN(value.type, ParseType(absl::StrCat("the type of ", ShowText(key))));
  if (value.type == GgufType::kArray) {
    BATON_RETURN_IF_ERROR(ParseArray(what, &value));
  } else if (value.type == GgufType::kString) {
    BATON_ASSIGN_OR_RETURN(const std::string_view text, cursor_.ReadString(kMaxStringBytes, what));
    value.strings.push_back(text);
  } else {
    BATON_RETURN_IF_ERROR(ParseScalars(what, &value));
  }
  return value;
}

absl::Status GgufParser::ParseArray(std::string_view what, GgufValue* value) {
  const size_t offset = cursor_.offset();
  value->is_array = true;
  BATON_ASSIGN_OR_RETURN(value->type, ParseType(absl::StrCat("the element type of ", ToAbsl(what))));
  if (value->type == GgufType::kArray) {
    return DamagedAt(offset, absl::StrCat(ToAbsl(what), " is an array of arrays, which Baton does not read"));
  }
  const bool strings = value->type == GgufType::kString;
  const size_t min_bytes = strings ? kMinStringBytes : GgufTypeBytes(value->type);
  BATON_ASSIGN_OR_RETURN(value->count, cursor_.ReadCount(kMaxArrayElements, min_bytes,
                                                         absl::StrCat("the array length of ", ToAbsl(what))));
  if (!strings) return ParseScalars(what, value);
  value->strings.reserve(value->count);
  for (size_t i = 0; i < value->count; ++i) {
    BATON_ASSIGN_OR_RETURN(const std::string_view text, cursor_.ReadString(kMaxStringBytes, what));
    value->strings.push_back(text);
  }
  return absl::OkStatus();
}

absl::Status GgufParser::ParseScalars(std::string_view what, GgufValue* value) {
  const size_t offset = cursor_.offset();
  BATON_ASSIGN_OR_RETURN(value->bytes, cursor_.Skip(value->count, GgufTypeBytes(value->type), what));
  if (value->type != GgufType::kBool) return absl::OkStatus();
  const auto* bad = std::find_if(value->bytes, value->bytes + value->count, [](uint8_t byte) { return byte > 1; });
  if (bad == value->bytes + value->count) return absl::OkStatus();
  return DamagedAt(offset + static_cast<size_t>(bad - value->bytes),
                   absl::StrCat(ToAbsl(what), " has a bool of ", int{*bad}));
}

absl::Status GgufParser::ParseAlignment() {
  BATON_ASSIGN_OR_RETURN(const std::optional<int64_t> alignment, document_.Integer("general.alignment"));
  if (!alignment.has_value()) return absl::OkStatus();
  const auto value = static_cast<uint64_t>(*alignment);
  if (*alignment < 0 || !std::has_single_bit(value) || value < kMinAlignment || value > kMaxAlignment) {
    return absl::InvalidArgumentError(absl::StrCat("damaged GGUF metadata: general.alignment is ", *alignment,
                                                   ", must be a power of two from ", kMinAlignment, " to ",
                                                   kMaxAlignment, "; fetch the file again"));
  }
  alignment_ = value;
  return absl::OkStatus();
}

absl::Status GgufParser::ParseTensorInfos() {
  extents_.reserve(tensor_count_);
  for (size_t i = 0; i < tensor_count_; ++i) BATON_RETURN_IF_ERROR(ParseTensorInfo());
  return absl::OkStatus();
}

absl::Status GgufParser::ParseTensorInfo() {
  const size_t index = extents_.size();
  const size_t info_offset = cursor_.offset();
  BATON_ASSIGN_OR_RETURN(const std::string_view name,
                         cursor_.ReadString(kMaxTensorNameBytes, absl::StrCat("the name of tensor ", index)));
  if (name.empty()) return DamagedAt(info_offset, absl::StrCat("tensor ", index, " has an empty name"));
  const std::string what = absl::StrCat("tensor ", ShowText(name));
  if (!document_.tensor_index_.emplace(std::string(name), index).second) {
    return DamagedAt(info_offset, absl::StrCat(what, " stands twice"));
  }
  BATON_ASSIGN_OR_RETURN(const Dims dims, ParseDims(what));
  BATON_ASSIGN_OR_RETURN(const uint32_t type, ParseTensorType(what));
  BATON_ASSIGN_OR_RETURN(const uint64_t begin, cursor_.Read<uint64_t>(absl::StrCat("the offset of ", what)));

  const GgmlType& facts = *FindGgmlType(type);
  const auto block_elements = static_cast<uint64_t>(facts.block_elements);
  if (dims[0] % block_elements != 0) {
    return DamagedAt(info_offset, absl::StrCat(what, " has rows of ", dims[0], " elements, not a multiple of ",
                                               block_elements, " as ", ToAbsl(facts.name), " needs"));
  }
  uint64_t bytes = dims[0] / block_elements;
  bool is_impossible = __builtin_mul_overflow(bytes, facts.block_bytes, &bytes);
  for (size_t d = 1; d < dims.size(); ++d) is_impossible |= __builtin_mul_overflow(bytes, dims[d], &bytes);
  uint64_t end = 0;
  if (is_impossible || __builtin_add_overflow(begin, bytes, &end)) {
    return DamagedAt(info_offset, absl::StrCat(what, " has an impossible size"));
  }
  if (begin % alignment_ != 0) {
    return DamagedAt(info_offset,
                     absl::StrCat(what, " begins at offset ", begin, ", not a multiple of the alignment ", alignment_));
  }
  extents_.push_back({.begin = begin, .end = end, .name = name, .info_offset = info_offset});
  if (!describes_) return AddTensor(name, dims, type);
  document_.stored_.push_back({.name = std::string(name),
                               .type = std::string(facts.name),
                               .shape = std::vector<int64_t>(dims.rbegin(), dims.rend()),
                               .bytes = bytes});
  return absl::OkStatus();
}

absl::StatusOr<GgufParser::Dims> GgufParser::ParseDims(std::string_view what) {
  const size_t offset = cursor_.offset();
  BATON_ASSIGN_OR_RETURN(const uint32_t count,
                         cursor_.Read<uint32_t>(absl::StrCat("the number of dimensions of ", ToAbsl(what))));
  if (count == 0 || count > kMaxTensorDims) {
    return DamagedAt(offset, absl::StrCat(ToAbsl(what), " has ", count, " dimensions, must be 1 to ", kMaxTensorDims));
  }
  Dims dims(count);
  for (uint64_t& size : dims) {
    BATON_ASSIGN_OR_RETURN(size, cursor_.Read<uint64_t>(absl::StrCat("a dimension of ", ToAbsl(what))));
    if (size == 0 || size > kMaxTensorDim) {
      return DamagedAt(offset,
                       absl::StrCat(ToAbsl(what), " has a dimension of ", size, ", must be 1 to ", kMaxTensorDim));
    }
  }
  return dims;
}

absl::StatusOr<uint32_t> GgufParser::ParseTensorType(std::string_view what) {
  const size_t offset = cursor_.offset();
  BATON_ASSIGN_OR_RETURN(const uint32_t id, cursor_.Read<uint32_t>(absl::StrCat("the type of ", ToAbsl(what))));
  if (FindGgmlType(id) != nullptr) return id;
  return DamagedAt(offset, absl::StrCat(ToAbsl(what), " is of the unknown type number ", id));
}

absl::Status GgufParser::AddTensor(std::string_view name, const Dims& dims, uint32_t type) {
  const std::optional<TensorType> run = TensorTypeFromGguf(type);
  if (!run.has_value()) {
    return absl::UnimplementedError(absl::StrCat("tensor ", ShowText(name), " is of type ",
                                                 ToAbsl(FindGgmlType(type)->name), ": Baton runs ",
                                                 TensorTypesThatRun(), "; use the model in one of these"));
  }
  const uint64_t rows = dims.size() > 1 ? dims[1] : 1;
  if (std::any_of(dims.begin() + std::min<ptrdiff_t>(2, std::ssize(dims)), dims.end(),
                  [](uint64_t size) { return size != 1; })) {
    return absl::UnimplementedError(absl::StrCat("tensor ", ShowText(name), " has ", dims.size(),
                                                 " dimensions: Baton runs vectors and matrices; use another model"));
  }
  const size_t row_bytes = dims[0] / static_cast<size_t>(TensorBlockElements(*run)) * TensorBlockBytes(*run);
  document_.tensors_.push_back({.name = std::string(name),
                                .type = *run,
                                .rows = static_cast<int64_t>(rows),
                                .cols = static_cast<int64_t>(dims[0]),
                                .bytes = rows * row_bytes});
  return absl::OkStatus();
}

absl::Status GgufParser::PlaceTensors() {
  const uint64_t infos_end = cursor_.offset();
  const uint64_t data_begin = (infos_end + alignment_ - 1) & ~(alignment_ - 1);
  if (tensor_count_ > 0 && data_begin > bytes_) return DamagedAt(bytes_, "the file ends before the tensor data");
  for (size_t i = 0; i < extents_.size(); ++i) {
    const Extent& extent = extents_[i];
    if (extent.end > bytes_ - data_begin) {
      return DamagedAt(extent.info_offset, absl::StrCat("tensor ", ShowText(extent.name), " ends at byte ", data_begin,
                                                        " + ", extent.end, ", the file at ", bytes_));
    }
    if (!describes_) document_.tensors_[i].data = data_ + data_begin + extent.begin;
  }
  std::sort(extents_.begin(), extents_.end(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < extents_.size(); ++i) {
    if (extents_[i].begin >= extents_[i - 1].end) continue;
    return DamagedAt(extents_[i].info_offset, absl::StrCat("tensors ", ShowText(extents_[i - 1].name), " and ",
                                                           ShowText(extents_[i].name), " overlap"));
  }
  return absl::OkStatus();
}

absl::StatusOr<GgufDocument> GgufDocument::Parse(const uint8_t* data, size_t bytes) {
  return GgufParser(data, bytes, /*describes=*/false).Run();
}

absl::StatusOr<GgufDocument> GgufDocument::ParseToDescribe(const uint8_t* data, size_t bytes) {
  return GgufParser(data, bytes, /*describes=*/true).Run();
}

}  // namespace baton::modelfile
