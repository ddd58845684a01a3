// A stand-in of libcublasLt.so for machines without a GPU, for tests of the benchmark: the functions that
// cublaslt_api.h calls, over whatever libcuda.so.1 the process has (tests/ptx/emulated_libcuda.cc). It takes one kind
// of product: bf16, A transposed, alpha 1 and beta 0, and computes it on the host while the caller waits. It says that
// it is a stand-in by the symbol baton_cublaslt_stand_in. Where BATON_STAND_IN_CUBLASLT_FAULT is set, the first element
// of a product is wrong.
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <vector>

#include "engine/kernels/half.h"
#include "tests/cuda/bench/cublaslt_types.h"

namespace baton::cublaslt {
namespace {

// 2^20 as bf16, far from what weights and activations below 1 give.
constexpr uint16_t kWrongElement = 0x4980;

// The functions of cuda.h that it needs, which answer 0 for success.
struct Driver {
  int (*copy_to_host)(void* to, unsigned long long from, size_t bytes, void* stream) = nullptr;
  int (*copy_to_device)(unsigned long long to, const void* from, size_t bytes, void* stream) = nullptr;
  int (*synchronize)(void* stream) = nullptr;
};

const Driver& TheDriver() {
  static const Driver kDriver = [] {
    Driver driver;
    void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) return driver;
    const auto bind = [library](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
    };
    bind(driver.copy_to_host, "cuMemcpyDtoHAsync_v2");
    bind(driver.copy_to_device, "cuMemcpyHtoDAsync_v2");
    bind(driver.synchronize, "cuStreamSynchronize");
    return driver;
  }();
  return kDriver;
}

struct OperationData {
  bool transposes_a = false;
};

// Columns are contiguous.
struct LayoutData {
  int type;
  uint64_t rows;
  uint64_t columns;
  int64_t stride;

  size_t bytes() const { return static_cast<size_t>(stride) * columns * sizeof(uint16_t); }
};

template <typename T>
Status Make(void** to, T value) {
  *to = new T(value);
  return kSuccess;
}

template <typename T>
Status Drop(void* from) {
  delete static_cast<T*>(from);
  return kSuccess;
}

const LayoutData& Of(Layout layout) { return *static_cast<const LayoutData*>(layout); }

bool IsTaken(Operation operation, Layout a, Layout b, Layout d) {
  return static_cast<const OperationData*>(operation)->transposes_a && Of(a).type == kRealBf16 &&
         Of(b).type == kRealBf16 && Of(d).type == kRealBf16 && Of(a).rows == Of(b).rows &&
         Of(d).rows == Of(a).columns && Of(d).columns == Of(b).columns;
}

bool Read(const void* from, const LayoutData& layout, StreamHandle stream, std::vector<uint16_t>& to) {
  to.resize(layout.bytes() / sizeof(uint16_t));
  return TheDriver().copy_to_host(to.data(), reinterpret_cast<uintptr_t>(from), layout.bytes(), stream) == 0 &&
         TheDriver().synchronize(stream) == 0;
}

float Dot(const uint16_t* a, const uint16_t* b, uint64_t count) {
  double sum = 0;
  for (uint64_t i = 0; i < count; ++i)
    sum += double{engine::kernels::Bf16ToFloat(a[i])} * engine::kernels::Bf16ToFloat(b[i]);
  return static_cast<float>(sum);
}

Status Multiply(const void* a, const LayoutData& of_a, const void* b, const LayoutData& of_b, void* d,
                const LayoutData& of_d, StreamHandle stream) {
  std::vector<uint16_t> left, right;
  if (!Read(a, of_a, stream, left) || !Read(b, of_b, stream, right)) return kInvalidValue;
  std::vector<uint16_t> product(of_d.bytes() / sizeof(uint16_t));
  for (uint64_t column = 0; column < of_d.columns; ++column) {
    for (uint64_t row = 0; row < of_d.rows; ++row) {
      product[column * static_cast<uint64_t>(of_d.stride) + row] =
          engine::kernels::FloatToBf16(Dot(left.data() + row * static_cast<uint64_t>(of_a.stride),
                                           right.data() + column * static_cast<uint64_t>(of_b.stride), of_a.rows));
    }
  }
  if (std::getenv("BATON_STAND_IN_CUBLASLT_FAULT") != nullptr) product[0] = kWrongElement;
  const bool copied =
      TheDriver().copy_to_device(reinterpret_cast<uintptr_t>(d), product.data(), of_d.bytes(), stream) == 0 &&
      TheDriver().synchronize(stream) == 0;
  return copied ? kSuccess : kInvalidValue;
}

}  // namespace
}  // namespace baton::cublaslt

using baton::cublaslt::Algorithm;
using baton::cublaslt::Handle;
using baton::cublaslt::Layout;
using baton::cublaslt::LayoutData;
using baton::cublaslt::Of;
using baton::cublaslt::Operation;
using baton::cublaslt::OperationData;
using baton::cublaslt::Preference;
using baton::cublaslt::Proposal;
using baton::cublaslt::Status;
using baton::cublaslt::StreamHandle;

extern "C" {

extern const int baton_cublaslt_stand_in;
const int baton_cublaslt_stand_in = 1;

size_t cublasLtGetVersion() { return 0; }

const char* cublasLtGetStatusString(Status status) {
  return status == baton::cublaslt::kSuccess ? "success" : "the stand-in of cuBLASLt does not do that";
}

Status cublasLtCreate(Handle* handle) {
  if (baton::cublaslt::TheDriver().synchronize == nullptr) return baton::cublaslt::kNotInitialized;
  return baton::cublaslt::Make(handle, 0);
}

Status cublasLtDestroy(Handle handle) { return baton::cublaslt::Drop<int>(handle); }

Status cublasLtMatmulDescCreate(Operation* operation, int compute, int scale_type) {
  if (compute != baton::cublaslt::kComputeF32 || scale_type != baton::cublaslt::kRealF32) {
    return baton::cublaslt::kNotSupported;
  }
  return baton::cublaslt::Make(operation, OperationData());
}

Status cublasLtMatmulDescDestroy(Operation operation) { return baton::cublaslt::Drop<OperationData>(operation); }

Status cublasLtMatmulDescSetAttribute(Operation operation, int attribute, const void* value, size_t bytes) {
  int is = 0;
  if (attribute != baton::cublaslt::kTransposeA || bytes != sizeof(is)) return baton::cublaslt::kNotSupported;
  std::memcpy(&is, value, sizeof(is));
  static_cast<OperationData*>(operation)->transposes_a = is == baton::cublaslt::kTransposed;
  return baton::cublaslt::kSuccess;
}

Status cublasLtMatrixLayoutCreate(Layout* layout, int type, uint64_t rows, uint64_t columns, int64_t stride) {
  if (stride < static_cast<int64_t>(rows)) return baton::cublaslt::kInvalidValue;
  return baton::cublaslt::Make(layout, LayoutData{type, rows, columns, stride});
}

Status cublasLtMatrixLayoutDestroy(Layout layout) { return baton::cublaslt::Drop<LayoutData>(layout); }

Status cublasLtMatmulPreferenceCreate(Preference* preference) { return baton::cublaslt::Make(preference, 0); }

Status cublasLtMatmulPreferenceDestroy(Preference preference) { return baton::cublaslt::Drop<int>(preference); }

Status cublasLtMatmulPreferenceSetAttribute(Preference /*preference*/, int attribute, const void* /*value*/,
                                            size_t bytes) {
  return attribute == baton::cublaslt::kMostWorkspaceBytes && bytes == sizeof(uint64_t)
             ? baton::cublaslt::kSuccess
             : baton::cublaslt::kNotSupported;
}

Status cublasLtMatmulAlgoGetHeuristic(Handle /*handle*/, Operation operation, Layout a, Layout b, Layout /*c*/,
                                      Layout d, Preference /*preference*/, int asked, Proposal* proposals, int* count) {
  if (asked < 1 || !baton::cublaslt::IsTaken(operation, a, b, d)) return baton::cublaslt::kNotSupported;
  proposals[0] = {};
  *count = 1;
  return baton::cublaslt::kSuccess;
}

Status cublasLtMatmul(Handle /*handle*/, Operation operation, const void* alpha, const void* a, Layout a_layout,
                      const void* b, Layout b_layout, const void* beta, const void* /*c*/, Layout /*c_layout*/, void* d,
                      Layout d_layout, const Algorithm* /*algorithm*/, void* /*workspace*/, size_t /*workspace_bytes*/,
                      StreamHandle stream) {
  float factors[2];
  std::memcpy(&factors[0], alpha, sizeof(float));
  std::memcpy(&factors[1], beta, sizeof(float));
  if (factors[0] != 1.0f || factors[1] != 0.0f || !baton::cublaslt::IsTaken(operation, a_layout, b_layout, d_layout)) {
    return baton::cublaslt::kNotSupported;
  }
  return baton::cublaslt::Multiply(a, Of(a_layout), b, Of(b_layout), d, Of(d_layout), stream);
}

}  // extern "C"
