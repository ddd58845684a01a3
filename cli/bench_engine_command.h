// `baton bench engine`: the engine and its parts beside what this machine allows.
#ifndef BATON_CLI_BENCH_ENGINE_COMMAND_H_
#define BATON_CLI_BENCH_ENGINE_COMMAND_H_

#include "CLI/CLI.hpp"

namespace baton::cli {

// `bench` is the command that groups the benchmarks.
void AddBenchEngineCommand(CLI::App& bench, int& exit_code);

}  // namespace baton::cli

#endif  // BATON_CLI_BENCH_ENGINE_COMMAND_H_
