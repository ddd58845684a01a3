#include "cli/standard_output.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <streambuf>

#include "absl/strings/str_cat.h"

namespace baton::cli {
namespace {

class OutputBuffer final : public std::streambuf {
 public:
  OutputBuffer() { setp(buffer_.data(), buffer_.data() + buffer_.size()); }

  // 0: none.
  int first_error() const { return first_error_; }

 private:
  int_type overflow(int_type c) override {
    if (sync() != 0) return traits_type::eof();
    if (!traits_type::eq_int_type(c, traits_type::eof())) sputc(traits_type::to_char_type(c));
    return traits_type::not_eof(c);
  }

  int sync() override {
    const char* begin = pbase();
    while (begin < pptr() && first_error_ == 0) {
      const ssize_t bytes = write(STDOUT_FILENO, begin, static_cast<size_t>(pptr() - begin));
      if (bytes >= 0) {
        begin += bytes;
      } else if (errno != EINTR) {
        first_error_ = errno;
      }
    }
    setp(buffer_.data(), buffer_.data() + buffer_.size());
    return first_error_ == 0 ? 0 : -1;
  }

  std::array<char, 1 << 14> buffer_;
  int first_error_ = 0;
};

// Never destroyed, because std::cout is flushed last of all.
OutputBuffer& TheOutput() {
  static auto* buffer = new OutputBuffer;
  return *buffer;
}

}  // namespace

void WatchStandardOutput() {
  // Nothing can be written to a descriptor that was opened for reading.
  int fd = 0;
  do {
    fd = open("/dev/null", O_RDONLY);
  } while (fd >= 0 && fd < STDERR_FILENO);
  if (fd > STDERR_FILENO) close(fd);
  signal(SIGPIPE, SIG_IGN);
  std::cout.rdbuf(&TheOutput());
}

absl::Status FlushStandardOutput() {
  std::cout.flush();
  const int error = TheOutput().first_error();
  if (error == 0) return absl::OkStatus();
  const std::string text = absl::StrCat("cannot write to standard output: ", std::strerror(error));
  return error == EPIPE ? absl::CancelledError(text) : absl::DataLossError(text);
}

}  // namespace baton::cli
