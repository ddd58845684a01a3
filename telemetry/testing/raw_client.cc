#include "telemetry/testing/raw_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status.h"

namespace baton::telemetry {
namespace {

constexpr timeval kPatience = {.tv_sec = 20, .tv_usec = 0};
constexpr std::string_view kHeaderEnd = "\r\n\r\n";

}  // namespace

RawClient::RawClient(int port, int receive_bytes) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  BATON_CHECK(fd_ >= 0);
  setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(kPatience));
  setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof(kPatience));
  if (receive_bytes > 0) setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  BATON_CHECK(connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
}

RawClient::~RawClient() { close(fd_); }

bool RawClient::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

ssize_t RawClient::Receive(char* into, size_t bytes) { return recv(fd_, into, bytes, 0); }

bool RawClient::ReadSome() {
  std::array<char, 65536> piece;
  const ssize_t got = Receive(piece.data(), piece.size());
  if (got > 0) buffer_.append(piece.data(), static_cast<size_t>(got));
  return got > 0;
}

std::string RawClient::ReadUntil(std::string_view end) {
  size_t found = 0;
  while ((found = buffer_.find(end)) == std::string::npos) {
    if (!ReadSome()) return {};
  }
  std::string text = buffer_.substr(0, found + end.size());
  buffer_.erase(0, text.size());
  return text;
}

std::string RawClient::ReadResponse(bool has_body) {
  const std::string header = ReadUntil(kHeaderEnd);
  const std::string length = HeaderOf(header, "Content-Length");
  const size_t bytes = has_body && !length.empty() ? std::stoul(length) : 0;
  while (buffer_.size() < bytes && ReadSome()) {
  }
  const std::string body = buffer_.substr(0, bytes);
  buffer_.erase(0, body.size());
  return header + body;
}

std::string RawClient::ReadToEnd() {
  while (ReadSome()) {
  }
  return std::exchange(buffer_, {});
}

bool RawClient::EndsInOrder() {
  std::array<char, 65536> piece;
  ssize_t got = 0;
  while ((got = Receive(piece.data(), piece.size())) > 0) {
  }
  return got == 0;
}

bool RawClient::HearsWithin(int timeout_ms) {
  pollfd event = {.fd = fd_, .events = POLLIN, .revents = 0};
  return poll(&event, 1, timeout_ms) == 1;
}

void RawClient::Finish() { shutdown(fd_, SHUT_WR); }

std::string GetRequest(std::string_view path, std::string_view more_lines) {
  return absl::StrCat("GET ", ToAbsl(path), " HTTP/1.1\r\nHost: 127.0.0.1\r\n", ToAbsl(more_lines), "\r\n");
}

int StatusOf(std::string_view response) {
  return response.size() > 12 ? std::atoi(std::string(response.substr(9, 3)).c_str()) : 0;
}

std::string BodyOf(std::string_view response) {
  const size_t end = response.find(kHeaderEnd);
  return end == std::string_view::npos ? std::string() : std::string(response.substr(end + kHeaderEnd.size()));
}

std::string HeaderOf(std::string_view response, std::string_view name) {
  const std::string key = absl::StrCat("\r\n", ToAbsl(name), ": ");
  const size_t at = response.find(key);
  if (at == std::string_view::npos || at > response.find(kHeaderEnd)) return {};
  const std::string_view value = response.substr(at + key.size());
  return std::string(value.substr(0, value.find("\r\n")));
}

}  // namespace baton::telemetry
