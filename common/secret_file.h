// Files of certificates, keys and hashes of keys.
#ifndef BATON_COMMON_SECRET_FILE_H_
#define BATON_COMMON_SECRET_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace baton {

inline constexpr size_t kMaxSecretFileBytes = 1u << 20;

struct SecretFile {
  // The flag that names the file, for errors: "--tls-key".
  std::string flag;
  std::string path;
  // Refuses a file that others than its owner and its group may read.
  bool is_private = false;

  // "--tls-key /etc/baton/key.pem: "
  std::string Prefix() const { return flag + " " + path + ": "; }
};

// The whole content, at most kMaxSecretFileBytes. INVALID_ARGUMENT says in one line which file, what is wrong with it
// and what to do. No error has content of the file.
absl::StatusOr<std::string> ReadSecretFile(const SecretFile& file);

}  // namespace baton

#endif  // BATON_COMMON_SECRET_FILE_H_
