#include "cli/forwarded_options.h"

#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench_engine_command.h"
#include "cli/config_file.h"
#include "cli/options.h"
#include "cli/router_command.h"
#include "cli/serve_command.h"
#include "cli/worker_command.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

using Args = std::vector<std::string>;

// The commands of a cluster with main's options. They are parsed but not run.
class Commands {
 public:
  Commands() {
    AddServeCommand(app_, exit_code_);
    AddRouterCommand(app_, exit_code_);
    AddWorkerCommands(app_, exit_code_);
    AddBenchEngineCommand(*app_.add_subcommand("bench"), exit_code_);
    // Runs after the parser and before the callback of the command.
    app_.parse_complete_callback([] { throw CLI::Success(); });
  }

  CLI::App& Command(const std::string& name) { return *app_.get_subcommand(name); }

  // Adds what main adds last, then replaces --config.
  absl::StatusOr<Args> Expand(const Args& args) {
    FinishOptions(app_);
    return ExpandConfig(app_, args);
  }

  // Whether CLI11 accepts the arguments, which begin with the command.
  bool Parse(const Args& args) {
    FinishOptions(app_);
    try {
      app_.parse(Args(args.rbegin(), args.rend()));
    } catch (const CLI::Success&) {
      return true;
    } catch (const CLI::ParseError&) {
      return false;
    }
    return false;
  }

 private:
  int exit_code_ = 0;
  CLI::App app_;
};

// What `role` gets of a serve with these arguments.
Args Forward(const Args& args, const std::string& role) {
  Commands commands;
  EXPECT_TRUE(commands.Parse(args));
  return ForwardedArgs(commands.Command("serve"), commands.Command(role));
}

// `args` and the flags of a file with this text that they and the environment leave out.
Args WithConfig(const std::string& text, Args args) {
  const std::string path = ::testing::TempDir() + "/forwarded_options.yaml";
  std::ofstream(path) << text;
  args.insert(args.begin() + (args.front() == "bench" ? 2 : 1), "--config=" + path);
  const absl::StatusOr<Args> expanded = Commands().Expand(args);
  EXPECT_TRUE(expanded.ok()) << expanded.status();
  return expanded.value_or(Args());
}

// A value that `serve` takes for the option and that is not its default.
std::optional<std::string> OtherValue(const CLI::Option& option) {
  for (const char* const value : {"true", "7", "128", "fp32", "int8", "scalar", "tcp", "debug", "3MiB", "cpu", "0.5"}) {
    if (option.get_default_str() == value) continue;
    if (Commands().Parse({"serve", option.get_name() + "=" + value})) return value;
  }
  return std::nullopt;
}

// What every worker computes with.
std::vector<const CLI::Option*> EngineOptions(CLI::App& app, EngineFlags& flags) {
  AddModelFlag(app, flags.model);
  AddEngineFlags(app, flags);
  return static_cast<const CLI::App&>(app).get_options(
      [](const CLI::Option* option) { return !option->check_lname("help"); });
}

class ForwardedOptions : public ::testing::TestWithParam<const char*> {};

TEST_P(ForwardedOptions, EveryEngineOptionSetOnServeReachesTheWorkersParsedOptions) {
  CLI::App engine;
  EngineFlags flags;
  for (const CLI::Option* const option : EngineOptions(engine, flags)) {
    const std::optional<std::string> value = OtherValue(*option);
    ASSERT_TRUE(value.has_value()) << "add a value that " << option->get_name() << " takes";
    Args forwarded = Forward({"serve", option->get_name() + "=" + *value}, GetParam());
    forwarded.insert(forwarded.begin(), GetParam());
    Commands worker;
    ASSERT_TRUE(worker.Parse(forwarded)) << option->get_name();
    EXPECT_THAT(worker.Command(GetParam()).get_option(option->get_name())->results(), ElementsAre(*value))
        << option->get_name();
  }
}

TEST_P(ForwardedOptions, AnOptionAddedToServeAndTheWorkerNeedsNoOtherPlace) {
  Commands commands;
  std::string value;
  for (const std::string& name : {std::string("serve"), std::string(GetParam())}) {
    commands.Command(name).add_option("--new-option", value);
  }
  ASSERT_TRUE(commands.Parse({"serve", "--new-option", "x"}));
  EXPECT_THAT(ForwardedArgs(commands.Command("serve"), commands.Command(GetParam())), ElementsAre("--new-option=x"));
}

TEST_P(ForwardedOptions, WhatTheUserDidNotSetAndAddressesStayWithServe) {
  EXPECT_THAT(Forward({"serve"}, GetParam()), IsEmpty());
  EXPECT_THAT(Forward({"serve", "--grpc-port", "0", "--bind", "0.0.0.0", "--prefill", "2"}, GetParam()), IsEmpty());
}

TEST_P(ForwardedOptions, EveryProcessDrainsAsLongAsServeIsTold) {
  EXPECT_THAT(Forward({"serve", "--drain-timeout-ms", "7"}, GetParam()), ElementsAre("--drain-timeout-ms=7"));
  EXPECT_THAT(Forward({"serve", "--drain-timeout-ms", "7"}, "router"), ElementsAre("--drain-timeout-ms=7"));
}

INSTANTIATE_TEST_SUITE_P(Roles, ForwardedOptions, ::testing::Values("prefill-worker", "decode-worker", "mixed-worker"));

TEST(ForwardedArgs, TheModelMayBeAPositionOrAFlag) {
  EXPECT_THAT(Forward({"serve", "tiny.gguf"}, "router"), ElementsAre("--model=tiny.gguf"));
  EXPECT_THAT(Forward({"serve", "--model", "tiny.gguf"}, "mixed-worker"), ElementsAre("--model=tiny.gguf"));
}

TEST(ForwardedArgs, TheRouterGetsItsOwnOptionsAndNoneOfTheEngines) {
  EXPECT_THAT(Forward({"serve", "--max-queued-jobs=9", "--threads=1", "--log-level=debug"}, "router"),
              UnorderedElementsAre("--max-queued-jobs=9", "--log-level=debug"));
}

TEST(ForwardedArgs, TheEnvironmentCountsAsSet) {
  setenv("BATON_ARG_MAX_SEQS", "5", 1);
  const Args forwarded = Forward({"serve"}, "decode-worker");
  unsetenv("BATON_ARG_MAX_SEQS");
  EXPECT_THAT(forwarded, ElementsAre("--max-seqs=5"));
}

TEST(ForwardedArgs, AConfigFileCountsAsSet) {
  const Args args = WithConfig("no-prefix-cache: true\nkv-memory: 64MiB\n", {"serve"});
  EXPECT_THAT(Forward(args, "prefill-worker"), UnorderedElementsAre("--no-prefix-cache=true", "--kv-memory=64MiB"));
}

TEST(ForwardedArgs, AModelByPositionWinsOverTheConfigFile) {
  const Args args = WithConfig("model: file.gguf\n", {"serve", "position.gguf"});
  EXPECT_THAT(Forward(args, "router"), ElementsAre("--model=position.gguf"));
}

TEST(ForwardedArgs, WhatAFileHoldsForARoleReachesThatRoleAlone) {
  const std::string text = "chunk-tokens: 64\nprefill-worker:\n  chunk-tokens: 512\n  grpc-port: 50061\n";
  const Args args = WithConfig(text, {"serve"});
  EXPECT_THAT(Forward(args, "prefill-worker"), ElementsAre("--chunk-tokens=512"));
  EXPECT_THAT(Forward(args, "decode-worker"), ElementsAre("--chunk-tokens=64"));
}

TEST(ForwardedArgs, AFlagOfServeWinsOverTheSectionOfARole) {
  const Args args = WithConfig("prefill-worker:\n  chunk-tokens: 512\n", {"serve", "--chunk-tokens=32"});
  EXPECT_THAT(Forward(args, "prefill-worker"), ElementsAre("--chunk-tokens=32"));
}

TEST(ForwardedArgs, WhatOnlyOurOwnProcessesSetHasNoTwin) {
  Commands commands;
  ASSERT_TRUE(commands.Parse({"serve"}));
  EXPECT_EQ(commands.Command("mixed-worker").get_option("--supervised")->get_envname(), "");
  EXPECT_EQ(commands.Command("mixed-worker").get_option("--threads")->get_envname(), "BATON_ARG_THREADS");
}

}  // namespace
}  // namespace baton::cli
