// Download: one file from a URL to the disk, in as many attempts as it takes.
//
// A broken attempt is resumed where it stopped, also one of an earlier process: by Range and If-Range where the server
// gave a validator, and by Range alone where the file's digest is known, which reveals a changed file. `by_hash`
// continues the parts of another server; these have no validator. A server without ranges sends the whole file again.
// Attempts end when the server refuses, or after several attempts without a single new byte.
//
// Thread: the loop's of `web`; it blocks for the disk.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "plugins/weights/web.h"

namespace plugins::weights {

struct DownloadFile {
  WebRequest request{};
  std::string path{};              // where it goes; its folder is there
  std::string tag{};               // a file for the server's validator, beside it
  std::string name{};              // in messages
  std::string sha256{};            // hex; empty: not known before
  std::optional<uint64_t> size{};  // absent: not known
  bool by_hash = false;            // continued by the SHA-256 alone, which must be known
};

struct DownloadHooks {
  // The size of the whole is known now; an error ends the download.
  std::function<absl::Status(uint64_t size)> on_size = [](uint64_t) { return absl::OkStatus(); };
  // Bytes were added to the file, or (negative) thrown away; some may come from an earlier process.
  std::function<void(int64_t bytes)> on_bytes = [](int64_t) {};
  // Bytes came over the network; an error ends the download, and what is there stays.
  std::function<absl::Status(uint64_t bytes)> on_transfer = [](uint64_t) { return absl::OkStatus(); };
};

// The file's SHA-256; it is on the disk then. DataLoss: it is not the one that it should be, and was removed.
// ResourceExhausted: the disk is full.
gateway::net::Task<absl::StatusOr<std::string>> Download(Web& web, DownloadFile file, DownloadHooks hooks);

}  // namespace plugins::weights
