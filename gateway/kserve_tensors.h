// Reads and writes the tensors in messages of KServe's protocol.
#ifndef BATON_GATEWAY_KSERVE_TENSORS_H_
#define BATON_GATEWAY_KSERVE_TENSORS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "inference/kserve.pb.h"

namespace baton::gateway {

// The inputs of a request, each of which has one element. They lie in the inputs' own contents or, all of them, in
// raw_input_contents. Errors are INVALID_ARGUMENT with the name of the input as the field at fault.
class KserveTensors {
 public:
  // `request` outlives it. An error when the contents are given in both places, or not all of them.
  static absl::StatusOr<KserveTensors> Create(inference::ModelInferRequest& request);

  size_t size() const { return static_cast<size_t>(request_.inputs_size()); }
  // The client's, of any length.
  const std::string& name(size_t index) const { return request_.inputs(static_cast<int>(index)).name(); }
  // The element of type BYTES, taken out of the request, or of type BOOL.
  absl::StatusOr<std::string> TakeBytes(size_t index);
  absl::StatusOr<bool> ReadBool(size_t index) const;

 private:
  explicit KserveTensors(inference::ModelInferRequest& request) : request_(request) {}

  bool is_raw() const { return request_.raw_input_contents_size() > 0; }
  // The tensor has one element of the type.
  absl::Status Check(size_t index, const char* datatype) const;

  inference::ModelInferRequest& request_;
};

// Each adds an output to the response: a list of BYTES, UINT32, FP32 or INT32.
void AddBytesOutput(const char* name, absl::Span<const std::string> elements, inference::ModelInferResponse* response);
void AddUint32Output(const char* name, absl::Span<const uint32_t> elements, inference::ModelInferResponse* response);
void AddFp32Output(const char* name, absl::Span<const float> elements, inference::ModelInferResponse* response);
void AddInt32Output(const char* name, absl::Span<const int32_t> elements, inference::ModelInferResponse* response);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_KSERVE_TENSORS_H_
