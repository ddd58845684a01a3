#include "cli/flag_values.h"

#include <optional>
#include <string>
#include <vector>

#include "cli/usage_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::cli {
namespace {

using ::testing::HasSubstr;

TEST(FlagValues, RangesAreWrittenAsPeopleWriteThem) {
  CLI::App app;
  double rate = 0;
  CLI::Option* const option = app.add_option("--rate", rate)->check(CLI::Range(0.5, 1e6));
  Tidy(*option);
  EXPECT_THAT(option->get_type_name(), HasSubstr("FLOAT in [0.5 - 1000000]"));
  EXPECT_EQ(CheckValues(*option, {"2000000"}).message(), "expected a number from 0.5 to 1000000, not 2000000");
  EXPECT_TRUE(CheckValues(*option, {"1e6"}).ok());
  EXPECT_EQ(CheckValues(*option, {"nan"}).message(), "expected a number from 0.5 to 1000000, not nan");
}

TEST(FlagValues, AValueThatIsNoNumberIsToldSo) {
  CLI::App app;
  std::optional<int> count;
  std::optional<uint64_t> seed;
  CLI::Option* const seed_option = app.add_option("--seed", seed);
  Tidy(*seed_option);
  EXPECT_EQ(CheckValues(*app.add_option("--count", count), {"x"}).message(), "expected an integer, not x");
  EXPECT_EQ(CheckValues(*seed_option, {"-1"}).message(), "expected an integer from 0, not -1");
}

TEST(Suggestion, NamesAKnownNameThatIsNear) {
  EXPECT_EQ(Suggestion("kv-memroy", {"kv-dtype", "kv-memory"}), " (did you mean kv-memory?)");
  EXPECT_EQ(Suggestion("no-such", {"kv-dtype", "kv-memory"}), "");
}

class UsageErrors : public ::testing::Test {
 protected:
  UsageErrors() {
    app_.require_subcommand(1);
    CLI::App* const serve = app_.add_subcommand("serve");
    serve->add_option("--threads", threads_)->check(CLI::Range(0, 8))->envname("BATON_ARG_THREADS");
    CLI::Option_group* const input = serve->add_option_group("input");
    input->add_option("--text", text_);
    input->add_option("--file", text_);
    input->require_option(1);
  }

  std::string ErrorOf(const std::vector<std::string>& args) {
    try {
      app_.parse(std::vector<std::string>(args.rbegin(), args.rend()));
    } catch (const CLI::ParseError& error) {
      return std::string(UsageError(app_, args, error).message());
    }
    return "";
  }

  CLI::App app_;
  int threads_ = 0;
  std::string text_;
};

TEST_F(UsageErrors, NameTheFlagAndWhatItTakes) {
  EXPECT_EQ(ErrorOf({"serve", "--text", "x", "--threads", "9"}),
            "--threads: expected an integer from 0 to 8, not 9; see `baton serve --help`");
}

TEST_F(UsageErrors, NameTheVariableThatHoldsAWrongValue) {
  setenv("BATON_ARG_THREADS", "many", 1);
  EXPECT_THAT(ErrorOf({"serve", "--text", "x"}),
              HasSubstr("BATON_ARG_THREADS: expected an integer from 0 to 8, not many"));
  EXPECT_THAT(ErrorOf({"serve", "--text", "x", "--threads=9"}), HasSubstr("--threads: "));
  unsetenv("BATON_ARG_THREADS");
}

TEST_F(UsageErrors, NameWhatIsUnknownAndTheNearestThatIs) {
  EXPECT_EQ(ErrorOf({"serve", "--text", "x", "--thread=1"}),
            "--thread: `baton serve` has no such flag (did you mean --threads?); see `baton serve --help`");
  EXPECT_EQ(ErrorOf({"serv"}),
            "'serv' is no command of `baton` (did you mean serve?); `baton --help` lists the commands");
  EXPECT_EQ(ErrorOf({}), "`baton` needs a command; `baton --help` lists the commands");
  EXPECT_THAT(ErrorOf({"--threads", "serve"}), HasSubstr("expected a command before it"));
}

TEST_F(UsageErrors, NameTheFlagsOfWhichOneIsNeeded) {
  EXPECT_THAT(ErrorOf({"serve"}), HasSubstr("expected one of --text, --file, not 0 of them"));
  EXPECT_THAT(ErrorOf({"serve", "--text=x", "--file=y"}), HasSubstr("not 2 of them"));
}

}  // namespace
}  // namespace baton::cli
