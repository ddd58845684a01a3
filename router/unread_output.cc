#include "router/unread_output.h"

#include <utility>

#include "absl/time/time.h"
#include "common/check.h"

namespace baton::router {

void UnreadOutput::Add(Stream& stream) {
  absl::MutexLock lock(&mutex_);
  streams_.try_emplace(&stream);
}

void UnreadOutput::Remove(Stream& stream) {
  absl::MutexLock lock(&mutex_);
  const auto it = streams_.find(&stream);
  BATON_CHECK(it != streams_.end()) << "a stream that was never added";
  Forget(it->second);
  streams_.erase(it);
  total_.fetch_sub(stream.bytes_.exchange(0));
}

void UnreadOutput::Forget(Entry& entry) {
  if (std::exchange(entry.has_ended, false)) ended_.erase(entry.ended);
}

void UnreadOutput::Break(Stream& stream, Entry& entry) {
  entry.broken = true;
  Forget(entry);
  stream.Break();
}

void UnreadOutput::Ended(Stream& stream) {
  absl::MutexLock lock(&mutex_);
  const auto it = streams_.find(&stream);
  if (it == streams_.end() || it->second.broken || it->second.has_ended) return;
  Entry& entry = it->second;
  entry.has_ended = true;
  entry.ended = ended_.insert(ended_.end(), {.stream = &stream, .at = clock_.Now()});
  if (ended_.size() > limits_.ended_streams) Break(*ended_.front().stream, streams_.at(ended_.front().stream));
}

void UnreadOutput::Sweep() {
  absl::MutexLock lock(&mutex_);
  const TimeNs now = clock_.Now();
  while (!ended_.empty() && After(ended_.front().at, limits_.ended_ms) <= now) {
    Break(*ended_.front().stream, streams_.at(ended_.front().stream));
  }
}

void UnreadOutput::AwaitNone() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &UnreadOutput::HasNone));
}

size_t UnreadOutput::AwaitRead(int64_t timeout_ms) {
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(this, &UnreadOutput::AllRead), absl::Milliseconds(timeout_ms));
  return ended_.size();
}

// What a broken stream holds is on its way out, so it does not count.
void UnreadOutput::BreakTheWorst() {
  absl::MutexLock lock(&mutex_);
  while (true) {
    int64_t held = 0;
    Stream* worst = nullptr;
    for (const auto& [stream, entry] : streams_) {
      if (entry.broken) continue;
      const int64_t bytes = stream->bytes_.load();
      held += bytes;
      if (worst == nullptr || bytes > worst->bytes_.load()) worst = stream;
    }
    if (worst == nullptr || held <= static_cast<int64_t>(limits_.total_bytes)) return;
    Break(*worst, streams_.at(worst));
  }
}

}  // namespace baton::router
