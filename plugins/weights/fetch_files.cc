#include "plugins/weights/fetch_files.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "gateway/net/files.h"
#include "gateway/net/loop.h"
#include "plugins/weights/copy.h"
#include "plugins/weights/digest.h"
#include "plugins/weights/download.h"

namespace plugins::weights {
namespace {

// What the threads share.
class SharedFetch {
 public:
  SharedFetch(const FilePlan& plan, const FileSteps& steps) : plan_(plan), steps_(steps) {
    files_.resize(plan.files.size());
    sizes_.resize(plan.files.size());
    for (size_t i = 0; i < plan.files.size(); ++i) {
      files_[i].path = plan.files[i].path;
      sizes_[i] = plan.files[i].size.value_or(0);
      total_ += sizes_[i];
    }
  }

  // One thread's.
  void Work() {
    gateway::net::Loop loop([](const std::exception_ptr& error) { std::rethrow_exception(error); });
    Web web(loop, steps_.web);
    for (size_t i = next_++; i < plan_.files.size() && !stopped_; i = next_++) {
      absl::StatusOr<std::string> sha256 = One(web, loop, i);
      if (sha256.ok()) {
        files_[i].sha256 = *std::move(sha256);
      } else {
        Stop(sha256.status());
      }
    }
    const std::scoped_lock lock(mutex_);
    --working_;
    changed_.notify_all();
  }

  // The caller's thread.
  absl::StatusOr<FetchedFiles> Run() {
    const size_t count = std::clamp<size_t>(plan_.files.size(), 1, steps_.connections);
    working_ = count;
    std::vector<std::jthread> threads;
    threads.reserve(count);
    for (size_t i = 0; i < count; ++i) threads.emplace_back([this] { Work(); });
    while (true) {
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(lock, steps_.report_every, [this] { return working_ == 0; })) break;
      const uint64_t of = total_;
      lock.unlock();
      steps_.report(bytes(), of);
    }
    threads.clear();
    if (!failure_.ok()) return failure_;
    return FetchedFiles{std::move(files_), bytes(), transferred_};
  }

 private:
  absl::StatusOr<std::string> One(Web& web, gateway::net::Loop& loop, size_t index) {
    const PlannedFile& file = plan_.files[index];
    const std::string path = steps_.folder + "/" + file.path;
    DownloadHooks hooks;
    hooks.on_size = [this, index](uint64_t size) { return NoteSize(index, size); };
    hooks.on_bytes = [this](int64_t bytes) { bytes_ += bytes; };
    hooks.on_transfer = [this](uint64_t bytes) {
      transferred_ += bytes;
      return stopped_ ? absl::CancelledError("another file failed") : absl::OkStatus();
    };
    if (!file.from.starts_with("http://") && !file.from.starts_with("https://"))
      return CopyHashed(file.from, path, hooks);
    DownloadFile download{.request = {.url = file.from, .credentials = plan_.credentials},
                          .path = path,
                          .tag = steps_.tags + "/" + Sha256Hex(file.path),
                          .name = ShownUrl(file.from),
                          .sha256 = file.sha256,
                          .size = file.size};
    return gateway::net::Await(loop, Download(web, std::move(download), std::move(hooks)));
  }

  absl::Status NoteSize(size_t index, uint64_t size) {
    const std::scoped_lock lock(mutex_);
    if (size <= sizes_[index]) return absl::OkStatus();
    total_ += size - sizes_[index];
    sizes_[index] = size;
    return steps_.make_room(total_);
  }

  void Stop(const absl::Status& why) {
    const std::scoped_lock lock(mutex_);
    stopped_ = true;
    if (failure_.ok() || absl::IsCancelled(failure_)) failure_ = why;
  }

  uint64_t bytes() const { return static_cast<uint64_t>(std::max<int64_t>(bytes_, 0)); }

  const FilePlan& plan_;
  const FileSteps& steps_;
  std::atomic<size_t> next_{0};
  std::atomic<bool> stopped_{false};
  std::atomic<int64_t> bytes_{0};
  std::atomic<uint64_t> transferred_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t working_ = 0;
  uint64_t total_ = 0;
  std::vector<uint64_t> sizes_;
  std::vector<ListedFile> files_;  // each is one thread's
  absl::Status failure_;
};

}  // namespace

absl::StatusOr<FetchedFiles> FetchFiles(const FilePlan& plan, const FileSteps& steps) {
  namespace fs = std::filesystem;
  for (const PlannedFile& file : plan.files) {
    const std::string folder = fs::path(steps.folder + "/" + file.path).parent_path().string();
    if (absl::Status made = gateway::net::MakeDirectories(folder, 0775); !made.ok()) return made;
  }
  if (absl::Status made = gateway::net::MakeDirectories(steps.tags, 0770); !made.ok()) return made;
  absl::StatusOr<FetchedFiles> fetched = SharedFetch(plan, steps).Run();
  if (!fetched.ok()) return fetched;
  // The names, too.
  std::error_code error;
  for (fs::recursive_directory_iterator walk(steps.folder, error);
       !error && walk != fs::recursive_directory_iterator(); walk.increment(error)) {
    if (!walk->is_directory()) continue;
    if (absl::Status synced = gateway::net::SyncDirectory(walk->path().string()); !synced.ok()) return synced;
  }
  if (absl::Status synced = gateway::net::SyncDirectory(steps.folder); !synced.ok()) return synced;
  return fetched;
}

}  // namespace plugins::weights
