// What a request that outlives its calls gets in a run without faults, text included.
#ifndef BATON_SIMULATOR_KEPT_ORACLE_H_
#define BATON_SIMULATOR_KEPT_ORACLE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/output_token.h"
#include "router/served_model.h"

namespace baton::simulator {

// The model of the simulated engines as routers see it. Some of its tokens are parts of characters.
const router::ServedModel& ServedFakeModel();

struct KeptOracle {
  std::vector<int32_t> tokens;
  // So many bytes of the text are certain with each of them.
  std::vector<size_t> text_ends;
  // With what becomes certain at the end.
  std::string text;
  // A stop string ends it.
  bool is_cut = false;
};

// `tokens`: all that workers compute for it.
KeptOracle MakeKeptOracle(const std::vector<int32_t>& tokens, const std::vector<std::string>& stop);

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_KEPT_ORACLE_H_
