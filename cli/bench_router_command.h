// `baton bench router`: what a router costs and adds while thousands of streams of stub workers run through it.
#ifndef BATON_CLI_BENCH_ROUTER_COMMAND_H_
#define BATON_CLI_BENCH_ROUTER_COMMAND_H_

#include "CLI/CLI.hpp"

namespace baton::cli {

// `bench` is the command that groups the benchmarks.
void AddBenchRouterCommand(CLI::App& bench, int& exit_code);

}  // namespace baton::cli

#endif  // BATON_CLI_BENCH_ROUTER_COMMAND_H_
