#include "plugins/weights/fetch_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
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

// The state that the threads share.
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
    Web near(loop, steps_.neighbours_web);
    for (size_t i = next_++; i < plan_.files.size() && !stopped_; i = next_++) {
      absl::StatusOr<std::string> sha256 = FromNeighbours(near, loop, i);
      if (absl::IsNotFound(sha256.status())) sha256 = FromSource(web, loop, i);
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
    return FetchedFiles{std::move(files_), bytes(), transferred_, near_};
  }

 private:
  std::string PathOf(size_t index) const { return steps_.folder + "/" + plan_.files[index].path; }

  DownloadHooks HooksOf(size_t index) {
    DownloadHooks hooks;
    hooks.on_size = [this, index](uint64_t size) { return NoteSize(index, size); };
    hooks.on_bytes = [this](int64_t bytes) { bytes_ += bytes; };
    hooks.on_transfer = [this](uint64_t bytes) {
      transferred_ += bytes;
      return stopped_ ? absl::CancelledError("another file failed") : absl::OkStatus();
    };
    return hooks;
  }

  DownloadFile DownloadOf(size_t index, WebRequest request) const {
    return {.request = std::move(request),
            .path = PathOf(index),
            .tag = steps_.tags + "/" + Sha256Hex(plan_.files[index].path),
            .name = {},
            .sha256 = plan_.files[index].sha256,
            .size = std::nullopt};
  }

  // NotFound: no neighbour sends it, so that the source is to be asked.
  absl::StatusOr<std::string> FromNeighbours(Web& near, gateway::net::Loop& loop, size_t index) {
    Neighbours* const neighbours = steps_.neighbours;
    const auto next = [&](size_t from) {
      return neighbours == nullptr || stopped_ ? std::nullopt : neighbours->Next(from);
    };
    for (std::optional<size_t> at = next(0); at; at = next(*at + 1)) {
      DownloadFile download = DownloadOf(index, neighbours->RequestFor(*at, plan_.files[index].sha256));
      download.name = fmt::format("{} of {}", plan_.files[index].path, ShownUrl(download.request.url));
      download.by_hash = true;
      // Only a manifest's digest covers sizes.
      if (plan_.digest == DigestOf::kManifest) download.size = plan_.files[index].size;
      DownloadHooks hooks = HooksOf(index);
      hooks.on_transfer = [this, at, ours = hooks.on_transfer](uint64_t bytes) {
        near_ += bytes;
        if (steps_.neighbours->IsWrong(*at)) return absl::AbortedError("it sent wrong bytes of another file");
        return ours(bytes);
      };
      const absl::StatusOr<std::string> sha256 =
          gateway::net::Await(loop, Download(near, std::move(download), std::move(hooks)));
      const absl::Status& why = sha256.status();
      if (sha256.ok() || absl::IsCancelled(why) || absl::IsResourceExhausted(why)) return sha256;
      neighbours->Leave(*at, why);
      if (!neighbours->IsWrong(*at)) {
        PutDown(index);
      } else if (absl::Status dropped = Drop(index); !dropped.ok()) {
        return dropped;
      }
    }
    return absl::NotFoundError("no neighbour is left");
  }

  // The next place continues it, and counts again what is there.
  void PutDown(size_t index) {
    std::error_code error;
    const uintmax_t size = std::filesystem::file_size(PathOf(index), error);
    if (!error) bytes_ -= static_cast<int64_t>(size);
  }

  // Discards the bytes of the file so far.
  absl::Status Drop(size_t index) {
    PutDown(index);
    return gateway::net::RemoveFile(PathOf(index));
  }

  absl::StatusOr<std::string> FromSource(Web& web, gateway::net::Loop& loop, size_t index) {
    const PlannedFile& file = plan_.files[index];
    absl::StatusOr<PlannedFile> place = file;
    std::shared_ptr<Credentials> credentials = plan_.credentials;
    if (steps_.neighbours != nullptr) {
      place = AtSource(index, credentials);
      if (!place.ok()) return place.status();
    }
    if (place->from.starts_with("http://") || place->from.starts_with("https://")) {
      DownloadFile download = DownloadOf(index, {.url = place->from, .credentials = std::move(credentials)});
      download.name = ShownUrl(place->from);
      download.size = place->size;
      return gateway::net::Await(loop, Download(web, std::move(download), HooksOf(index)));
    }
    absl::StatusOr<std::string> sha256 = CopyHashed(place->from, PathOf(index), HooksOf(index));
    if (!sha256.ok() || file.sha256.empty() || *sha256 == file.sha256) return sha256;
    // It may have begun with what a neighbour sent.
    if (absl::Status dropped = Drop(index); !dropped.ok()) return dropped;
    return CopyHashed(place->from, PathOf(index), HooksOf(index));
  }

  // Where the source has a file of a neighbour's plan.
  absl::StatusOr<PlannedFile> AtSource(size_t index, std::shared_ptr<Credentials>& credentials) {
    const std::scoped_lock lock(source_mutex_);
    if (!source_) source_ = steps_.source_plan();
    if (!source_->ok()) return source_->status();
    const FilePlan& source = **source_;
    credentials = source.credentials;
    const auto found = plan_.digest == DigestOf::kFile
                           ? source.files.begin()
                           : std::ranges::find(source.files, plan_.files[index].path, &PlannedFile::path);
    if (found != source.files.end()) return *found;
    return absl::DataLossError(fmt::format("the source lacks {}, which belongs to the weights of this digest",
                                           plan_.files[index].path));
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
  std::atomic<uint64_t> near_{0};  // of these, from neighbours
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t working_ = 0;
  uint64_t total_ = 0;
  std::vector<uint64_t> sizes_;
  std::vector<ListedFile> files_;  // each is one thread's
  absl::Status failure_;
  std::mutex source_mutex_;
  std::optional<absl::StatusOr<FilePlan>> source_;  // once it was asked for
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
