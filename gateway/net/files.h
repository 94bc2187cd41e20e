// Files on the local disk: read whole under a bound, replaced as a whole, created and removed durably. Every
// room that keeps state in files uses these helpers, so that a crash at any point leaves the old content or
// the new.
//
// All calls block: use them before the loop runs, on a thread of their own or through OffLoop. Errors name
// the file and the system's reason: "cannot open /var/lib/tidegate/lock: Permission denied".
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "gateway/net/fd.h"

namespace gateway::net {

// "cannot ACTION PATH: the text of `error`".
absl::Status SystemError(std::string_view action, std::string_view path, int error);
// Whether that error was that the disk, or the user's part of it, has no room.
bool IsDiskFull(const absl::Status& status);

// Adds O_CLOEXEC. A new file gets `mode` less the umask.
absl::StatusOr<Fd> OpenFile(const std::string& path, int flags, mode_t mode = 0640);
absl::StatusOr<uint64_t> FileSize(int fd, std::string_view path);

// The whole content of a regular file; a file of more than `max_bytes` is an error. The content is in one
// buffer that was never copied, so that the caller can wipe a secret.
absl::StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes);
// From the current position to the end, also of a pipe; `path` is for messages.
absl::StatusOr<std::string> ReadAll(int fd, std::string_view path, size_t max_bytes);
// Fills `out` from `offset` on; fewer bytes only at the file's end. Returns their number.
absl::StatusOr<size_t> ReadAt(int fd, std::string_view path, uint64_t offset, std::span<char> out);
// At the current position. After an error a part may be written.
absl::Status WriteAll(int fd, std::string_view path, std::string_view content);

// Creates or empties the file, writes it and syncs it; follows no symbolic link. After an error the file is
// removed.
absl::Status WriteFile(const std::string& path, std::string_view content, mode_t mode = 0640);
// Durable when it returns. Replaces an existing file `to`.
absl::Status RenameFile(const std::string& from, const std::string& to);
// AlreadyExists, and nothing done, where there is a `to`. Not durable: SyncParent makes it so.
absl::Status RenameToFree(const std::string& from, const std::string& to);
// Replaces `path` through `path`.new: a reader sees the old content or the new. Durable when it returns;
// after an error the old content is unchanged.
absl::Status ReplaceFile(const std::string& path, std::string_view content, mode_t mode = 0640);
// A file that does not exist is no error. Not durable: a removed file may come back after a power cut.
absl::Status RemoveFile(const std::string& path);

// Makes the names in a folder durable.
absl::Status SyncDirectory(const std::string& directory);
// Syncs the folder that holds `path`.
absl::Status SyncParent(const std::string& path);
// Makes the folder and its missing parents, durably.
absl::Status MakeDirectories(const std::string& directory, mode_t mode = 0750);

}  // namespace gateway::net
