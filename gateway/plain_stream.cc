#include <boost/asio/write.hpp>
#include <utility>

#include "gateway/http_stream.h"

namespace baton::gateway {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

class PlainStream final : public HttpStream {
 public:
  explicit PlainStream(asio::ip::tcp::socket socket) : socket_(std::move(socket)) {}

  void Handshake(OnIo done) override { done({}, 0); }
  void ReadSome(asio::mutable_buffer into, OnIo done) override { socket_.async_read_some(into, std::move(done)); }
  void Write(std::string_view text, OnIo done) override {
    asio::async_write(socket_, asio::buffer(text.data(), text.size()), std::move(done));
  }
  void ShutDownSend() override {
    error_code ignored;
    socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  }
  void Close(bool) override {
    error_code ignored;
    socket_.close(ignored);
  }
  std::shared_ptr<const HttpPeer> peer() const override { return nullptr; }

 private:
  asio::ip::tcp::socket socket_;
};

}  // namespace

std::shared_ptr<HttpStream> MakePlainStream(asio::ip::tcp::socket socket) {
  return std::make_shared<PlainStream>(std::move(socket));
}

}  // namespace baton::gateway
