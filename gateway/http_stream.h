// The bytes of one connection of the HTTP server, in plain text or over TLS. Sessions see no difference.
#ifndef BATON_GATEWAY_HTTP_STREAM_H_
#define BATON_GATEWAY_HTTP_STREAM_H_

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

#include "gateway/http_types.h"

namespace baton::gateway {

// One read and one write at a time. Used by the server's thread, which runs every `done` once, unless the stream is
// closed before. A `done` may hold the owner of the stream.
class HttpStream {
 public:
  using OnIo = std::function<void(boost::system::error_code error, size_t bytes)>;

  virtual ~HttpStream() = default;

  // Once, before anything else; `done` may run at once. The error is wrong_protocol_type when the client speaks plain
  // text to a server of TLS: what is written then is plain text, too. After any other error nothing can be written.
  virtual void Handshake(OnIo done) = 0;
  // Some bytes of what the client says. The error is eof when it says no more.
  virtual void ReadSome(boost::asio::mutable_buffer into, OnIo done) = 0;
  // All of `text`, which has to live until the end of it.
  virtual void Write(std::string_view text, OnIo done) = 0;
  // Nothing more is written, which the client is told behind what was. From now on reads only tell how much comes.
  virtual void ShutDownSend() = 0;
  // At once. `in_order`: nothing is left out of what the client was to have, so it may be told that this is the end.
  virtual void Close(bool in_order) = 0;
  // What the client's certificate says, after the handshake; null when it has shown none.
  virtual std::shared_ptr<const HttpPeer> peer() const = 0;
};

std::shared_ptr<HttpStream> MakePlainStream(boost::asio::ip::tcp::socket socket);
// `context` is that of a server.
std::shared_ptr<HttpStream> MakeTlsStream(boost::asio::ip::tcp::socket socket, ssl_ctx_st& context);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_HTTP_STREAM_H_
