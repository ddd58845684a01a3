// A collector over HTTP that does what the test says, right or wrong.
#ifndef BATON_TELEMETRY_TESTING_HTTP_RECEIVER_H_
#define BATON_TELEMETRY_TESTING_HTTP_RECEIVER_H_

#include <openssl/ssl.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "telemetry/testing/self_signed.h"

namespace baton::telemetry {

// Takes one connection after the other on a thread of its own.
class HttpReceiver {
 public:
  // What is sent back, as it is, for a whole request; then the connection is closed. Nothing for an empty text.
  using Answer = std::function<std::string(const std::string& request)>;

  // Listens on a free port of 127.0.0.1; with TLS where there is a certificate.
  explicit HttpReceiver(Answer answer, const SelfSigned* certificate = nullptr);
  ~HttpReceiver();

  int port() const { return port_; }
  // Header and body of each request that came whole.
  std::vector<std::string> requests() ABSL_LOCKS_EXCLUDED(mutex_);
  size_t connections() const { return connections_; }
  // Requests stay without an answer until the client closes the connection.
  void Hang(bool hangs) { hangs_ = hangs; }
  // Connections are closed when something has come, of which at most so many bytes are read. With bytes left unread the
  // system ends a connection by a reset.
  void CloseAfter(size_t bytes) { close_after_bytes_ = bytes; }

 private:
  void Run();
  void Serve(int fd);

  const Answer answer_;
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> tls_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> hangs_ = false;
  // 0: they stay.
  std::atomic<size_t> close_after_bytes_ = 0;
  std::atomic<bool> stopping_ = false;
  std::atomic<size_t> connections_ = 0;
  absl::Mutex mutex_;
  std::vector<std::string> requests_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

// "HTTP/1.1 STATUS\r\n", the lines, and the body with its length.
std::string HttpAnswer(const std::string& status, const std::string& body, const std::string& lines = "");

}  // namespace baton::telemetry

#endif  // BATON_TELEMETRY_TESTING_HTTP_RECEIVER_H_
