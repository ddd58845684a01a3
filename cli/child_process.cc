#include "cli/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/clock.h"

namespace baton::cli {
namespace {

constexpr int64_t kPollIntervalMs = 10;
constexpr size_t kMaxReadyLineBytes = 4096;

int DecodeExit(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

// The value of "grpc" in `ready {"grpc": "host:port"}`.
std::optional<std::string> ParseReady(const std::string& line) {
  constexpr char kPrefix[] = "ready {\"grpc\": \"";
  if (line.compare(0, sizeof(kPrefix) - 1, kPrefix) != 0) return std::nullopt;
  const size_t begin = sizeof(kPrefix) - 1;
  return line.substr(begin, line.find('"', begin) - begin);
}

}  // namespace

absl::StatusOr<ChildProcess> ChildProcess::Start(const std::vector<std::string>& args) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return absl::InternalError(absl::StrCat("pipe: ", std::strerror(errno)));
  std::vector<char*> argv;
  std::string name = "baton";
  argv.push_back(name.data());
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return absl::ResourceExhaustedError(absl::StrCat("fork: ", std::strerror(errno)));
  if (pid == 0) {
    // The child ends with its parent, even when that is killed. The parent may have ended before prctl took effect, and
    // then the child has another one by now. A parent with pid 1, as in a container, is a parent like any other.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    dup2(fds[1], STDOUT_FILENO);
    // Signals to the process group, such as Ctrl-C, must reach the supervisor alone: it drains its children in order.
    setpgid(0, 0);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    execv("/proc/self/exe", argv.data());
    _exit(127);
  }
  close(fds[1]);
  return ChildProcess(pid, fds[0]);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      stdout_fd_(std::exchange(other.stdout_fd_, -1)),
      exit_code_(other.exit_code_) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this == &other) return *this;
  Kill();
  pid_ = std::exchange(other.pid_, -1);
  stdout_fd_ = std::exchange(other.stdout_fd_, -1);
  exit_code_ = other.exit_code_;
  return *this;
}

ChildProcess::~ChildProcess() { Kill(); }

void ChildProcess::Kill() {
  if (pid_ < 0) return;
  if (!Poll().has_value()) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(stdout_fd_);
  pid_ = -1;
}

absl::StatusOr<std::string> ChildProcess::WaitReady(int64_t timeout_ms) {
  const TimeNs deadline = After(MonotonicClock().Now(), timeout_ms);
  std::string line;
  while (line.size() < kMaxReadyLineBytes) {
    const int64_t left_ms = (deadline - MonotonicClock().Now()) / kNsPerMs;
    if (left_ms <= 0) return absl::DeadlineExceededError("a process did not become ready in time");
    pollfd descriptor{.fd = stdout_fd_, .events = POLLIN, .revents = 0};
    if (poll(&descriptor, 1, static_cast<int>(left_ms)) <= 0) continue;
    char c = 0;
    if (read(stdout_fd_, &c, 1) != 1) return absl::UnavailableError("a process ended before it was ready");
    if (c != '\n') {
      line += c;
    } else if (std::optional<std::string> address = ParseReady(std::exchange(line, {})); address.has_value()) {
      return *std::move(address);
    }
  }
  return absl::InternalError("a process printed something other than its ready line");
}

std::optional<int> ChildProcess::Poll() {
  int status = 0;
  if (!exit_code_.has_value() && waitpid(pid_, &status, WNOHANG) == pid_) exit_code_ = DecodeExit(status);
  return exit_code_;
}

void ChildProcess::Signal(int signal_number) const {
  if (!exit_code_.has_value()) kill(pid_, signal_number);
}

bool ChildProcess::WaitExit(int64_t timeout_ms) {
  const TimeNs deadline = After(MonotonicClock().Now(), timeout_ms);
  while (!Poll().has_value()) {
    if (MonotonicClock().Now() >= deadline) return false;
    poll(nullptr, 0, kPollIntervalMs);
  }
  return true;
}

}  // namespace baton::cli
