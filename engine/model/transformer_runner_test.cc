#include <cmath>
#include <cstring>
#include <filesystem>

#include "common/testing/slow_build.h"
#include "engine/cpu_model.h"
#include "engine/kernels/aligned_buffer.h"
#include "engine/kernels/dispatch.h"
#include "engine/model/fingerprint.h"
#include "engine/model/synthetic_model.h"
#include "engine/testing/naive_transformer.h"
#include "engine/testing/run_sequences.h"
#include "engine/testing/synthetic_variants.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::engine {
namespace {

int64_t FirstDifference(const Outcome& a, const Outcome& b) {
  if (a.kv.size() != b.kv.size() || a.logits.size() != b.logits.size()) return 0;
  for (size_t i = 0; i < a.logits.size(); ++i) {
    if (std::memcmp(&a.logits[i], &b.logits[i], sizeof(float)) != 0) return static_cast<int64_t>(i);
  }
  return std::memcmp(a.kv.data(), b.kv.data(), a.kv.size()) == 0 ? -1 : static_cast<int64_t>(a.logits.size());
}

struct Mode {
  Numerics numerics;
  KvDtype kv_dtype;
};

class EveryNumerics : public testing::TestWithParam<Mode> {
 protected:
  std::unique_ptr<ModelRunner> LoadInMode(const modelfile::ModelFile& file, CpuModelOptions options) const {
    options.numerics = GetParam().numerics;
    options.kv_dtype = GetParam().kv_dtype;
    return Load(file, options);
  }
  bool has_int8_kv() const { return GetParam().kv_dtype == KvDtype::kInt8; }
};

INSTANTIATE_TEST_SUITE_P(Modes, EveryNumerics,
                         testing::Values(Mode{Numerics::kExact, KvDtype::kBf16}, Mode{Numerics::kFp32, KvDtype::kF32},
                                         Mode{Numerics::kExact, KvDtype::kInt8}),
                         [](const auto& info) {
                           if (info.param.kv_dtype == KvDtype::kInt8) return "exact_int8_kv";
                           return info.param.numerics == Numerics::kExact ? "exact" : "fp32";
                         });

TEST_P(EveryNumerics, ARowsBitsDependOnItsOwnSequenceAlone) {
  for (const Variant& variant : Variants()) {
    if (has_int8_kv() && !variant.with_int8_kv) continue;
    SCOPED_TRACE(variant.name);
    const auto file = MakeSyntheticModel(variant.spec);
    SeededRandom random(kSeed);
    std::vector<std::vector<int32_t>> sequences;
    for (const int length : {1, 5, 17, 64, 100, 275}) {
      if (kIsSlowBuild && length > 100) continue;
      sequences.push_back(RandomTokens(random, length, variant.spec.vocab_size));
    }

    // Each alone, in one piece, on one thread, by the definition.
    std::vector<Outcome> want;
    const auto reference = LoadInMode(*file, {.isa = Isa::kScalar, .threads = 1, .max_rows = 300});
    for (const auto& s : sequences) {
      want.push_back(RunSequences(
                         *reference, {s}, [](size_t) { return 300; }, random)
                         .front());
    }
    // In one batch with the others, chunks drawn anew for each step up to `longest` rows.
    struct Course {
      int threads;
      uint64_t longest;
    };
    for (const Isa isa : SupportedIsas()) {
      for (const Course course : {Course{1, 130}, Course{2, 40}, Course{3, 1}, Course{3, 130}}) {
        if ((isa == Isa::kScalar || has_int8_kv() || kIsSlowBuild) && course.longest != 40) continue;
        const auto runner = LoadInMode(*file, {.isa = isa, .threads = course.threads, .max_rows = 600});
        EXPECT_EQ(runner->fingerprint(), reference->fingerprint());
        const auto got = RunSequences(
            *runner, sequences,
            [&](size_t i) { return course.longest == 1 ? 1 : random.Below(course.longest + 8 * i) + 1; }, random);
        for (size_t i = 0; i < got.size(); ++i) {
          EXPECT_EQ(FirstDifference(got[i], want[i]), -1)
              << IsaName(isa) << " threads " << course.threads << " chunks up to " << course.longest << " sequence "
              << i << " seed " << kSeed;
        }
      }
    }
  }
}

// Wants the cores back at every `every`-th question.
class ImpatientGate final : public StepGate {
 public:
  explicit ImpatientGate(int every) : every_(every) {}
  int pauses() const { return pauses_; }

  void Enter() override {}
  bool yields() const override { return true; }
  bool ShouldYield() override { return ++questions_ % every_ == 0; }
  void Yield() override { ++pauses_; }
  void Leave() override {}

 private:
  const int every_;
  int questions_ = 0;
  int pauses_ = 0;
};

TEST(CpuModel, PausesOfAStepDoNotShowInItsBits) {
  const auto file = MakeSyntheticModel({});
  SeededRandom random(kSeed);
  const std::vector<std::vector<int32_t>> sequences = {RandomTokens(random, 150, SyntheticSpec().vocab_size)};
  const auto run = [&](int threads, StepGate* gate) {
    const auto runner = Load(*file, {.threads = threads, .max_rows = 150, .gate = gate});
    return RunSequences(
               *runner, sequences, [](size_t) { return 150; }, random)
        .front();
  };
  const Outcome want = run(1, nullptr);
  for (const int threads : {1, 2, 3}) {
    for (const int every : {1, 2, 7}) {
      ImpatientGate gate(every);
      EXPECT_EQ(FirstDifference(run(threads, &gate), want), -1) << threads << " threads, every " << every;
      // Only one thread asks, and only about units that it takes itself. With others beside it the machine's load
      // decides how many those are, and there may be none.
      if (threads == 1) {
        EXPECT_GT(gate.pauses(), 0) << "every " << every;
      }
    }
  }
}

TEST_P(EveryNumerics, AgreesWithAPlainImplementationInDouble) {
  for (const Variant& variant : Variants()) {
    const auto file = MakeSyntheticModel(variant.spec);
    SeededRandom random(kSeed);
    const std::vector<int32_t> tokens = RandomTokens(random, 40, variant.spec.vocab_size);
    const auto runner = LoadInMode(*file, {.threads = 1, .max_rows = 64});
    const Outcome got = RunSequences(
                            *runner, {tokens}, [](size_t) { return 40; }, random)
                            .front();
    const std::vector<double> want = NaiveLogits(*file, tokens);
    ASSERT_EQ(got.logits.size(), want.size());
    double error = 0, size = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      error += (got.logits[i] - want[i]) * (got.logits[i] - want[i]);
      size += want[i] * want[i];
    }
    EXPECT_LT(std::sqrt(error / size), GetParam().numerics == Numerics::kFp32 ? 2e-6 : 0.03) << variant.name;
  }
}

TEST_P(EveryNumerics, AgreesWithAPlainImplementationWhenBlocksBehindTheWindowAreGivenBack) {
  for (const Variant& variant : Variants()) {
    if (variant.spec.sliding_window == 0) continue;
    const auto file = MakeSyntheticModel(variant.spec);
    SeededRandom random(kSeed);
    const std::vector<int32_t> tokens = RandomTokens(random, 140, variant.spec.vocab_size);
    const std::vector<double> want = NaiveLogits(*file, tokens);
    const auto runner = LoadInMode(*file, {.threads = 1, .max_rows = 140});
    for (const int chunk : {1, 16, 50, 140}) {
      const Outcome got = RunSequences(
                              *runner, {tokens}, [&](size_t) { return chunk; }, random)
                              .front();
      ASSERT_EQ(got.logits.size(), want.size());
      double error = 0, size = 0;
      for (size_t i = 0; i < want.size(); ++i) {
        error += (got.logits[i] - want[i]) * (got.logits[i] - want[i]);
        size += want[i] * want[i];
      }
      EXPECT_LT(std::sqrt(error / size), GetParam().numerics == Numerics::kFp32 ? 2e-6 : 0.03)
          << variant.name << ", chunks of " << chunk;
    }
  }
}

TEST_P(EveryNumerics, BytesOfOtherTokensNeverMatter) {
  const auto file = MakeSyntheticModel({});
  const auto runner = LoadInMode(*file, {.threads = 2, .max_rows = 64});
  std::vector<int32_t> tokens(21, 3);
  std::vector<std::vector<float>> logits;
  for (const int fill : {0x00, 0xff}) {
    kernels::AlignedBuffer memory(2 * runner->kv_layout().block_bytes());
    std::memset(memory.data(), fill, memory.bytes());
    HostKvPool pool(absl::MakeSpan(memory.data(), memory.bytes()), runner->kv_layout().block_bytes());
    runner->SetKvPool(pool);
    const BlockId blocks[] = {1, 0};
    SequenceSlice slice;
    slice.row_count = 21;
    slice.blocks = blocks;
    slice.output_rows = OutputRows::kLast;
    slice.first_output = 0;
    StepBatch batch;
    batch.tokens = tokens;
    batch.slices = absl::MakeConstSpan(&slice, 1);
    batch.output_count = 1;
    logits.emplace_back(static_cast<size_t>(runner->vocab_size()));
    runner->Run(batch, {.logits = absl::MakeSpan(logits.back())});
  }
  EXPECT_EQ(std::memcmp(logits[0].data(), logits[1].data(), logits[0].size() * sizeof(float)), 0);
  EXPECT_TRUE(std::isfinite(logits[0][0]));
}

TEST(CpuModel, FingerprintNamesWeightsAndNumerics) {
  const auto one = MakeSyntheticModel({.seed = 1});
  const auto two = MakeSyntheticModel({.seed = 2});
  const std::string a = Load(*one, {.threads = 1})->fingerprint();
  EXPECT_EQ(a, Load(*one, {.threads = 2})->fingerprint());
  EXPECT_NE(a, Load(*two, {.threads = 1})->fingerprint());
  EXPECT_NE(a, Load(*one, {.numerics = Numerics::kFp32, .threads = 1})->fingerprint());
  EXPECT_THAT(a, testing::StartsWith("exact-v"));
  EXPECT_THAT(a, testing::HasSubstr("-bf16-"));
  const std::string int8 = Load(*one, {.kv_dtype = KvDtype::kInt8, .threads = 1})->fingerprint();
  EXPECT_NE(a, int8);
  EXPECT_THAT(int8, testing::HasSubstr("-int8-"));
}

// The bits themselves, whatever the compiler. A change of an operator's definition raises kNumericsVersion and changes
// these digests.
TEST(CpuModel, NumericsAreThoseOfTheirVersion) {
  for (const kernels::KernelTable* table : kernels::SupportedKernels()) {
    EXPECT_EQ(ProbeNumerics(Numerics::kExact, KvDtype::kBf16, *table).ToHex(), "d4b341c660ac25f18ae2577ea2642ef9")
        << table->name;
    EXPECT_EQ(ProbeNumerics(Numerics::kExact, KvDtype::kInt8, *table).ToHex(), "8ebd66dbd9a388b8e326a998b7251256")
        << table->name;
    EXPECT_EQ(ProbeNumerics(Numerics::kFp32, KvDtype::kF32, *table).ToHex(), "ad5d169e51fe47c30f47c66ae6db1b6d")
        << table->name;
  }
}

// A file without one of its tensors.
class Without final : public modelfile::ModelFile {
 public:
  Without(const modelfile::ModelFile& file, std::string name) : file_(file), name_(std::move(name)) {}
  const modelfile::ModelConfig& config() const override { return file_.config(); }
  const modelfile::TokenizerSpec& tokenizer() const override { return file_.tokenizer(); }
  const std::vector<modelfile::TensorView>& tensors() const override { return file_.tensors(); }
  const modelfile::TensorView* Find(std::string_view name) const override {
    return name == name_ ? nullptr : file_.Find(name);
  }
  Digest128 WeightsDigest() const override { return file_.WeightsDigest(); }

 private:
  const modelfile::ModelFile& file_;
  const std::string name_;
};

TEST(CpuModel, NamesAMissingTensor) {
  const auto file = MakeSyntheticModel({});
  const auto got = LoadCpuModel(Without(*file, "blk.1.ffn_up.weight"), {});
  EXPECT_EQ(got.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(got.status().message()), testing::HasSubstr("blk.1.ffn_up.weight"));
}

TEST(CpuModel, RefusesShapesAndOptionsThatItCannotRun) {
  const auto odd = MakeSyntheticModel({.head_dim = 48});
  EXPECT_EQ(LoadCpuModel(*odd, {}).status().code(), absl::StatusCode::kUnimplemented);
  const auto heads = MakeSyntheticModel({.heads = 3, .kv_heads = 2});
  EXPECT_EQ(LoadCpuModel(*heads, {}).status().code(), absl::StatusCode::kUnimplemented);
  const auto file = MakeSyntheticModel({});
  EXPECT_EQ(LoadCpuModel(*file, {.threads = -1}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(LoadCpuModel(*file, {.max_rows = 0}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CpuModel, TakesTheKvTypesOfItsNumericsAlone) {
  const auto file = MakeSyntheticModel({});
  const auto dtype_of = [&](Numerics numerics, std::optional<KvDtype> asked) {
    return Load(*file, {.numerics = numerics, .kv_dtype = asked, .threads = 1})->kv_layout().dtype;
  };
  EXPECT_EQ(dtype_of(Numerics::kExact, std::nullopt), KvDtype::kBf16);
  EXPECT_EQ(dtype_of(Numerics::kExact, KvDtype::kInt8), KvDtype::kInt8);
  EXPECT_EQ(dtype_of(Numerics::kFp32, std::nullopt), KvDtype::kF32);
  const auto error_of = [&](Numerics numerics, KvDtype asked) {
    return LoadCpuModel(*file, {.numerics = numerics, .kv_dtype = asked}).status();
  };
  EXPECT_EQ(error_of(Numerics::kFp32, KvDtype::kBf16).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(error_of(Numerics::kExact, KvDtype::kOpaque).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(error_of(Numerics::kExact, KvDtype::kF32).message()), testing::HasSubstr("bf16 or int8"));
  EXPECT_THAT(std::string(error_of(Numerics::kFp32, KvDtype::kInt8).message()), testing::HasSubstr("f32"));
}

class RealModel : public testing::Test {
 protected:
  void SetUp() override {
    const auto path = modelfile::ResolveModel(modelfile::kDefaultModel);
    if (!path.ok() || !std::filesystem::exists(*path)) GTEST_SKIP() << "the default model is not in the store";
    auto file = modelfile::OpenModelFile(*path);
    ASSERT_TRUE(file.ok()) << file.status();
    file_ = *std::move(file);
  }
  // "The capital of France is"
  const std::vector<int32_t> prompt_{504, 3575, 282, 4649, 314};
  std::unique_ptr<modelfile::ModelFile> file_;
};

TEST_F(RealModel, KnowsTheCapitalOfFranceInEveryModeAndInstructionSet) {
  SeededRandom random(kSeed);
  for (const Numerics numerics : {Numerics::kExact, Numerics::kFp32}) {
    Outcome want;
    for (const Isa isa : SupportedIsas()) {
      const auto runner = Load(*file_, {.numerics = numerics, .isa = isa, .max_rows = 16});
      const int chunk = isa == Isa::kAvx512Vnni ? 2 : 5;
      const Outcome got = RunSequences(
                              *runner, {prompt_}, [&](size_t) { return chunk; }, random)
                              .front();
      const auto last = got.logits.end() - runner->vocab_size();
      EXPECT_EQ(std::max_element(last, got.logits.end()) - last, 7042) << IsaName(isa);  // " Paris"
      if (want.logits.empty()) want = got;
      EXPECT_EQ(FirstDifference(got, want), -1) << IsaName(isa);
    }
  }
}

}  // namespace
}  // namespace baton::engine
