#include "common/own_fault.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "absl/functional/function_ref.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

struct Death {
  // What the other thread of the process has told: "SIGABRT computing"; empty: nothing.
  std::string told;
  int signal = 0;
  absl::Duration after;
};

struct Fate {
  // Another thread of the process lets it die once it has told of the fault.
  bool allows = true;
  // The test sends the process a signal.
  bool comes_from_outside = false;
};

// A process that watches for faults and meets `fate`. Another thread of it tells of the fault.
Death DeathOf(absl::FunctionRef<void()> fate, const Fate& options = {}) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const absl::Time begin = absl::Now();
  const pid_t child = fork();
  if (child == 0) {
    WatchForFaults();
    std::thread([&] {
      while (!CurrentFault().has_value()) sched_yield();
      const std::string told = SignalName(CurrentFault()->signal) + (CurrentFault()->computing ? " computing" : "");
      if (write(ends[1], told.data(), told.size()) < 0) _exit(1);
      if (options.allows) AllowDeath();
    }).detach();
    if (write(ends[1], "!", 1) < 0) _exit(1);
    fate();
    _exit(0);
  }
  close(ends[1]);
  Death death;
  char text[64];
  EXPECT_EQ(read(ends[0], text, 1), 1) << "the process has begun";
  if (options.comes_from_outside) kill(child, SIGABRT);
  for (ssize_t size = 0; (size = read(ends[0], text, sizeof(text))) > 0;) {
    death.told.append(text, static_cast<size_t>(size));
  }
  close(ends[0]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  death.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  death.after = absl::Now() - begin;
  return death;
}

TEST(OwnFaultTest, AFailedCheckIsToldBeforeTheProcessDiesOfIt) {
  const Death death = DeathOf([] { std::abort(); });
  EXPECT_EQ(death.told, "SIGABRT");
  EXPECT_EQ(death.signal, SIGABRT);
}

TEST(OwnFaultTest, ABadAccessOfAThreadThatComputesIsToldAsSuch) {
  const Death death = DeathOf([] {
    std::thread([] {
      ComputeOnThisThread();
      raise(SIGSEGV);
    }).join();
  });
  EXPECT_EQ(death.told, "SIGSEGV computing");
  EXPECT_EQ(death.signal, SIGSEGV);
}

TEST(OwnFaultTest, ASignalOfAnotherProcessIsNoFault) {
  const Death death = DeathOf([] { pause(); }, {.comes_from_outside = true});
  EXPECT_EQ(death.told, "");
  EXPECT_EQ(death.signal, SIGABRT);
}

TEST(OwnFaultTest, AProcessThatNobodyLetsGoDiesAllTheSame) {
  const Death death = DeathOf([] { std::abort(); }, {.allows = false});
  EXPECT_EQ(death.told, "SIGABRT");
  EXPECT_EQ(death.signal, SIGABRT);
  EXPECT_GE(death.after, absl::Milliseconds(kMaxLastWordsMs));
}

}  // namespace
}  // namespace baton
