// engine_bench: prefill and decode speed of the CPU engine by itself, without scheduler, network or tokenizer.
//
//   engine_bench [--model M] [--numerics exact|fp32] [--isa auto|scalar|avx2|avx512-vnni] [--threads N] [--prompt N]
//                [--chunk N] [--decode N] [--repeat N] [--json]
//
// Prefill: `prompt` tokens in chunks. Decode: one and 32 streams, each behind its own context of `prompt` tokens. Each
// figure is the median of `repeat` runs, and the best, which says more on a busy machine.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "common/clock.h"
#include "engine/cpu_model.h"
#include "engine/kernels/aligned_buffer.h"
#include "modelfile/model_file.h"

namespace baton {
namespace {

constexpr int kStreams = 32;

struct Options {
  std::string model{modelfile::kDefaultModel};
  std::string numerics = "exact";
  std::string isa = "auto";
  int threads = 0;
  int prompt = 512;
  int chunk = 512;
  int decode = 32;
  int repeat = 3;
  bool json = false;
  // Prints the greedy continuation of these tokens instead of measuring.
  std::vector<int32_t> continue_ids;
};

double Seconds(TimeNs start) { return static_cast<double>(MonotonicClock().Now() - start) / kNsPerSecond; }

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double Best(const std::vector<double>& values) { return *std::max_element(values.begin(), values.end()); }

class Bench {
 public:
  Bench(engine::ModelRunner& runner, const Options& options)
      : runner_(runner),
        options_(options),
        blocks_per_stream_(BlocksForTokens(options.prompt + options.decode * (options.repeat + 1) + 1)),
        kv_(static_cast<size_t>(blocks_per_stream_) * kStreams * runner.kv_layout().block_bytes()),
        logits_(static_cast<size_t>(runner.vocab_size()) * kStreams) {
    runner_.SetKvPool(kv_.data(), blocks_per_stream_ * kStreams);
    for (int s = 0; s < kStreams; ++s) {
      std::vector<BlockId>& blocks = blocks_.emplace_back();
      for (int b = 0; b < blocks_per_stream_; ++b) blocks.push_back(s * blocks_per_stream_ + b);
    }
  }

  // Seconds of one prompt.
  double Prefill(int stream) {
    const TimeNs start = MonotonicClock().Now();
    for (int at = 0; at < options_.prompt; at += options_.chunk) {
      const int rows = std::min(options_.chunk, options_.prompt - at);
      tokens_.clear();
      for (int i = 0; i < rows; ++i) tokens_.push_back((at + i) * 7919 % runner_.vocab_size());
      engine::SequenceSlice slice;
      slice.row_count = rows;
      slice.first_position = at;
      slice.blocks = blocks_[static_cast<size_t>(stream)];
      slice.wants_logits = at + rows == options_.prompt;
      slice.logits_index = 0;
      Forward(absl::MakeConstSpan(&slice, 1), slice.wants_logits ? 1 : 0);
    }
    return Seconds(start);
  }

  // Seconds of `decode` steps of `streams` streams from `position`.
  double Decode(int streams, int position) {
    std::vector<engine::SequenceSlice> slices(static_cast<size_t>(streams));
    tokens_.assign(static_cast<size_t>(streams), 1);
    const TimeNs start = MonotonicClock().Now();
    for (int step = 0; step < options_.decode; ++step) {
      for (int s = 0; s < streams; ++s) {
        engine::SequenceSlice& slice = slices[static_cast<size_t>(s)];
        slice.first_row = s;
        slice.row_count = 1;
        slice.first_position = position + step;
        slice.blocks = blocks_[static_cast<size_t>(s)];
        slice.wants_logits = true;
        slice.logits_index = s;
        tokens_[static_cast<size_t>(s)] = (step * 31 + s) % runner_.vocab_size();
      }
      Forward(slices, streams);
    }
    return Seconds(start);
  }

  void Continue(std::vector<int32_t> ids, int count) {
    int done = 0;
    for (int i = 0; i < count; ++i) {
      tokens_.assign(ids.begin() + done, ids.end());
      engine::SequenceSlice slice;
      slice.row_count = static_cast<int32_t>(tokens_.size());
      slice.first_position = done;
      slice.blocks = blocks_[0];
      slice.wants_logits = true;
      slice.logits_index = 0;
      Forward(absl::MakeConstSpan(&slice, 1), 1);
      done = static_cast<int>(ids.size());
      const auto end = logits_.begin() + runner_.vocab_size();
      const auto best = std::max_element(logits_.begin(), end);
      ids.push_back(static_cast<int32_t>(best - logits_.begin()));
      std::printf("%d (%.6f) ", ids.back(), static_cast<double>(*best));
    }
    std::printf("\n");
  }

 private:
  void Forward(absl::Span<const engine::SequenceSlice> slices, int logits) {
    engine::StepBatch batch;
    batch.tokens = tokens_;
    batch.slices = slices;
    batch.logits_count = logits;
    runner_.Forward(batch, absl::MakeSpan(logits_.data(), static_cast<size_t>(logits) * runner_.vocab_size()));
  }

  engine::ModelRunner& runner_;
  const Options& options_;
  const int blocks_per_stream_;
  engine::kernels::AlignedBuffer kv_;
  std::vector<std::vector<BlockId>> blocks_;
  std::vector<int32_t> tokens_;
  std::vector<float> logits_;
};

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "engine_bench: %s\n", std::string(status.message()).c_str());
  return 1;
}

void Measure(Bench& bench, const Options& options, double load_seconds, const std::string& fingerprint) {
  for (int s = 0; s < kStreams; ++s) bench.Prefill(s);
  std::vector<double> prefill, one, many;
  for (int i = 0; i < options.repeat; ++i) {
    prefill.push_back(options.prompt / bench.Prefill(0));
    one.push_back(options.decode / bench.Decode(1, options.prompt + i * options.decode));
    many.push_back(options.decode * kStreams / bench.Decode(kStreams, options.prompt + i * options.decode));
  }
  if (options.json) {
    const nlohmann::json out = {{"load_seconds", load_seconds},
                                {"prompt_tokens", options.prompt},
                                {"prefill_tokens_per_second", Median(prefill)},
                                {"decode_1_tokens_per_second", Median(one)},
                                {"decode_32_tokens_per_second", Median(many)},
                                {"best_prefill_tokens_per_second", Best(prefill)},
                                {"best_decode_1_tokens_per_second", Best(one)},
                                {"best_decode_32_tokens_per_second", Best(many)},
                                {"fingerprint", fingerprint}};
    std::printf("%s\n", out.dump().c_str());
    return;
  }
  const auto line = [](const char* what, const std::vector<double>& values) {
    std::printf("%-20s %8.1f tokens/s, best %8.1f\n", what, Median(values), Best(values));
  };
  std::printf("%-20s %8.3f s\n", "load", load_seconds);
  line("prefill", prefill);
  line("decode, 1 stream", one);
  line("decode, 32 streams", many);
  std::printf("%s\n", fingerprint.c_str());
}

int Run(const Options& options) {
  engine::CpuModelOptions model_options;
  model_options.threads = options.threads;
  model_options.max_rows = std::max({options.chunk, kStreams, static_cast<int>(options.continue_ids.size())});
  model_options.numerics = options.numerics == "fp32" ? engine::Numerics::kFp32 : engine::Numerics::kExact;
  for (const auto isa : {engine::Isa::kScalar, engine::Isa::kAvx2, engine::Isa::kAvx512Vnni}) {
    if (options.isa == engine::IsaName(isa)) model_options.isa = isa;
  }
  const TimeNs start = MonotonicClock().Now();
  const auto path = modelfile::ResolveModel(options.model);
  if (!path.ok()) return Fail(path.status());
  auto file = modelfile::OpenModelFile(*path);
  if (!file.ok()) return Fail(file.status());
  auto runner = engine::LoadCpuModel(**file, model_options);
  if (!runner.ok()) return Fail(runner.status());
  file->reset();
  const double load_seconds = Seconds(start);
  Bench bench(**runner, options);
  if (!options.continue_ids.empty()) {
    bench.Continue(options.continue_ids, options.decode);
  } else {
    Measure(bench, options, load_seconds, (*runner)->fingerprint());
  }
  return 0;
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) {
  baton::Options options;
  CLI::App app{"Speed of the CPU engine by itself"};
  app.add_option("--model", options.model, "a .gguf file or a name from the model store");
  app.add_option("--numerics", options.numerics)->check(CLI::IsMember({"exact", "fp32"}));
  app.add_option("--isa", options.isa)->check(CLI::IsMember({"auto", "scalar", "avx2", "avx512-vnni"}));
  app.add_option("--threads", options.threads, "0: one a core");
  app.add_option("--prompt", options.prompt)->check(CLI::Range(1, 4096));
  app.add_option("--chunk", options.chunk)->check(CLI::Range(1, 4096));
  app.add_option("--decode", options.decode, "steps")->check(CLI::Range(1, 1024));
  app.add_option("--repeat", options.repeat)->check(CLI::Range(1, 100));
  app.add_option("--continue-ids", options.continue_ids, "print the greedy continuation of these tokens")
      ->delimiter(',');
  app.add_flag("--json", options.json);
  CLI11_PARSE(app, argc, argv);
  return baton::Run(options);
}
