// The file under the key store: one event a line, appended, never rewritten.
//
//   {"event":7,"kind":"revoked","at":"...","id":"...","sum":"0123456789abcdef"}
//
// `sum` is the first 8 bytes of SHA-256 over the text before `,"sum"`. Numbers run 1, 2, 3, ...; a line that
// is changed, missing or out of place is an error that names it, and nothing after it is believed.
//
// Several processes may write: each append takes flock(LOCK_EX), reads what others appended, writes one line
// and syncs it. An append that fails is taken back before the lock is released. A last line that a crashed
// writer left unfinished (no newline, or bytes that never reached the disk) was never acknowledged; it is
// moved to `<path>.torn-<event>` and an event says so. Any other damage is the operator's to decide.
//
// Thread: one at a time (KeyStore holds a mutex). Blocks on the disk, and for up to 5 s on another's lock.
#pragma once

#include <absl/functional/function_ref.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "conf/time.h"
#include "plugins/auth/key_record.h"

namespace plugins::auth {

class KeyLog {
 public:
  // Called with each event in order. An error stops the reading before that event.
  using Sink = absl::FunctionRef<absl::Status(const KeyEvent&)>;
  // Called under the lock, when all events have been read; makes the next one (its number is set by the log).
  using Make = absl::FunctionRef<absl::StatusOr<KeyEvent>()>;

  static constexpr size_t kMaxLineBytes = 256 * 1024;
  static constexpr uint64_t kMaxFileBytes = uint64_t{256} << 20;

  // Creates the file, 0600, when there is none; refuses one that others may read.
  static absl::StatusOr<std::unique_ptr<KeyLog>> Open(std::string path);
  ~KeyLog();
  KeyLog(const KeyLog&) = delete;
  KeyLog& operator=(const KeyLog&) = delete;

  // Whether the file on disk may hold what was not read yet. One stat call.
  bool Changed() const;

  // Hands on what was appended since the last call. `now` dates a tail_moved event.
  absl::Status Read(conf::TimePoint now, Sink sink);

  // Reads, makes, writes, syncs, and hands the new event on.
  absl::Status Append(conf::TimePoint now, Sink sink, Make make);

  // Up to `limit` events numbered above `after`, all of them read before.
  absl::StatusOr<std::vector<KeyEvent>> EventsSince(uint64_t after, size_t limit) const;

  uint64_t last_event() const { return offsets_.size() - 1; }
  const std::string& path() const { return path_; }

 private:
  KeyLog(std::string path, int fd, struct stat opened);

  absl::Status Lock(int operation);
  absl::Status CheckSameFile(struct stat* now) const;
  // Requires a lock. Sets *torn when an unfinished line stands at the end.
  absl::Status ReadLocked(Sink sink, bool* torn);
  absl::Status MoveTornTail(conf::TimePoint now, Sink sink);
  absl::Status WriteLine(KeyEvent event, Sink sink);
  absl::Status Damaged(std::string_view what) const;

  const std::string path_;
  const int fd_;
  struct stat seen_;               // as of the last complete read
  std::vector<uint64_t> offsets_;  // [n] is where event n ends and event n + 1 begins; [0] is 0
  bool broken_ = false;            // an append could be neither finished nor taken back
};

}  // namespace plugins::auth
