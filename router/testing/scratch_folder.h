// A folder of its own for a test, which goes with it.
#ifndef BATON_ROUTER_TESTING_SCRATCH_FOLDER_H_
#define BATON_ROUTER_TESTING_SCRATCH_FOLDER_H_

#include <cstdlib>
#include <filesystem>
#include <string>

#include "common/check.h"
#include "gtest/gtest.h"

namespace baton::router {

class ScratchFolder {
 public:
  ScratchFolder() { BATON_CHECK(mkdtemp(path_.data()) != nullptr) << path_; }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_ = testing::TempDir() + "/baton_journal_XXXXXX";
};

}  // namespace baton::router

#endif  // BATON_ROUTER_TESTING_SCRATCH_FOLDER_H_
