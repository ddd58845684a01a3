#include "telemetry/testing/http_receiver.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "telemetry/testing/raw_client.h"

namespace baton::telemetry {
namespace {

using ReadBytes = std::function<ssize_t(char*, size_t)>;
using WriteBytes = std::function<ssize_t(const char*, size_t)>;

constexpr timeval kReceiverPatience = {.tv_sec = 20, .tv_usec = 0};

void UseCertificate(SSL_CTX* tls, const SelfSigned& certificate) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> key_bio(
      BIO_new_mem_buf(certificate.key.data(), static_cast<int>(certificate.key.size())), &BIO_free);
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(
      BIO_new_mem_buf(certificate.certificate.data(), static_cast<int>(certificate.certificate.size())), &BIO_free);
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      PEM_read_bio_PrivateKey(key_bio.get(), nullptr, nullptr, nullptr), &EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> x509(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr),
                                                         &X509_free);
  BATON_CHECK(SSL_CTX_use_certificate(tls, x509.get()) == 1 && SSL_CTX_use_PrivateKey(tls, key.get()) == 1);
}

// Empty when the client closes the connection first.
std::string ReadRequest(const ReadBytes& read) {
  std::string request;
  std::array<char, 65536> piece;
  while (true) {
    const size_t end = request.find("\r\n\r\n");
    const std::string length = HeaderOf(request, "Content-Length");
    if (end != std::string::npos && request.size() >= end + 4 + (length.empty() ? 0 : std::stoul(length)))
      return request;
    const ssize_t got = read(piece.data(), piece.size());
    if (got <= 0) return {};
    request.append(piece.data(), static_cast<size_t>(got));
  }
}

}  // namespace

HttpReceiver::HttpReceiver(Answer answer, const SelfSigned* certificate)
    : answer_(std::move(answer)),
      tls_(certificate == nullptr ? nullptr : SSL_CTX_new(TLS_server_method()), &SSL_CTX_free),
      listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  if (certificate != nullptr) UseCertificate(tls_.get(), *certificate);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(address);
  BATON_CHECK(bind(listener_, reinterpret_cast<const sockaddr*>(&address), bytes) == 0 && listen(listener_, 16) == 0);
  BATON_CHECK(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &bytes) == 0);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { Run(); });
}

HttpReceiver::~HttpReceiver() {
  stopping_ = true;
  // Ends accept.
  shutdown(listener_, SHUT_RDWR);
  thread_.join();
  close(listener_);
}

std::vector<std::string> HttpReceiver::requests() {
  const absl::MutexLock lock(&mutex_);
  return requests_;
}

void HttpReceiver::Run() {
  while (!stopping_) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    ++connections_;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &kReceiverPatience, sizeof(kReceiverPatience));
    Serve(fd);
    close(fd);
  }
}

void HttpReceiver::Serve(int fd) {
  if (const size_t bytes = close_after_bytes_; bytes > 0) {
    std::string some(bytes, '\0');
    (void)recv(fd, some.data(), bytes, 0);
    return;
  }
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl(nullptr, &SSL_free);
  ReadBytes read = [fd](char* to, size_t bytes) { return recv(fd, to, bytes, 0); };
  WriteBytes write = [fd](const char* from, size_t bytes) { return send(fd, from, bytes, MSG_NOSIGNAL); };
  if (tls_ != nullptr) {
    ssl.reset(SSL_new(tls_.get()));
    SSL_set_fd(ssl.get(), fd);
    if (SSL_accept(ssl.get()) != 1) return;
    read = [&](char* to, size_t bytes) { return SSL_read(ssl.get(), to, static_cast<int>(bytes)); };
    write = [&](const char* from, size_t bytes) { return SSL_write(ssl.get(), from, static_cast<int>(bytes)); };
  }
  const std::string request = ReadRequest(read);
  if (request.empty()) return;
  {
    const absl::MutexLock lock(&mutex_);
    requests_.push_back(request);
  }
  char ignored = 0;
  if (hangs_) (void)read(&ignored, 1);
  const std::string answer = answer_(request);
  for (size_t sent = 0; sent < answer.size();) {
    const ssize_t more = write(answer.data() + sent, answer.size() - sent);
    if (more <= 0) return;
    sent += static_cast<size_t>(more);
  }
}

std::string HttpAnswer(const std::string& status, const std::string& body, const std::string& lines) {
  return absl::StrCat("HTTP/1.1 ", status, "\r\n", lines, "Content-Length: ", body.size(), "\r\n\r\n", body);
}

}  // namespace baton::telemetry
