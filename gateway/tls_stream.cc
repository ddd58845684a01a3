// TLS by OpenSSL over buffers in memory, rather than by Asio's own stream: that one ends a connection by waiting for
// the client's word, and fails where the client still sends, so that a refusal could be lost.
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <array>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <string>
#include <utility>

#include "common/check.h"
#include "common/rpc/certificates.h"
#include "gateway/http_stream.h"

namespace baton::gateway {
namespace {

namespace asio = boost::asio;
namespace errc = boost::system::errc;
using asio::ip::tcp;
using boost::system::error_code;

constexpr size_t kReceiveBytes = 4096;
// What is encrypted at a time, and so waits in memory until the system takes it.
constexpr size_t kRecordBytes = 8192;
// What TLS itself may have to say to a client that does not read.
constexpr size_t kMaxUnsentBytes = size_t{64} << 10;

using SslPtr = std::unique_ptr<SSL, rpc::Freer<SSL_free>>;

class TlsStream final : public HttpStream, public std::enable_shared_from_this<TlsStream> {
 public:
  TlsStream(tcp::socket socket, SSL_CTX& context);

  void Handshake(OnIo done) override;
  void ReadSome(asio::mutable_buffer into, OnIo done) override;
  void Write(std::string_view text, OnIo done) override;
  void ShutDownSend() override;
  void Close(bool in_order) override;
  std::shared_ptr<const HttpPeer> peer() const override { return peer_; }

 private:
  void GoOnWithHandshake();
  void GoOnWithRead();
  void GoOnWithWrite();
  // After a call of OpenSSL that did not get on: it needs more from the client, or never will.
  void AwaitMore(int result, OnIo& pending);
  void Receive();
  void OnReceived(error_code error, size_t bytes);
  void Send();
  void OnSent(error_code error);
  std::string TakeUnsent();
  // Calls back in a turn of its own.
  void Finish(OnIo& pending, error_code error, size_t bytes = 0);
  void ReadPeer();

  tcp::socket socket_;
  const SslPtr ssl_;
  // Encrypted, from and to the client. Owned by ssl_.
  BIO* const received_ = BIO_new(BIO_s_mem());
  BIO* const unsent_ = BIO_new(BIO_s_mem());
  std::shared_ptr<const HttpPeer> peer_;

  OnIo handshake_;
  OnIo read_;
  OnIo write_;
  asio::mutable_buffer read_into_;
  std::string_view to_write_;
  size_t written_bytes_ = 0;

  std::array<char, kReceiveBytes> receiving_{};
  std::string sending_;
  bool is_sending_ = false;
  error_code receive_error_;
  error_code send_error_;
  bool is_plain_ = false;
  bool is_shut_down_ = false;
  bool is_closed_ = false;
};

TlsStream::TlsStream(tcp::socket socket, SSL_CTX& context) : socket_(std::move(socket)), ssl_(SSL_new(&context)) {
  BATON_CHECK(ssl_ != nullptr && received_ != nullptr && unsent_ != nullptr);
  SSL_set_bio(ssl_.get(), received_, unsent_);
  SSL_set_accept_state(ssl_.get());
  // The last word of a connection is written without waiting.
  error_code ignored;
  socket_.non_blocking(true, ignored);
}

void TlsStream::Handshake(OnIo done) {
  handshake_ = std::move(done);
  GoOnWithHandshake();
}

void TlsStream::ReadSome(asio::mutable_buffer into, OnIo done) {
  if (is_shut_down_) return socket_.async_read_some(into, std::move(done));
  read_ = std::move(done);
  read_into_ = into;
  GoOnWithRead();
}

void TlsStream::Write(std::string_view text, OnIo done) {
  write_ = std::move(done);
  to_write_ = text;
  written_bytes_ = 0;
  GoOnWithWrite();
}

void TlsStream::ShutDownSend() {
  is_shut_down_ = true;
  // It says so to the client, unless the handshake has failed. That is in `unsent_` now, as is the reason of a failure.
  if (!is_plain_) SSL_shutdown(ssl_.get());
  ERR_clear_error();
  Send();
}

void TlsStream::Close(bool in_order) {
  if (std::exchange(is_closed_, true)) return;
  handshake_ = nullptr;
  read_ = nullptr;
  write_ = nullptr;
  error_code ignored;
  if (in_order && !is_plain_ && !is_shut_down_ && !is_sending_) {
    SSL_shutdown(ssl_.get());
    ERR_clear_error();
    const std::string last_word = TakeUnsent();
    if (!last_word.empty()) socket_.write_some(asio::buffer(last_word), ignored);
  }
  socket_.close(ignored);
}

void TlsStream::GoOnWithHandshake() {
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_.get());
  if (result != 1) return AwaitMore(result, handshake_);
  ReadPeer();
  Send();
  Finish(handshake_, {});
}

void TlsStream::ReadPeer() {
  const rpc::X509Ptr certificate(SSL_get1_peer_certificate(ssl_.get()));
  if (certificate != nullptr) peer_ = std::make_shared<const HttpPeer>(HttpPeer{.uris = rpc::UrisOf(*certificate)});
}

void TlsStream::GoOnWithRead() {
  if (read_ == nullptr) return;
  ERR_clear_error();
  const int bytes = SSL_read(ssl_.get(), read_into_.data(), static_cast<int>(read_into_.size()));
  if (bytes <= 0) return AwaitMore(bytes, read_);
  Send();
  Finish(read_, {}, static_cast<size_t>(bytes));
}

void TlsStream::GoOnWithWrite() {
  if (write_ == nullptr || is_sending_) return;
  if (send_error_) return Finish(write_, send_error_);
  if (to_write_.empty()) return Finish(write_, {}, written_bytes_);
  const std::string_view piece = to_write_.substr(0, kRecordBytes);
  const int size = static_cast<int>(piece.size());
  ERR_clear_error();
  const int bytes = is_plain_ ? BIO_write(unsent_, piece.data(), size) : SSL_write(ssl_.get(), piece.data(), size);
  if (bytes <= 0) return Finish(write_, errc::make_error_code(errc::protocol_error));
  to_write_.remove_prefix(static_cast<size_t>(bytes));
  written_bytes_ += static_cast<size_t>(bytes);
  Send();
}

void TlsStream::AwaitMore(int result, OnIo& pending) {
  const int why = SSL_get_error(ssl_.get(), result);
  const bool is_plain_http = ERR_GET_REASON(ERR_peek_error()) == SSL_R_HTTP_REQUEST;
  ERR_clear_error();
  Send();
  if (BIO_ctrl_pending(unsent_) > kMaxUnsentBytes) return Finish(pending, asio::error::no_buffer_space);
  if (why == SSL_ERROR_WANT_READ) return receive_error_ ? Finish(pending, receive_error_) : Receive();
  if (why == SSL_ERROR_ZERO_RETURN) return Finish(pending, asio::error::eof);
  is_plain_ = is_plain_http;
  Finish(pending, errc::make_error_code(is_plain_http ? errc::wrong_protocol_type : errc::protocol_error));
}

void TlsStream::Receive() {
  socket_.async_read_some(asio::buffer(receiving_), [self = shared_from_this()](error_code error, size_t bytes) {
    if (!self->is_closed_) self->OnReceived(error, bytes);
  });
}

void TlsStream::OnReceived(error_code error, size_t bytes) {
  // A read that has waited since before is told what its successors are.
  if (is_shut_down_) return Finish(read_, error, bytes);
  receive_error_ = error;
  if (bytes > 0) BIO_write(received_, receiving_.data(), static_cast<int>(bytes));
  handshake_ != nullptr ? GoOnWithHandshake() : GoOnWithRead();
}

std::string TlsStream::TakeUnsent() {
  std::string unsent(BIO_ctrl_pending(unsent_), '\0');
  if (!unsent.empty()) BIO_read(unsent_, unsent.data(), static_cast<int>(unsent.size()));
  return unsent;
}

void TlsStream::Send() {
  if (is_sending_) return;
  sending_ = TakeUnsent();
  if (sending_.empty()) {
    error_code ignored;
    if (is_shut_down_) socket_.shutdown(tcp::socket::shutdown_send, ignored);
    return;
  }
  is_sending_ = true;
  asio::async_write(socket_, asio::buffer(sending_), [self = shared_from_this()](error_code error, size_t) {
    self->is_sending_ = false;
    if (!self->is_closed_) self->OnSent(error);
  });
}

void TlsStream::OnSent(error_code error) {
  send_error_ = error;
  GoOnWithWrite();
  if (!error) Send();
}

void TlsStream::Finish(OnIo& pending, error_code error, size_t bytes) {
  if (pending == nullptr) return;
  asio::post(socket_.get_executor(), [self = shared_from_this(), done = std::exchange(pending, nullptr), error, bytes] {
    if (!self->is_closed_) done(error, bytes);
  });
}

}  // namespace

std::shared_ptr<HttpStream> MakeTlsStream(tcp::socket socket, ssl_ctx_st& context) {
  return std::make_shared<TlsStream>(std::move(socket), context);
}

}  // namespace baton::gateway
