#include "cli/process.h"

#include <malloc.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/barrier.h"
#include "common/testing/slow_build.h"
#include "common/usable_cores.h"
#include "gtest/gtest.h"

namespace baton::cli {
namespace {

// How many arenas glibc's heap has.
int CountArenas() {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* file = open_memstream(&text, &size);
  malloc_info(0, file);
  std::fclose(file);
  const int arenas = static_cast<int>(std::vector<std::string>(absl::StrSplit(text, "<heap nr=")).size()) - 1;
  std::free(text);
  return arenas;
}

// After more threads than cores have taken memory at the same time, each of which glibc gives an arena if it may.
int ArenasOfManyThreads() {
  const int count = 2 * CountUsableCores() + 2;
  absl::Barrier* barrier = new absl::Barrier(count);
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([barrier] {
      const auto memory = std::make_unique<std::string>(10'000, 'x');
      if (barrier->Block()) delete barrier;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return CountArenas();
}

// In a process of its own, because the heap keeps its arenas. The exit code says how many there are.
[[noreturn]] void Bounded(const char* chosen) {
  if (chosen == nullptr) {
    unsetenv("MALLOC_ARENA_MAX");
  } else {
    setenv("MALLOC_ARENA_MAX", chosen, /*replace=*/1);
  }
  BoundHeapArenas();
  std::_Exit(ArenasOfManyThreads());
}

class HeapArenasTest : public testing::Test {
 protected:
  HeapArenasTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  void SetUp() override {
    if (kIsSlowBuild) GTEST_SKIP() << "a sanitizer has a heap of its own";
  }
};

TEST_F(HeapArenasTest, AreNoMoreThanTheCoresThatTheProcessMayUse) {
  EXPECT_EXIT(Bounded(nullptr), testing::ExitedWithCode(CountUsableCores()), "");
}

// glibc has read it when the process began, so here it changes nothing: the threads get an arena each.
TEST_F(HeapArenasTest, AreLeftToWhoSetsTheVariable) {
  EXPECT_EXIT(
      Bounded("64"), [](int status) { return WIFEXITED(status) && WEXITSTATUS(status) > CountUsableCores(); }, "");
}

}  // namespace
}  // namespace baton::cli
