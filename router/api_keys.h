// Whose an API key is. The file has hashes alone, so that nobody who reads it can use a key:
//
//   # TENANT: SHA-256 of the key, in hexadecimal digits. A tenant may have several keys.
//   alice: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//
// A key has 256 random bits (DrawApiKey), so that a plain hash cannot be searched for it.
#ifndef BATON_ROUTER_API_KEYS_H_
#define BATON_ROUTER_API_KEYS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/file_watch.h"

namespace baton::router {

using KeyHash = std::array<uint64_t, 4>;

// Immutable.
class ApiKeyTable {
 public:
  // INVALID_ARGUMENT names the line, and never repeats it: somebody may have written a key there.
  static absl::StatusOr<ApiKeyTable> Parse(std::string_view text);

  // nullopt for a key that nobody has. Compares with all hashes in a time that does not depend on them.
  std::optional<std::string> TenantOf(std::string_view key) const;
  size_t size() const { return tenants_.size(); }

 private:
  std::vector<KeyHash> hashes_;
  // At the same index.
  std::vector<std::string> tenants_;
};

// The table of a file, read again whenever the file changes. A file that is wrong changes nothing, which the log says.
// Thread-safe.
class ApiKeys {
 public:
  // INVALID_ARGUMENT in one line: which file, what is wrong and what to do.
  static absl::StatusOr<std::unique_ptr<ApiKeys>> Create(const std::string& path,
                                                         int64_t watch_interval_ms = kFileWatchIntervalMs);

  std::optional<std::string> TenantOf(std::string_view key) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Reads the file again, as the watch does after each change.
  void Reload() ABSL_LOCKS_EXCLUDED(reloading_, mutex_);

 private:
  explicit ApiKeys(std::string path);
  absl::StatusOr<ApiKeyTable> Load() const;

  const std::string path_;
  // Held while the files are read and taken over, so that what was read last counts.
  absl::Mutex reloading_ ABSL_ACQUIRED_BEFORE(mutex_);
  mutable absl::Mutex mutex_;
  std::shared_ptr<const ApiKeyTable> table_ ABSL_GUARDED_BY(mutex_);
  // Last: its thread ends first.
  FileWatch watch_;
};

// Whose a call is that came with these values of its header `authorization`; empty where clients need no key, for which
// `keys` are null. UNAUTHENTICATED without exactly one key that somebody has. The port's guard has seen the key before,
// but keys may have changed since.
absl::StatusOr<std::string> AuthenticatedTenant(const ApiKeys* keys,
                                                const std::vector<std::string_view>& authorizations);

// A new key, of letters, digits, - and _.
std::string DrawApiKey();
// As the file has it.
std::string ApiKeyHashText(std::string_view key);
// Whether a tenant may have this name in the file: 1 to kMaxTenantBytes of letters, digits and -_.@/
bool IsTenantName(std::string_view name);

}  // namespace baton::router

#endif  // BATON_ROUTER_API_KEYS_H_
