#include "cli/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/config_file.h"
#include "cli/service_manager.h"
#include "common/clock.h"

namespace baton::cli {
namespace {

constexpr int64_t kPollIntervalMs = 10;
constexpr size_t kMaxReadyLineBytes = 4096;

int DecodeExit(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

// Our own environment without the twins of flags: a child gets what it is told by its arguments, and what was set for
// this command may not be meant for it. Nor does a child speak to the service manager, which would take it for us.
std::vector<char*> ChildEnvironment() {
  std::vector<char*> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const absl::string_view text = *variable;
    if (absl::StartsWith(text, kVariablePrefix)) continue;
    if (text.substr(0, text.find('=')) == kNotifySocketVariable) continue;
    variables.push_back(*variable);
  }
  variables.push_back(nullptr);
  return variables;
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
  const std::vector<char*> variables = ChildEnvironment();
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
    execve("/proc/self/exe", argv.data(), variables.data());
    _exit(127);
  }
  close(fds[1]);
  // The child's end of the pipe stays a blocking one.
  fcntl(fds[0], F_SETFL, O_NONBLOCK);
  return ChildProcess(pid, fds[0]);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      stdout_fd_(std::exchange(other.stdout_fd_, -1)),
      line_(std::move(other.line_)),
      exit_code_(other.exit_code_) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this == &other) return *this;
  Kill();
  pid_ = std::exchange(other.pid_, -1);
  stdout_fd_ = std::exchange(other.stdout_fd_, -1);
  line_ = std::move(other.line_);
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

std::optional<ReadyAddresses> ChildProcess::PollReady() {
  char c = 0;
  while (read(stdout_fd_, &c, 1) == 1) {
    if (c != '\n') {
      // A longer line is no ready line.
      if (line_.size() < kMaxReadyLineBytes) line_ += c;
    } else if (std::optional<ReadyAddresses> addresses = ParseReady(std::exchange(line_, {})); addresses.has_value()) {
      return addresses;
    }
  }
  return std::nullopt;
}

std::optional<int> ChildProcess::Poll() {
  int status = 0;
  if (!exit_code_.has_value() && waitpid(pid_, &status, WNOHANG) == pid_) exit_code_ = DecodeExit(status);
  return exit_code_;
}

bool ChildProcess::IsStopped() const {
  std::ifstream stat(absl::StrCat("/proc/", pid_, "/stat"));
  std::string text;
  std::getline(stat, text);
  // The name of the process is in parentheses and may hold anything; its state follows.
  const size_t end_of_name = text.rfind(") ");
  if (end_of_name == std::string::npos || end_of_name + 2 >= text.size()) return false;
  const char state = text[end_of_name + 2];
  return state == 'T' || state == 't';
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
