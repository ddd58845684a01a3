// The thread-safe end of one request, apart from the connection that it came on, which belongs to the server's thread.
#ifndef BATON_GATEWAY_HTTP_EXCHANGE_H_
#define BATON_GATEWAY_HTTP_EXCHANGE_H_

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>

#include "gateway/http_types.h"

namespace baton::gateway {

// A connection as its exchanges see it. Used by the server's thread.
class ExchangeOwner {
 public:
  virtual ~ExchangeOwner() = default;
  // The connection is still in the exchange with this number, so what that says concerns it.
  virtual bool IsIn(uint64_t number) const = 0;
  virtual void OnResponse(HttpResponse response) = 0;
  virtual void OnStream(HttpResponse head, std::shared_ptr<BodySource> source) = 0;
  virtual void OnWake() = 0;
  virtual void OnAbort() = 0;
  // Nobody holds the exchange any more, and it has no response.
  virtual void OnNoAnswer() = 0;
  virtual void SetOnDone(std::function<void(const absl::Status&)> on_done) = 0;
};

// The exchange reaches its owner through `io` alone, and may outlive it.
std::shared_ptr<HttpExchange> MakeHttpExchange(HttpRequest request, std::shared_ptr<boost::asio::io_context> io,
                                               std::weak_ptr<ExchangeOwner> owner, uint64_t number);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_HTTP_EXCHANGE_H_
