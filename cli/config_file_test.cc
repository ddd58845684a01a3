#include "cli/config_file.h"

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "cli/bench_engine_command.h"
#include "cli/generate_command.h"
#include "cli/inspect_command.h"
#include "cli/models_command.h"
#include "cli/options.h"
#include "cli/router_command.h"
#include "cli/serve_command.h"
#include "cli/worker_command.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ConfigFile : public ::testing::Test {
 protected:
  ConfigFile() {
    AddServeCommand(app_, exit_code_);
    AddRouterCommand(app_, exit_code_);
    AddWorkerCommands(app_, exit_code_);
    AddGenerateCommand(app_, exit_code_);
    AddInspectCommand(app_, exit_code_);
    AddBenchEngineCommand(*app_.add_subcommand("bench")->require_subcommand(), exit_code_);
    AddModelsCommand(app_, exit_code_);
    FinishOptions(app_);
  }

  ~ConfigFile() override {
    for (const std::string& name : variables_) unsetenv(name.c_str());
  }

  void SetVariable(const std::string& name, const std::string& value) {
    setenv(name.c_str(), value.c_str(), 1);
    variables_.push_back(name);
  }

  absl::StatusOr<std::vector<std::string>> Expand(const std::string& text, std::vector<std::string> args) {
    std::ofstream(path_) << text;
    args.push_back("--config=" + path_);
    return ExpandConfig(app_, args);
  }

  // What the file adds to the arguments.
  std::vector<std::string> Added(const std::string& text, const std::vector<std::string>& args) {
    const auto expanded = Expand(text, args);
    EXPECT_TRUE(expanded.ok()) << expanded.status();
    if (!expanded.ok()) return {};
    return {expanded->begin() + static_cast<std::ptrdiff_t>(args.size()) + 1, expanded->end()};
  }

  std::string ErrorOf(const std::string& text, const std::vector<std::string>& args) {
    return std::string(Expand(text, args).status().message());
  }

  CLI::App app_;
  int exit_code_ = 0;
  const std::string path_ = ::testing::TempDir() + "/config_file_test.yaml";
  std::vector<std::string> variables_;
};

TEST_F(ConfigFile, ACommandAboveAnotherHasSettingsOfItsOwn) {
  EXPECT_THAT(Added("models:\n  json: true\nmodels-remove:\n  yes: true\n", {"models"}), ElementsAre("--json=true"));
  EXPECT_THAT(Added("models-remove:\n  \"yes\": true\n", {"models", "remove", "x"}), ElementsAre("--yes=true"));
}

TEST_F(ConfigFile, EveryCommandReadsTheTopAndItsOwnSection) {
  const std::string text =
      "model: m.gguf\n"
      "threads: 2\n"
      "router: {grpc-port: 1, max-queued-jobs: 9}\n"
      "prefill-worker: {router: 'host:1', threads: 4}\n"
      "bench-engine: {seed: 3}\n"
      "generate: {temperature: 0.5}\n";
  EXPECT_THAT(Added(text, {"router"}), ElementsAre("--grpc-port=1", "--max-queued-jobs=9", "--model=m.gguf"));
  EXPECT_THAT(Added(text, {"prefill-worker"}), ElementsAre("--router=host:1", "--threads=4", "--model=m.gguf"));
  EXPECT_THAT(Added(text, {"decode-worker"}), ElementsAre("--model=m.gguf", "--threads=2"));
  EXPECT_THAT(Added(text, {"bench", "engine"}), ElementsAre("--seed=3", "--model=m.gguf", "--threads=2"));
  EXPECT_THAT(Added(text, {"inspect"}), ElementsAre("--model=m.gguf"));
  EXPECT_THAT(Added(text, {"generate"}), ElementsAre("--temperature=0.5")) << "the model is no name for clients";
}

TEST_F(ConfigFile, ClientsAskForAModelByTheNameThatTheRouterGivesIt) {
  EXPECT_THAT(Added("served-model-name: m\n", {"generate"}), ElementsAre("--served-model-name=m"));
  EXPECT_THAT(Added("generate: {model: m}\n", {"generate"}), ElementsAre("--model=m")) << "as on its command line";
  EXPECT_THAT(Added("served-model-name: m\n", {"generate", "--model", "other"}), IsEmpty());
  EXPECT_EQ(app_.get_subcommand("generate")->get_option("--model")->get_envname(), "BATON_ARG_SERVED_MODEL_NAME");
  for (const char* const command : {"serve", "inspect", "router", "mixed-worker"}) {
    EXPECT_EQ(app_.get_subcommand(command)->get_option("--model")->get_envname(), "BATON_ARG_MODEL") << command;
  }
}

TEST_F(ConfigFile, FlagsOfAGroupHaveTwinsToo) {
  EXPECT_EQ(app_.get_subcommand("generate")->get_option("--prompt-file")->get_envname(), "BATON_ARG_PROMPT_FILE");
  EXPECT_THAT(Added("generate: {prompt: hi}\n", {"generate"}), ElementsAre("--prompt=hi"));
}

TEST_F(ConfigFile, AListGivesAFlagSeveralTimes) {
  EXPECT_THAT(Added("generate: {stop: [a, b]}\n", {"generate"}), ElementsAre("--stop=a", "--stop=b"));
}

TEST_F(ConfigFile, TheEnvironmentOfANestedCommandWinsOverTheFile) {
  SetVariable("BATON_ARG_BENCH_ENGINE_THREADS", "3");
  EXPECT_THAT(Added("threads: 2\nbench-engine: {seed: 4}\n", {"bench", "engine"}), ElementsAre("--seed=4"));
}

TEST_F(ConfigFile, TheEnvironmentOfAPlainCommandDoesNotCountForANestedOne) {
  SetVariable("BATON_ARG_THREADS", "3");
  EXPECT_THAT(Added("threads: 2\n", {"bench", "engine"}), ElementsAre("--threads=2"));
}

TEST_F(ConfigFile, AnEmptyVariableSetsNothing) {
  SetVariable("BATON_ARG_THREADS", "");
  EXPECT_THAT(Added("threads: 2\n", {"router"}), IsEmpty());
  EXPECT_THAT(Added("threads: 2\n", {"mixed-worker"}), ElementsAre("--threads=2"));
}

TEST_F(ConfigFile, TheEnvironmentMayNameTheFile) {
  std::ofstream(path_) << "threads: 2\n";
  SetVariable("BATON_ARG_CONFIG", path_);
  const auto expanded = ExpandConfig(app_, {"mixed-worker"});
  ASSERT_TRUE(expanded.ok()) << expanded.status();
  EXPECT_THAT(*expanded, ElementsAre("mixed-worker", "--threads=2"));
}

TEST_F(ConfigFile, AnEmptyFileHoldsNothing) {
  EXPECT_THAT(Added("", {"serve"}), IsEmpty());
  EXPECT_THAT(Added("# nothing yet\n", {"serve"}), IsEmpty());
}

TEST_F(ConfigFile, ErrorsNameFileKeyAndWhatWasExpected) {
  EXPECT_EQ(ErrorOf("prefill: many\n", {"serve"}),
            "--config " + path_ + ": prefill: expected an integer from 0 to 64, not many");
  EXPECT_EQ(ErrorOf("serve: {isa: mmx}\n", {"serve"}),
            "--config " + path_ + ": serve.isa: expected one of auto, scalar, avx2, avx512, not mmx");
  EXPECT_THAT(ErrorOf("serve: {kv-memory: lots}\n", {"serve"}),
              HasSubstr("serve.kv-memory: not a size such as 512MiB or 2GiB: lots"));
  EXPECT_THAT(ErrorOf("decode-worker: {chunk-tokens: 7}\n", {"serve"}),
              HasSubstr("decode-worker.chunk-tokens: expected 0 or an integer from 16 to 8192, not 7"));
  EXPECT_THAT(ErrorOf("no-prefix-cache: perhaps\n", {"serve"}), HasSubstr("expected true or false, not perhaps"));
  EXPECT_THAT(ErrorOf("threads: [1, 2]\n", {"serve"}), HasSubstr("threads: expected one value, not 1, 2"));
  EXPECT_THAT(ErrorOf("threads:\n", {"serve"}), HasSubstr("threads: expected a value or a list of values"));
  EXPECT_THAT(ErrorOf("threads: {a: 1}\n", {"serve"}), HasSubstr("threads: expected a value, or a section"));
  EXPECT_THAT(ErrorOf("threads: [[1]]\n", {"serve"}), HasSubstr("threads: expected a value or a list"));
  EXPECT_THAT(ErrorOf("- a\n", {"serve"}), HasSubstr("expected a map"));
  EXPECT_THAT(ErrorOf("threads: [1\n", {"serve"}), HasSubstr("line "));
  EXPECT_THAT(ErrorOf("threads: 1\nthreads: 2\n", {"serve"}), HasSubstr("threads: this key comes twice"));
}

TEST_F(ConfigFile, UnknownKeysAreErrorsWithTheNearestKnownOne) {
  EXPECT_THAT(ErrorOf("kv-memroy: 1GiB\n", {"serve"}),
              HasSubstr("kv-memroy: no command has this flag (did you mean kv-memory?)"));
  EXPECT_THAT(ErrorOf("prefill-worker: {thread: 1}\n", {"router"}),
              HasSubstr("prefill-worker.thread: `baton prefill-worker` has no such flag (did you mean threads?)"))
      << "whichever process reads the file";
  EXPECT_THAT(ErrorOf("prefil-worker: {threads: 1}\n", {"router"}), HasSubstr("did you mean prefill-worker?"));
  EXPECT_THAT(ErrorOf("supervised: true\n", {"mixed-worker"}), HasSubstr("no command has this flag"));
  EXPECT_THAT(ErrorOf("config: other.yaml\n", {"serve"}), HasSubstr("no command has this flag"));
}

TEST_F(ConfigFile, AVariableThatIsNoTwinIsAnError) {
  EXPECT_TRUE(CheckEnvironment(app_).ok());
  SetVariable("BATON_ARG_KV_MEMROY", "1GiB");
  EXPECT_THAT(
      CheckEnvironment(app_).message(),
      HasSubstr(
          "BATON_ARG_KV_MEMROY in the environment: no command has this flag (did you mean BATON_ARG_KV_MEMORY?)"));
}

}  // namespace
}  // namespace baton::cli
