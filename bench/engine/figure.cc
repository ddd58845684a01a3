#include "bench/engine/figure.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/check.h"

namespace baton::bench {

void SetRates(std::vector<double> rates, Figure& figure) {
  BATON_CHECK(!rates.empty());
  std::sort(rates.begin(), rates.end());
  figure.value = rates[rates.size() / 2];
  figure.best = rates.back();
}

nlohmann::ordered_json FigureJson(const Figure& figure) {
  nlohmann::ordered_json json = {{"part", figure.part}, {"name", figure.name}};
  json.update(figure.parameters);
  json["value"] = figure.value;
  json["best"] = figure.best;
  json["unit"] = figure.unit;
  if (figure.limit > 0) {
    json["limit"] = figure.limit;
    json["share_of_limit"] = figure.value / figure.limit;
    json["bound"] = figure.bound;
  }
  return json;
}

std::string FigureLine(const Figure& figure) {
  std::string line = absl::StrFormat("  %-10s %-34s %10.1f %-8s best %10.1f", figure.part, figure.name, figure.value,
                                     figure.unit, figure.best);
  if (figure.limit > 0) {
    absl::StrAppendFormat(&line, ", %5.1f %% of %s", 100 * figure.value / figure.limit, figure.bound);
  }
  return line + "\n";
}

}  // namespace baton::bench
