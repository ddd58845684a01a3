// cuda_fragments FOLDER: records what the first CUDA device makes of the fragments in a file of FOLDER that is named
// after the device, and compares the interpreter of PTX with it. The result is one object of JSON on standard output.
// It ends with code 1 where there is no device, where the file cannot be written, or where the interpreter is wrong.
// What a GPU recorded belongs into tests/ptx/golden.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "engine/cuda/driver_api.h"
#include "nlohmann/json.hpp"
#include "tests/ptx/golden/golden_file.h"
#include "tests/ptx/interpreted_driver.h"

namespace baton::ptx {
namespace {

using engine::cuda::Device;
using engine::cuda::DriverApi;

absl::StatusOr<GoldenFile> Record(const DriverApi& api, const std::vector<Fragment>& fragments) {
  const void* const images[] = {FragmentsImage()};
  BATON_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, Device::Open(api, 0, images));
  GoldenFile file{.device = device->name(), .capability = device->capability()};
  BATON_RETURN_IF_ERROR(device->Check(api.driver_version(&file.driver), "cuDriverGetVersion"));
  BATON_ASSIGN_OR_RETURN(file.results, RunFragments(*device, fragments));
  return file;
}

absl::Status RecordAndCompare(const std::filesystem::path& folder) {
  const std::vector<Fragment> fragments = AllFragments();
  BATON_ASSIGN_OR_RETURN(const DriverApi* const api, engine::cuda::LoadDriverApi());
  BATON_ASSIGN_OR_RETURN(const GoldenFile golden, Record(*api, fragments));
  const std::filesystem::path path = folder / GoldenName(golden);
  std::ofstream out(path);
  out << GoldenText(golden) << std::flush;
  if (!out) return absl::UnavailableError(absl::StrCat("cannot write ", path.string()));

  if (InterpretedDriver().init(0) != CUDA_SUCCESS) return absl::InternalError("the interpreter does not start");
  BATON_ASSIGN_OR_RETURN(const GoldenFile interpreted, Record(InterpretedDriver(), fragments));
  const GoldenComparison comparison = CompareWithGolden(golden, fragments, interpreted.results);
  const nlohmann::ordered_json report = {{"device", golden.device},
                                         {"capability", golden.capability},
                                         {"file", path.filename().string()},
                                         {"fragments", fragments.size()},
                                         {"differences", comparison.differences},
                                         {"words_with_other_bits", comparison.other_bits}};
  std::puts(report.dump().c_str());
  if (comparison.differences.empty()) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("the interpreter and ", golden.device, " differ: ", comparison.differences[0]));
}

}  // namespace
}  // namespace baton::ptx

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: cuda_fragments FOLDER\n");
    return 2;
  }
  const absl::Status status = baton::ptx::RecordAndCompare(argv[1]);
  if (status.ok()) return EXIT_SUCCESS;
  std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return EXIT_FAILURE;
}
