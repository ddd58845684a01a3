#include "cli/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "gtest/gtest.h"

namespace baton::cli {
namespace {

class Manager {
 public:
  // `name` is a path, or begins with '@'.
  explicit Manager(const std::string& name) : fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0)) {
    sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name.front() == '@') address.sun_path[0] = '\0';
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), length), 0);
    setenv(kNotifySocketVariable, name.c_str(), /*overwrite=*/1);
  }
  ~Manager() {
    close(fd_);
    unsetenv(kNotifySocketVariable);
  }

  std::optional<std::string> Read() const {
    char text[256];
    const ssize_t bytes = recv(fd_, text, sizeof(text), 0);
    return bytes < 0 ? std::nullopt : std::make_optional(std::string(text, static_cast<size_t>(bytes)));
  }

 private:
  const int fd_;
};

std::string UniqueName(const std::string& before) { return before + "baton-notify-" + std::to_string(getpid()); }

TEST(ServiceManagerTest, HearsAtASocketInTheFileSystem) {
  const std::string path = UniqueName(testing::TempDir());
  const Manager manager(path);
  NotifyServiceManager("READY=1\nSTATUS=serves");
  EXPECT_EQ(manager.Read(), "READY=1\nSTATUS=serves");
  EXPECT_EQ(manager.Read(), std::nullopt);
  unlink(path.c_str());
}

TEST(ServiceManagerTest, HearsAtASocketThatIsANameAlone) {
  const Manager manager(UniqueName("@"));
  NotifyServiceManager("STOPPING=1");
  EXPECT_EQ(manager.Read(), "STOPPING=1");
}

TEST(ServiceManagerTest, OneThatReadsNothingHoldsUpNobody) {
  const Manager manager(UniqueName("@"));
  constexpr int kMoreThanAnyQueueHolds = 20'000;
  for (int i = 0; i < kMoreThanAnyQueueHolds; ++i) NotifyServiceManager("STATUS=busy");
  EXPECT_EQ(manager.Read(), "STATUS=busy");
}

TEST(ServiceManagerTest, NobodyWhoListensIsNoError) {
  unsetenv(kNotifySocketVariable);
  NotifyServiceManager("READY=1");
  for (const std::string& name : {std::string(), std::string("/nonexistent/socket"), std::string(4096, 'x')}) {
    setenv(kNotifySocketVariable, name.c_str(), /*overwrite=*/1);
    NotifyServiceManager("READY=1");
  }
  unsetenv(kNotifySocketVariable);
}

}  // namespace
}  // namespace baton::cli
