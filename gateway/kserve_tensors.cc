#include "gateway/kserve_tensors.h"

#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "gateway/field_reader.h"
#include "gateway/kserve_model.h"
#include "router/error_details.h"

namespace baton::gateway {
namespace {

using router::FieldViolation;

// Before each element of type BYTES.
constexpr size_t kSizeBytes = 4;

uint32_t ReadLittleEndian(const std::string& bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < kSizeBytes; ++i) value |= uint32_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  return value;
}

void AppendLittleEndian(uint32_t value, std::string* bytes) {
  for (size_t i = 0; i < kSizeBytes; ++i) bytes->push_back(static_cast<char>(value >> (8 * i) & 0xFF));
}

int64_t ElementsOf(const inference::InferTensorContents& contents) {
  return int64_t{contents.bool_contents_size()} + contents.int_contents_size() + contents.int64_contents_size() +
         contents.uint_contents_size() + contents.uint64_contents_size() + contents.fp32_contents_size() +
         contents.fp64_contents_size() + contents.bytes_contents_size();
}

absl::Status InputViolation(const std::string& input, std::string_view description) {
  return FieldViolation(input.substr(0, kMaxShownNameBytes), description);
}

std::string* AddOutput(const char* name, const char* datatype, int64_t size, inference::ModelInferResponse* response) {
  inference::ModelInferResponse::InferOutputTensor* const output = response->add_outputs();
  output->set_name(name);
  output->set_datatype(datatype);
  output->add_shape(size);
  return response->add_raw_output_contents();
}

// Elements of four bytes each.
template <typename Element>
void AddWords(const char* name, const char* datatype, absl::Span<const Element> elements,
              inference::ModelInferResponse* response) {
  static_assert(sizeof(Element) == sizeof(uint32_t));
  std::string* const raw = AddOutput(name, datatype, static_cast<int64_t>(elements.size()), response);
  raw->reserve(sizeof(uint32_t) * elements.size());
  for (const Element element : elements) {
    uint32_t word = 0;
    std::memcpy(&word, &element, sizeof(word));
    AppendLittleEndian(word, raw);
  }
}

}  // namespace

absl::StatusOr<KserveTensors> KserveTensors::Create(inference::ModelInferRequest& request) {
  const int raw = request.raw_input_contents_size();
  if (raw == 0) return KserveTensors(request);
  if (raw != request.inputs_size()) {
    return FieldViolation("raw_input_contents",
                          absl::StrCat("has ", raw, " entries for ", request.inputs_size(), " inputs"));
  }
  for (const auto& input : request.inputs()) {
    if (!input.has_contents()) continue;
    return InputViolation(input.name(), "has contents of its own beside those in raw_input_contents");
  }
  return KserveTensors(request);
}

absl::Status KserveTensors::Check(size_t index, const char* datatype) const {
  const auto& input = request_.inputs(static_cast<int>(index));
  if (!input.parameters().empty()) {
    return router::FieldStatus(
        absl::StatusCode::kUnimplemented,
        {.field = input.name().substr(0, kMaxShownNameBytes),
         .description = absl::StrCat("the parameter ", input.parameters().begin()->first.substr(0, kMaxShownNameBytes),
                                     " of an input is not supported")});
  }
  if (input.datatype() != datatype) return InputViolation(input.name(), absl::StrCat("must have the type ", datatype));
  if (input.shape_size() != 1 || input.shape(0) != 1) return InputViolation(input.name(), "must have the shape [1]");
  if (is_raw() || ElementsOf(input.contents()) == 1) return absl::OkStatus();
  return InputViolation(input.name(), absl::StrCat("must have one element, not ", ElementsOf(input.contents())));
}

absl::StatusOr<std::string> KserveTensors::TakeBytes(size_t index) {
  BATON_RETURN_IF_ERROR(Check(index, kBytesType));
  auto& input = *request_.mutable_inputs(static_cast<int>(index));
  if (!is_raw()) {
    if (input.contents().bytes_contents_size() != 1) return InputViolation(name(index), "must be in bytes_contents");
    return std::move(*input.mutable_contents()->mutable_bytes_contents(0));
  }
  std::string& raw = *request_.mutable_raw_input_contents(static_cast<int>(index));
  if (raw.size() < kSizeBytes || ReadLittleEndian(raw) != raw.size() - kSizeBytes) {
    return InputViolation(
        name(index), absl::StrCat("its ", raw.size(), " raw bytes must be the size of one element and that element"));
  }
  raw.erase(0, kSizeBytes);
  return std::move(raw);
}

absl::StatusOr<bool> KserveTensors::ReadBool(size_t index) const {
  BATON_RETURN_IF_ERROR(Check(index, kBoolType));
  const auto& input = request_.inputs(static_cast<int>(index));
  if (!is_raw()) {
    if (input.contents().bool_contents_size() != 1) return InputViolation(name(index), "must be in bool_contents");
    return input.contents().bool_contents(0);
  }
  const std::string& raw = request_.raw_input_contents(static_cast<int>(index));
  if (raw.size() != 1 || (raw[0] != 0 && raw[0] != 1)) {
    return InputViolation(name(index), "its raw contents must be one byte, 0 or 1");
  }
  return raw[0] == 1;
}

void AddBytesOutput(const char* name, absl::Span<const std::string> elements, inference::ModelInferResponse* response) {
  std::string* const raw = AddOutput(name, kBytesType, static_cast<int64_t>(elements.size()), response);
  size_t bytes = 0;
  for (const std::string& element : elements) bytes += kSizeBytes + element.size();
  raw->reserve(bytes);
  for (const std::string& element : elements) {
    AppendLittleEndian(static_cast<uint32_t>(element.size()), raw);
    raw->append(element);
  }
}

void AddUint32Output(const char* name, absl::Span<const uint32_t> elements, inference::ModelInferResponse* response) {
  AddWords(name, kUint32Type, elements, response);
}

void AddFp32Output(const char* name, absl::Span<const float> elements, inference::ModelInferResponse* response) {
  AddWords(name, kFp32Type, elements, response);
}

void AddInt32Output(const char* name, absl::Span<const int32_t> elements, inference::ModelInferResponse* response) {
  AddWords(name, kInt32Type, elements, response);
}

}  // namespace baton::gateway
