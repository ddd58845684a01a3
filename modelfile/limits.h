// The named bounds on what a model file may state. Each has a test at the limit and one beyond it. Reading a file
// allocates at most a small multiple of its bytes.
#ifndef BATON_MODELFILE_LIMITS_H_
#define BATON_MODELFILE_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace baton::modelfile {

// The container.
inline constexpr uint64_t kMaxFileBytes = uint64_t{1} << 42;
inline constexpr uint64_t kMaxMetadataEntries = 4096;
inline constexpr uint64_t kMaxKeyBytes = 256;
inline constexpr uint64_t kMaxStringBytes = 1u << 20;
inline constexpr uint64_t kMaxArrayElements = 1u << 22;
inline constexpr uint64_t kMaxTensors = 1u << 16;
inline constexpr uint64_t kMaxTensorNameBytes = 64;
inline constexpr uint32_t kMaxTensorDims = 4;
inline constexpr uint64_t kMaxTensorDim = (uint64_t{1} << 31) - 1;
inline constexpr uint64_t kDefaultAlignment = 32;
inline constexpr uint64_t kMinAlignment = 8;
inline constexpr uint64_t kMaxAlignment = 1u << 16;

// Hugging Face directories.
inline constexpr uint64_t kMaxHfJsonBytes = 1u << 20;  // config.json, generation_config.json, tokenizer_config.json
inline constexpr uint64_t kMaxHfTokenizerBytes = 128u << 20;
inline constexpr uint64_t kMaxHfIndexBytes = 64u << 20;
inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;  // the format's own
inline constexpr size_t kMaxJsonDepth = 64;
inline constexpr size_t kMaxHfTensorNameBytes = 256;
inline constexpr size_t kMaxHfTensorDims = 8;
inline constexpr size_t kMaxHfShards = 1024;
inline constexpr size_t kMaxHfFileNameBytes = 255;

// The model.
inline constexpr int32_t kMaxLayers = 512;
inline constexpr int32_t kMaxHiddenSize = 1 << 16;
inline constexpr int32_t kMaxHeads = 512;
inline constexpr int32_t kMaxHeadDim = 1024;
inline constexpr int32_t kMaxFfnSize = 1 << 19;
inline constexpr int32_t kMaxVocabSize = 1 << 20;
inline constexpr int32_t kMaxContextLength = 1 << 22;
inline constexpr double kMaxRopeTheta = 1e12;
inline constexpr double kMaxRopeScalingFactor = 1024;
inline constexpr double kMaxNormEps = 0.1;

// The tokenizer.
inline constexpr size_t kMaxMerges = 1u << 21;
inline constexpr size_t kMaxTokenBytes = 1024;
inline constexpr size_t kMaxChatTemplateBytes = 256u << 10;

// What `baton inspect` and error messages show of a value.
inline constexpr size_t kMaxShownBytes = 160;
inline constexpr size_t kMaxShownElements = 4;

// Names of the model store.
inline constexpr size_t kMaxModelNameBytes = 128;

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_LIMITS_H_
