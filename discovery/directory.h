// The directory of a fleet, as one process sees it: keeps the process's own entry in an etcd alive, and tells who else
// is there. An etcd that is away or loses its memory ends nothing that runs: whoever was found stays known until an
// etcd that answers says otherwise.
#ifndef BATON_DISCOVERY_DIRECTORY_H_
#define BATON_DISCOVERY_DIRECTORY_H_

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/clock.h"
#include "discovery/announcements.h"
#include "discovery/directory_session.h"
#include "discovery/etcd_connection.h"

namespace baton::discovery {

struct DirectoryOptions {
  // host:port of each member of one etcd, at least one. After a failure the next one is asked.
  std::vector<std::string> endpoints;
  // Asked for each connection, so that renewed files are used.
  std::function<std::shared_ptr<grpc::ChannelCredentials>()> credentials = grpc::InsecureChannelCredentials;
  // What all keys of the fleet begin with, without a slash at its end.
  std::string prefix;
};

// Thread-safe.
class Directory {
 public:
  // Starts the thread. `own` is this process's entry. `on_change` is told on that thread whenever an entry has changed,
  // and must not wait for long.
  Directory(DirectoryOptions options, SessionOptions own, std::function<void(const Fleet&)> on_change);
  // As Leave.
  ~Directory();

  // Takes the own entry back, if etcd answers soon, and ends the thread. One thread calls it.
  void Leave() ABSL_LOCKS_EXCLUDED(mutex_);

  // OK while the process is announced and follows; else why it is not.
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mutex_);
  // How many entries there are, its own with them.
  size_t entries() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run();
  void Act(DirectorySession& session);
  void Connect(DirectorySession& session);
  void OnChanged(const DirectorySession& session);
  // Keeps what the session says for other threads, and logs what is news.
  void Note(const DirectorySession& session);

  const DirectoryOptions options_;
  const SessionOptions own_;
  const std::function<void(const Fleet&)> on_change_;

  // The thread's.
  std::unique_ptr<EtcdConnection> connection_;
  size_t next_endpoint_ = 0;
  std::string endpoint_;
  DirectorySession::State noted_ = DirectorySession::State::kApart;
  TimeNs apart_since_ = 0;
  bool complained_ = false;

  mutable absl::Mutex mutex_;
  bool leaving_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_) = absl::UnavailableError("it has not answered yet");
  size_t entries_ ABSL_GUARDED_BY(mutex_) = 0;
  // Last: it uses all others.
  std::thread thread_;
};

}  // namespace baton::discovery

#endif  // BATON_DISCOVERY_DIRECTORY_H_
