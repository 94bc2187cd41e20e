// FileSource: a list of addresses in a file. Checks the file twice a second and reads it when it has changed. While
// the file cannot be read or is not valid, the last valid list stays.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "gateway/discovery/source.h"
#include "gateway/net/loop.h"
#include "gateway/net/watchdog.h"

namespace gateway::discovery {

class FileSource final : public Source, public std::enable_shared_from_this<FileSource> {
 public:
  FileSource(net::Loop& loop, config::Discovery discovery, Listener listener);

  void Start() override;
  void Stop() override;

 private:
  // What tells one content from the next without reading it.
  struct Mark {
    uint64_t device = 0;
    uint64_t inode = 0;
    int64_t size = -1;  // no file
    int64_t changed = 0;
    int64_t modified = 0;
    friend bool operator==(const Mark&, const Mark&) = default;
  };
  struct Seen {
    Mark mark;
    std::optional<absl::StatusOr<std::string>> text{};  // nothing: as before
  };

  static net::Task<void> Run(std::shared_ptr<FileSource> self);
  static Seen ReadChanged(const std::string& path, const std::optional<Mark>& known);  // blocks

  net::Loop& loop_;
  const config::Discovery discovery_;
  const Listener listener_;
  net::Sleep pause_;
  std::optional<Mark> mark_;
  bool stopped_ = false;
};

}  // namespace gateway::discovery
