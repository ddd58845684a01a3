// The open Prefill or Decode calls of a worker, by job. They carry the loop's updates to the router.
#ifndef BATON_WORKER_UPDATE_STREAMS_H_
#define BATON_WORKER_UPDATE_STREAMS_H_

#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/server_stream.h"
#include "common/rpc/wire.h"

namespace baton::worker {

// `Response` has one field, `update`. Thread-safe.
template <typename Response>
class UpdateStreams final : public UpdateSink {
 public:
  using Stream = rpc::ServerStream<Response>;

  // The stream of a call whose job could not even be read. It ends at once.
  static std::shared_ptr<Stream> Refuse(const absl::Status& status) {
    auto stream = Stream::Create([] {});
    stream->Finish(rpc::ToGrpc(status));
    return stream;
  }

  // A call began. `on_cancel` runs on a gRPC thread when the router has gone or reads too slowly. A second call of the
  // same attempt is refused through its own stream; then `opened` is false.
  std::shared_ptr<Stream> Open(const JobKey& key, std::function<void()> on_cancel, bool& opened) {
    auto stream = Stream::Create(on_cancel);
    absl::MutexLock lock(&mutex_);
    opened = calls_.emplace(key, Call{stream, std::move(on_cancel)}).second;
    if (!opened) stream->Finish(rpc::ToGrpc(absl::AlreadyExistsError(absl::StrCat("attempt ", key.ToString()))));
    return stream;
  }

  void Update(const JobKey& key, const WorkerUpdate& update) override {
    const Call call = Find(key);
    if (call.stream == nullptr) return;
    Response response;
    rpc::ToProto(update, response.mutable_update());
    if (!call.stream->Push(std::move(response))) call.on_cancel();
  }

  void End(const JobKey& key, const absl::Status& status) override {
    const Call call = Find(key);
    if (call.stream == nullptr) return;
    {
      absl::MutexLock lock(&mutex_);
      calls_.erase(key);
    }
    call.stream->Finish(rpc::ToGrpc(status));
  }

 private:
  struct Call {
    std::shared_ptr<Stream> stream;
    std::function<void()> on_cancel;
  };

  Call Find(const JobKey& key) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const auto it = calls_.find(key);
    return it == calls_.end() ? Call{} : it->second;
  }

  absl::Mutex mutex_;
  absl::flat_hash_map<JobKey, Call> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton::worker

#endif  // BATON_WORKER_UPDATE_STREAMS_H_
