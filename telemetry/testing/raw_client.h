// A TCP client that sends any bytes to a server on loopback and reads what comes, for tests of servers.
#ifndef BATON_TELEMETRY_TESTING_RAW_CLIENT_H_
#define BATON_TELEMETRY_TESTING_RAW_CLIENT_H_

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace baton::telemetry {

// Every call gives up after 20 seconds, with what has come by then.
class RawClient {
 public:
  // Connects to 127.0.0.1; the system takes at most `receive_bytes` for us where that is not 0.
  explicit RawClient(int port, int receive_bytes = 0);
  virtual ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  // False when the server has closed the connection.
  virtual bool Send(std::string_view bytes);
  // The next response: its header, and its body where a Content-Length says how long that is. Empty when the server
  // closes the connection first.
  std::string ReadResponse(bool has_body = true);
  // Until the text ends with `end`.
  std::string ReadUntil(std::string_view end);
  // Until the server closes the connection, in order or by a reset.
  std::string ReadToEnd();
  // As ReadToEnd. False when the connection ends by a reset, which may take away what was sent before it.
  bool EndsInOrder();
  // Whether the server closes the connection, or sends something, within this time.
  bool HearsWithin(int timeout_ms);
  // Nobody writes any more on our side.
  void Finish();

 protected:
  int fd() const { return fd_; }
  // As recv.
  virtual ssize_t Receive(char* into, size_t bytes);

 private:
  // False: nothing more comes.
  bool ReadSome();

  int fd_;
  std::string buffer_;
};

// A request that the server takes, with further lines of its header.
std::string GetRequest(std::string_view path, std::string_view more_lines = "");
int StatusOf(std::string_view response);
std::string BodyOf(std::string_view response);
// Empty when there is none. `name` as the server writes it.
std::string HeaderOf(std::string_view response, std::string_view name);

}  // namespace baton::telemetry

#endif  // BATON_TELEMETRY_TESTING_RAW_CLIENT_H_
