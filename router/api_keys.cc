#include "router/api_keys.h"

#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/check.h"
#include "common/limits.h"
#include "common/log.h"
#include "common/rpc/call_policy.h"
#include "common/secret_file.h"
#include "common/status.h"

namespace baton::router {
namespace {

constexpr size_t kKeyBytes = 32;
constexpr char kKeyPrefix[] = "baton_";

using Digest = std::array<uint8_t, SHA256_DIGEST_LENGTH>;
static_assert(sizeof(Digest) == sizeof(KeyHash));

Digest DigestOf(std::string_view key) {
  Digest digest;
  SHA256(reinterpret_cast<const uint8_t*>(key.data()), key.size(), digest.data());
  return digest;
}

KeyHash ToHash(const void* digest) {
  KeyHash hash;
  std::memcpy(hash.data(), digest, sizeof(hash));
  return hash;
}

std::optional<KeyHash> ParseHash(absl::string_view text) {
  const bool is_hex = text.size() == 2 * sizeof(Digest) && std::all_of(text.begin(), text.end(), absl::ascii_isxdigit);
  if (!is_hex) return std::nullopt;
  return ToHash(absl::HexStringToBytes(text).data());
}

}  // namespace

absl::StatusOr<ApiKeyTable> ApiKeyTable::Parse(std::string_view text) {
  ApiKeyTable table;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(ToAbsl(text), '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line.front() == '#') continue;
    const size_t colon = line.rfind(':');
    const absl::string_view tenant = absl::StripAsciiWhitespace(line.substr(0, colon));
    const std::optional<KeyHash> hash =
        colon == absl::string_view::npos ? std::nullopt : ParseHash(absl::StripAsciiWhitespace(line.substr(colon + 1)));
    if (!hash.has_value() || !IsTenantName(ToStd(tenant))) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", number, ": expected TENANT: HASH, as `baton api-key TENANT` prints it"));
    }
    if (std::find(table.hashes_.begin(), table.hashes_.end(), *hash) != table.hashes_.end()) {
      return absl::InvalidArgumentError(absl::StrCat("line ", number, ": this hash comes twice"));
    }
    if (table.size() == kMaxApiKeys) {
      return absl::InvalidArgumentError(absl::StrCat("more than ", kMaxApiKeys, " keys"));
    }
    table.hashes_.push_back(*hash);
    table.tenants_.emplace_back(tenant);
  }
  return table;
}

std::optional<std::string> ApiKeyTable::TenantOf(std::string_view key) const {
  if (key.empty() || key.size() > kMaxApiKeyBytes) return std::nullopt;
  const KeyHash wanted = ToHash(DigestOf(key).data());
  // Index of the equal hash, plus one. No branch depends on a hash.
  size_t found = 0;
  for (size_t i = 0; i < hashes_.size(); ++i) {
    uint64_t difference = 0;
    for (size_t word = 0; word < wanted.size(); ++word) difference |= hashes_[i][word] ^ wanted[word];
    const uint64_t is_equal = 1 ^ ((difference | (0 - difference)) >> 63);
    found |= (0 - is_equal) & (i + 1);
  }
  if (found == 0) return std::nullopt;
  return tenants_[found - 1];
}

ApiKeys::ApiKeys(std::string path) : path_(std::move(path)), watch_({path_}) {}

absl::StatusOr<std::unique_ptr<ApiKeys>> ApiKeys::Create(const std::string& path, int64_t watch_interval_ms) {
  std::unique_ptr<ApiKeys> keys(new ApiKeys(path));
  BATON_ASSIGN_OR_RETURN(ApiKeyTable table, keys->Load());
  spdlog::info("requests need one of the {} API keys in {}", table.size(), path);
  {
    absl::MutexLock lock(&keys->mutex_);
    keys->table_ = std::make_shared<const ApiKeyTable>(std::move(table));
  }
  keys->watch_.Start([raw = keys.get()] { raw->Reload(); }, watch_interval_ms);
  return keys;
}

absl::StatusOr<ApiKeyTable> ApiKeys::Load() const {
  const SecretFile file = {.flag = "--api-keys", .path = path_, .is_private = true};
  BATON_ASSIGN_OR_RETURN(const std::string text, ReadSecretFile(file));
  absl::StatusOr<ApiKeyTable> table = ApiKeyTable::Parse(text);
  if (table.ok()) return table;
  return absl::InvalidArgumentError(absl::StrCat(file.Prefix(), table.status().message()));
}

void ApiKeys::Reload() {
  absl::MutexLock reloading(&reloading_);
  absl::StatusOr<ApiKeyTable> table = Load();
  if (!table.ok()) return spdlog::error("{}; the former keys stay in use", std::string(table.status().message()));
  spdlog::info("{} API keys in {} from now on", table->size(), path_);
  absl::MutexLock lock(&mutex_);
  table_ = std::make_shared<const ApiKeyTable>(*std::move(table));
}

std::optional<std::string> ApiKeys::TenantOf(std::string_view key) const {
  std::shared_ptr<const ApiKeyTable> table;
  {
    absl::MutexLock lock(&mutex_);
    table = table_;
  }
  return table->TenantOf(key);
}

absl::StatusOr<std::string> AuthenticatedTenant(const ApiKeys* keys,
                                                const std::vector<std::string_view>& authorizations) {
  if (keys == nullptr) return std::string();
  const std::optional<std::string_view> key = rpc::BearerKey(authorizations);
  std::optional<std::string> tenant = key.has_value() ? keys->TenantOf(*key) : std::nullopt;
  if (!tenant.has_value()) return absl::UnauthenticatedError("this API key is not known");
  return *std::move(tenant);
}

std::string DrawApiKey() {
  std::array<uint8_t, kKeyBytes> bytes;
  BATON_CHECK(RAND_bytes(bytes.data(), bytes.size()) == 1);
  std::string text;
  absl::WebSafeBase64Escape({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, &text);
  return kKeyPrefix + text;
}

std::string ApiKeyHashText(std::string_view key) {
  const Digest digest = DigestOf(key);
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

bool IsTenantName(std::string_view name) {
  const auto is_allowed = [](unsigned char c) {
    return absl::ascii_isalnum(c) || absl::StrContains("-_.@/", static_cast<char>(c));
  };
  return !name.empty() && name.size() <= kMaxTenantBytes && std::all_of(name.begin(), name.end(), is_allowed);
}

}  // namespace baton::router
