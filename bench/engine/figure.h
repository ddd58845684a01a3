// One measured figure beside what the machine allows.
#ifndef BATON_BENCH_ENGINE_FIGURE_H_
#define BATON_BENCH_ENGINE_FIGURE_H_

#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace baton::bench {

struct Figure {
  // "prefill", "decode", "attention", "handoff", "scheduling"; of a device also "memory", "cublaslt" and "digest".
  std::string part;
  // For people: "prompt 512, chunks of 256".
  std::string name;
  // What `name` says, for programs.
  nlohmann::ordered_json parameters = nlohmann::ordered_json::object();
  // Median and best of the rounds.
  double value = 0;
  double best = 0;
  std::string unit;
  // What the machine allows, in the same unit; 0: no such limit.
  double limit = 0;
  // "memory", "compute", "memcpy" or "cublaslt".
  std::string bound = {};
};

// Sets the figure's median and best from the rates of several rounds.
void SetRates(std::vector<double> rates, Figure& figure);

nlohmann::ordered_json FigureJson(const Figure& figure);
std::string FigureLine(const Figure& figure);

}  // namespace baton::bench

#endif  // BATON_BENCH_ENGINE_FIGURE_H_
