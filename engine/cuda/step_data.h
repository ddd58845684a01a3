// What a step's kernels need to know about its rows, as one range of bytes: filled in pinned memory, uploaded by one
// copy. The places of its parts depend on the number of rows alone, so that a captured step reads what the next one of
// its size uploads. There are two pinned buffers in turn, so that a step is filled while the one before is in flight,
// and one of the device, since uploads and kernels follow each other on a stream.
#ifndef BATON_ENGINE_CUDA_STEP_DATA_H_
#define BATON_ENGINE_CUDA_STEP_DATA_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/cuda/device.h"
#include "engine/cuda/kernels/params.h"
#include "engine/model/step_plan.h"
#include "modelfile/model_config.h"

namespace baton::engine::cuda {

// Small tiles of all slices, and large ones beside them of every slice that needs more than one small tile.
struct StepTiles {
  int small = 0;
  // The first of the small ones: of slices without large ones.
  int alone = 0;
  int large = 0;
};

// What any step has at most: rows, those that fill up among them, and slices. A slice has blocks for a whole context.
struct StepBounds {
  int rows = 0;
  int slices = 0;
};

class StepData {
 public:
  // Takes all memory that steps within the bounds need. RESOURCE_EXHAUSTED.
  static absl::StatusOr<StepData> Create(const Device& device, const modelfile::ModelConfig& config,
                                         const KvGroups& groups, const StepBounds& bounds);

  // Fills the data of `plan`, which was filled from `batch`. Rows up to `rows` >= the plan's are sequences of one row
  // each at position 0, whose blocks begin at `spare` and which write 16 rows to each. The upload of the step before
  // the last one has ended. Nothing is allocated, and no stream is waited for.
  void Fill(const StepPlan& plan, const StepBatch& batch, int rows, BlockId spare);
  // How the token of an output is drawn; the largest logit's until it is said.
  void SetSampling(int output, const SampleRow& row) { Host<SampleRow>(place_.sampling)[output] = row; }
  void Upload(const Stream& stream) const {
    stream.CopyToDevice(device_buffer_.address(), host_[turn_].at<void>(), used_);
  }

  // Of the filled step.
  const StepTiles& tiles() const { return tiles_; }
  // Most splits of any row.
  int splits() const { return splits_; }

  // Addresses of the device, as of the filled step. A token that is the output i of the step before is ~i.
  const int32_t* tokens() const { return At<int32_t>(place_.tokens); }
  const int32_t* positions() const { return At<int32_t>(place_.positions); }
  const int32_t* slots() const { return At<int32_t>(place_.slots); }
  const int32_t* output_rows() const { return At<int32_t>(place_.output_rows); }
  const SampleRow* sampling() const { return At<SampleRow>(place_.sampling); }
  // Of a layer group.
  const int32_t* row_blocks(int group) const {
    return At<int32_t>(place_.row_blocks) + static_cast<ptrdiff_t>(group) * rows_;
  }
  // The small tiles, and then the large ones.
  const QueryTile* query_tiles() const { return At<QueryTile>(place_.tiles); }
  const float* rotation(bool slides) const { return At<float>(slides ? place_.sliding_rotation : place_.rotation); }
  const int32_t* blocks() const { return At<int32_t>(place_.blocks); }

 private:
  struct LongSlice {
    const SequenceSlice* slice;
    int32_t first_block;
  };
  struct Places {
    size_t tokens, positions, slots, output_rows, sampling, row_blocks, tiles, rotation, sliding_rotation, blocks;
  };

  StepData(const modelfile::ModelConfig& config, const KvGroups& groups);
  Places PlacesOf(int rows) const;
  // Bytes of the block lists of `slice_blocks` blocks in each group, and of one for every row that fills up.
  size_t BlockListBytes(int64_t slice_blocks, int rows) const;
  void FillRows(const StepPlan& plan, absl::Span<const int32_t> token_sources, BlockId spare);
  void FillTiles(const StepPlan& plan, const StepBatch& batch, BlockId spare);
  // Adds tiles of up to `rows` rows behind the first `count`, and gives their number with these.
  int AddTiles(int count, const SequenceSlice& slice, int32_t first_block, int rows) const;
  void FillRotation(const std::vector<float>& inverse_frequency, size_t place, int rows) const;

  template <typename T>
  const T* At(size_t place) const {
    return device_buffer_.at<const T>(place);
  }
  template <typename T>
  T* Host(size_t place) const {
    return host_[turn_].at<T>(place);
  }

  int head_dim_;
  int tile_rows_;
  int large_tile_rows_;
  KvGroups groups_;
  // f32, [head_dim / 2]; of layers that slide, empty where none does.
  std::vector<float> inverse_frequency_;
  std::vector<float> sliding_inverse_frequency_;

  std::array<PinnedBuffer, 2> host_;
  // The one of the filled step.
  size_t turn_ = 0;
  DeviceBuffer device_buffer_;
  int rows_ = 0;
  Places place_{};
  size_t used_ = 0;
  StepTiles tiles_;
  // Of the step that is being filled: slices with large tiles.
  std::vector<LongSlice> long_slices_;
  int splits_ = 0;
};

}  // namespace baton::engine::cuda

#endif  // BATON_ENGINE_CUDA_STEP_DATA_H_
