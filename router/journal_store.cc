#include "router/journal_store.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"

namespace baton::router {
namespace {

constexpr char kFileName[] = "/journal.sqlite";
// "BatJ": tells a journal from other databases.
constexpr int64_t kApplicationId = 0x4261744a;
constexpr int64_t kSchemaVersion = 1;
constexpr char kSchema[] =
    "CREATE TABLE jobs (number INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, runs INTEGER NOT NULL, "
    "request BLOB NOT NULL, fingerprint BLOB NOT NULL, result BLOB NOT NULL, ended_unix_ms INTEGER NOT NULL);";
constexpr size_t kIdBytes = 16;

std::string OneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string IdBytes(const JobId& id) {
  std::string bytes;
  for (const uint64_t half : {id.high, id.low}) {
    for (int shift = 56; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(half >> shift));
  }
  return bytes;
}

JobId IdOf(const std::string& bytes) {
  JobId id;
  for (size_t i = 0; i < bytes.size(); ++i) {
    uint64_t& half = i < kIdBytes / 2 ? id.high : id.low;
    half = half << 8 | static_cast<uint8_t>(bytes[i]);
  }
  return id;
}

// Owns a statement.
class Statement {
 public:
  Statement(sqlite3* db, const char* sql) { sqlite3_prepare_v2(db, sql, -1, &statement_, nullptr); }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Positions count from 1. The bytes live until the statement ends.
  void Bind(int position, const std::string& bytes) {
    sqlite3_bind_blob64(statement_, position, bytes.data(), bytes.size(), SQLITE_STATIC);
  }
  void Bind(int position, int64_t number) { sqlite3_bind_int64(statement_, position, number); }
  // SQLITE_ROW, SQLITE_DONE, or an error, which a statement that could not be prepared gives as well.
  int Step() { return statement_ == nullptr ? SQLITE_ERROR : sqlite3_step(statement_); }
  // Columns count from 0.
  int64_t Number(int column) { return sqlite3_column_int64(statement_, column); }
  std::string Bytes(int column) {
    const void* data = sqlite3_column_blob(statement_, column);
    const auto bytes = static_cast<size_t>(sqlite3_column_bytes(statement_, column));
    return data == nullptr ? std::string() : std::string(static_cast<const char*>(data), bytes);
  }

 private:
  sqlite3_stmt* statement_ = nullptr;
};

absl::Status SystemRefuses(const std::string& path, const char* doing) {
  return absl::UnavailableError(absl::StrCat("--state-dir: ", path, ": ", doing, ": ", std::strerror(errno),
                                             ": name a folder in which the router may write"));
}

// SQLite gives its other files the mode of this one.
absl::Status MakeFile(const std::string& folder, const std::string& path) {
  constexpr mode_t kFolderMode = 0700;
  constexpr mode_t kFileMode = 0600;
  if (mkdir(folder.c_str(), kFolderMode) != 0 && errno != EEXIST) return SystemRefuses(folder, "it cannot be made");
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kFileMode);
  if (fd < 0) return SystemRefuses(path, "it cannot be opened");
  const bool is_private = fchmod(fd, kFileMode) == 0;
  close(fd);
  return is_private ? absl::OkStatus() : SystemRefuses(path, "it cannot be made private");
}

}  // namespace

absl::StatusOr<std::unique_ptr<JournalStore>> JournalStore::Open(const JournalStoreOptions& options) {
  const std::string path = absl::StrCat(options.folder, kFileName);
  BATON_RETURN_IF_ERROR(MakeFile(options.folder, path));
  sqlite3* db = nullptr;
  const int opened = sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  std::unique_ptr<JournalStore> store(new JournalStore(path, db));
  if (opened != SQLITE_OK) return store->Error("it cannot be opened");
  BATON_RETURN_IF_ERROR(store->Configure(options.max_bytes));
  BATON_RETURN_IF_ERROR(store->CheckContent());
  return store;
}

JournalStore::~JournalStore() { sqlite3_close(db_); }

// One process has the file for itself, so that two routers never run the same jobs.
absl::Status JournalStore::Configure(int64_t max_bytes) {
  BATON_RETURN_IF_ERROR(Run("PRAGMA locking_mode = EXCLUSIVE"));
  BATON_RETURN_IF_ERROR(Run("PRAGMA secure_delete = ON"));
  // Does nothing in a file that has tables.
  BATON_RETURN_IF_ERROR(Run("PRAGMA auto_vacuum = FULL"));
  BATON_RETURN_IF_ERROR(Run("PRAGMA journal_mode = WAL"));
  BATON_RETURN_IF_ERROR(Run("PRAGMA synchronous = NORMAL"));
  BATON_ASSIGN_OR_RETURN(const int64_t page_bytes, ReadNumber("PRAGMA page_size"));
  return Run(absl::StrCat("PRAGMA max_page_count = ", max_bytes / page_bytes).c_str());
}

absl::Status JournalStore::CheckContent() {
  BATON_RETURN_IF_ERROR(Run("BEGIN IMMEDIATE"));
  const auto undo = absl::MakeCleanup([this] { sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr); });
  BATON_ASSIGN_OR_RETURN(const int64_t tables, ReadNumber("SELECT count(*) FROM sqlite_master"));
  BATON_ASSIGN_OR_RETURN(const int64_t application, ReadNumber("PRAGMA application_id"));
  BATON_ASSIGN_OR_RETURN(const int64_t version, ReadNumber("PRAGMA user_version"));
  if (tables == 0 && application == 0) {
    BATON_RETURN_IF_ERROR(Run(kSchema));
    BATON_RETURN_IF_ERROR(Run(absl::StrCat("PRAGMA application_id = ", kApplicationId).c_str()));
    BATON_RETURN_IF_ERROR(Run(absl::StrCat("PRAGMA user_version = ", kSchemaVersion).c_str()));
    return Run("COMMIT");
  }
  if (application != kApplicationId) {
    return absl::FailedPreconditionError(
        absl::StrCat("--state-dir: ", path_, " is the database of another program: name another folder"));
  }
  if (version != kSchemaVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("--state-dir: ", path_, " has version ", version, ", and this Baton reads ", kSchemaVersion,
                     ": start the Baton that wrote it, or move the file away, with the jobs in it"));
  }
  Statement check(db_, "PRAGMA quick_check(1)");
  if (check.Step() == SQLITE_ROW && check.Bytes(0) == "ok") return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("--state-dir: ", path_, " is damaged: ", OneLine(check.Bytes(0)),
                                          ": move the file away, with the jobs in it"));
}

absl::StatusOr<std::vector<JournalRow>> JournalStore::TakeUp() {
  BATON_RETURN_IF_ERROR(Run("UPDATE jobs SET runs = runs + 1 WHERE result = x''"));
  std::vector<JournalRow> rows;
  Statement select(db_, "SELECT id, runs, request, fingerprint, result, ended_unix_ms FROM jobs ORDER BY number");
  int step = select.Step();
  for (; step == SQLITE_ROW; step = select.Step()) {
    rows.push_back({.id = IdOf(select.Bytes(0)),
                    .runs = static_cast<uint32_t>(select.Number(1)),
                    .request = select.Bytes(2),
                    .fingerprint = select.Bytes(3),
                    .result = select.Bytes(4),
                    .ended_unix_ms = select.Number(5)});
  }
  if (step != SQLITE_DONE) return Error("it cannot be read");
  return rows;
}

absl::Status JournalStore::Apply(absl::Span<const JournalChange> changes) {
  BATON_RETURN_IF_ERROR(Run("BEGIN IMMEDIATE"));
  for (const JournalChange& change : changes) {
    absl::Status written = Write(change);
    log_has_erased_ |= change.kind == JournalChange::Kind::kErase;
    if (written.ok()) continue;
    // SQLite itself may have ended the transaction.
    sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
    return written;
  }
  if (absl::Status committed = Run("COMMIT"); !committed.ok()) {
    sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
    return committed;
  }
  // The log still has what was erased, until it has gone to the file and begins anew. The changes stand also where that
  // does not work yet.
  if (log_has_erased_) log_has_erased_ = !Run("PRAGMA wal_checkpoint(TRUNCATE)").ok();
  return absl::OkStatus();
}

absl::Status JournalStore::Write(const JournalChange& change) {
  const std::string id = IdBytes(change.id);
  const char* sql = nullptr;
  switch (change.kind) {
    case JournalChange::Kind::kRequest:
      sql =
          "INSERT INTO jobs (id, request, runs, fingerprint, result, ended_unix_ms) VALUES (?1, ?2, 0, x'', x'', 0) "
          "ON CONFLICT DO NOTHING";
      break;
    case JournalChange::Kind::kFingerprint:
      sql = "UPDATE jobs SET fingerprint = ?2 WHERE id = ?1";
      break;
    case JournalChange::Kind::kResult:
      sql = "UPDATE jobs SET result = ?2, ended_unix_ms = ?3 WHERE id = ?1";
      break;
    case JournalChange::Kind::kErase:
      sql = "DELETE FROM jobs WHERE id = ?1";
      break;
  }
  Statement statement(db_, sql);
  statement.Bind(1, id);
  if (change.kind != JournalChange::Kind::kErase) statement.Bind(2, change.bytes);
  if (change.kind == JournalChange::Kind::kResult) statement.Bind(3, change.unix_ms);
  return statement.Step() == SQLITE_DONE ? absl::OkStatus() : Error("it cannot be written");
}

int64_t JournalStore::size_bytes() const {
  const absl::StatusOr<int64_t> pages = ReadNumber("PRAGMA page_count");
  const absl::StatusOr<int64_t> page_bytes = ReadNumber("PRAGMA page_size");
  return pages.ok() && page_bytes.ok() ? *pages * *page_bytes : 0;
}

absl::Status JournalStore::Run(const char* sql) {
  if (sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) == SQLITE_OK) return absl::OkStatus();
  return Error("it cannot be used");
}

absl::StatusOr<int64_t> JournalStore::ReadNumber(const char* sql) const {
  Statement statement(db_, sql);
  if (statement.Step() != SQLITE_ROW) return Error("it cannot be read");
  return statement.Number(0);
}

absl::Status JournalStore::Error(const char* doing) const {
  const std::string what = absl::StrCat("--state-dir: ", path_, ": ", doing, ": ", OneLine(sqlite3_errmsg(db_)), ": ");
  switch (sqlite3_errcode(db_) & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::FailedPreconditionError(absl::StrCat(what, "another router uses it: give each a folder of its own"));
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(absl::StrCat(what, "move the file away, with the jobs in it"));
    case SQLITE_FULL:
      return absl::ResourceExhaustedError(absl::StrCat(what, "make room on its disk, or keep jobs for a shorter time"));
    default:
      return absl::UnavailableError(absl::StrCat(what, "name a folder in which the router may write"));
  }
}

}  // namespace baton::router
