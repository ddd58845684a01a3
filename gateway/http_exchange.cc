#include "gateway/http_exchange.h"

#include <atomic>
#include <boost/asio/post.hpp>
#include <utility>

#include "common/check.h"

namespace baton::gateway {
namespace {

namespace asio = boost::asio;

// The owner may be gone by the time that it is reached, or in a later exchange.
class Exchange final : public HttpExchange, public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(HttpRequest request, std::shared_ptr<asio::io_context> io, std::weak_ptr<ExchangeOwner> owner,
           uint64_t number)
      : request_(std::move(request)), io_(std::move(io)), owner_(std::move(owner)), number_(number) {}
  ~Exchange() override;

  HttpRequest& request() override { return request_; }
  void Respond(HttpResponse response) override;
  void Stream(HttpResponse head, std::shared_ptr<BodySource> source) override;
  void Wake() override;
  void Abort() override;
  void SetOnDone(std::function<void(const absl::Status&)> on_done) override;

 private:
  // Runs `task(owner)` on the server's thread while the owner is in this exchange.
  template <typename Task>
  void Post(Task task);
  void NoteAnswer() { BATON_CHECK(!answered_.exchange(true)) << "a request has one response"; }

  HttpRequest request_;
  const std::shared_ptr<asio::io_context> io_;
  const std::weak_ptr<ExchangeOwner> owner_;
  const uint64_t number_;
  std::atomic<bool> answered_ = false;
  std::atomic<bool> wakes_ = false;
};

template <typename Task>
void Exchange::Post(Task task) {
  asio::post(*io_, [owner = owner_, number = number_, task = std::move(task)]() mutable {
    const std::shared_ptr<ExchangeOwner> self = owner.lock();
    if (self != nullptr && self->IsIn(number)) task(*self);
  });
}

Exchange::~Exchange() {
  if (!answered_) Post([](ExchangeOwner& owner) { owner.OnNoAnswer(); });
}

void Exchange::Respond(HttpResponse response) {
  NoteAnswer();
  Post([response = std::move(response)](ExchangeOwner& owner) mutable { owner.OnResponse(std::move(response)); });
}

void Exchange::Stream(HttpResponse head, std::shared_ptr<BodySource> source) {
  NoteAnswer();
  Post([head = std::move(head), source = std::move(source)](ExchangeOwner& owner) mutable {
    owner.OnStream(std::move(head), std::move(source));
  });
}

void Exchange::Wake() {
  if (wakes_.exchange(true)) return;
  // The exchange holds the queue that this waits in, so what waits must not hold the exchange.
  Post([weak = weak_from_this()](ExchangeOwner& owner) {
    if (const auto self = weak.lock()) self->wakes_ = false;
    owner.OnWake();
  });
}

void Exchange::Abort() {
  Post([](ExchangeOwner& owner) { owner.OnAbort(); });
}

void Exchange::SetOnDone(std::function<void(const absl::Status&)> on_done) {
  const std::shared_ptr<ExchangeOwner> owner = owner_.lock();
  if (owner != nullptr && owner->IsIn(number_)) owner->SetOnDone(std::move(on_done));
}

}  // namespace

std::shared_ptr<HttpExchange> MakeHttpExchange(HttpRequest request, std::shared_ptr<asio::io_context> io,
                                               std::weak_ptr<ExchangeOwner> owner, uint64_t number) {
  return std::make_shared<Exchange>(std::move(request), std::move(io), std::move(owner), number);
}

}  // namespace baton::gateway
