#include "gateway/discovery/file_source.h"

#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "conf/text.h"
#include "gateway/net/files.h"
#include "gateway/net/off_loop.h"

namespace gateway::discovery {
namespace {

constexpr conf::Duration kEvery = std::chrono::milliseconds(500);
constexpr size_t kMaxBytes = 4 << 20;

int64_t Nanoseconds(const timespec& time) {
  return static_cast<int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

FileSource::FileSource(net::Loop& loop, config::Discovery discovery, Listener listener)
    : loop_(loop), discovery_(std::move(discovery)), listener_(std::move(listener)), pause_(loop.watchdog) {}

void FileSource::Start() {
  loop_.tasks.Spawn(Run(shared_from_this()));
}

void FileSource::Stop() {
  stopped_ = true;
  pause_.Cancel();
}

// A ConfigMap's file is a symbolic link, which comes to point to another file.
FileSource::Seen FileSource::ReadChanged(const std::string& path, const std::optional<Mark>& known) {
  Seen out;
  struct stat found{};
  const bool there = stat(path.c_str(), &found) == 0;
  const int error = errno;
  if (there) {
    out.mark = {found.st_dev, found.st_ino, found.st_size, Nanoseconds(found.st_ctim),
                Nanoseconds(found.st_mtim)};
  }
  if (known == out.mark) return out;
  out.text = there ? net::ReadFile(path, kMaxBytes)
                   : absl::StatusOr<std::string>(net::SystemError("open", path, error));
  return out;
}

net::Task<void> FileSource::Run(std::shared_ptr<FileSource> self) {
  const std::string& path = self->discovery_.file->path;
  while (!self->stopped_) {
    Seen seen =
        co_await net::OffLoop(self->loop_, [&path, known = self->mark_] { return ReadChanged(path, known); });
    if (self->stopped_) break;
    if (seen.text) {
      // A file that cannot be read is tried again, though it looks the same.
      self->mark_ = seen.text->ok() || seen.mark.size < 0 ? std::optional(seen.mark) : std::nullopt;
      absl::StatusOr<Targets> targets = seen.text->ok() ? ParseTargets(**seen.text, path, self->discovery_)
                                                        : absl::StatusOr<Targets>(seen.text->status());
      if (targets.ok()) {
        self->listener_.found(*std::move(targets));
        self->listener_.trouble({});
      } else {
        self->listener_.trouble(std::string(conf::Std(targets.status().message())));
      }
    }
    (void)co_await self->pause_.For(kEvery);
  }
}

}  // namespace gateway::discovery
