// `baton bench serve`: a load generator for Baton and for servers that speak OpenAI's API.
#ifndef BATON_CLI_BENCH_SERVE_COMMAND_H_
#define BATON_CLI_BENCH_SERVE_COMMAND_H_

#include "CLI/CLI.hpp"

namespace baton::cli {

// `bench` is the command that groups the benchmarks.
void AddBenchServeCommand(CLI::App& bench, int& exit_code);

}  // namespace baton::cli

#endif  // BATON_CLI_BENCH_SERVE_COMMAND_H_
