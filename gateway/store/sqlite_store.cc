#include "gateway/store/sqlite_store.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <coroutine>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "conf/shown.h"
#include "gateway/net/clock.h"

namespace gateway::store {
namespace {

constexpr conf::Duration kCheckInterval = std::chrono::milliseconds(50);
constexpr conf::Duration kFileCheckInterval = std::chrono::seconds(1);
constexpr conf::Duration kLeastPatience = std::chrono::milliseconds(1);

size_t BytesOf(const std::vector<Write>& writes) {
  size_t bytes = 0;
  for (const Write& write : writes) bytes += write.id.size() + (write.body ? write.body->size() : 0);
  return bytes;
}

class SqliteStore final : public Store {
 public:
  SqliteStore(net::Loop& loop, SqliteStoreOptions options, std::unique_ptr<SqliteFile> file, uint64_t last,
              int64_t data_version)
      : loop_(loop),
        options_(std::move(options)),
        file_(std::move(file)),
        told_(last),
        data_version_(data_version),
        thread_([this] { Run(); }) {}

  ~SqliteStore() override {
    {
      const std::scoped_lock lock(mutex_);
      closing_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  net::Task<absl::StatusOr<std::optional<Object>>> Get(std::string kind, std::string id) override {
    auto work = [&](SqliteFile& file) { return file.Get(kind, id); };
    co_return co_await Do(work, 0);
  }
  net::Task<absl::StatusOr<Listing>> List(std::string kind) override {
    auto work = [&](SqliteFile& file) { return file.List(kind); };
    co_return co_await Do(work, 0);
  }
  net::Task<absl::StatusOr<Listing>> ListPage(std::string kind, std::string after, size_t limit) override {
    auto work = [&](SqliteFile& file) { return file.ListPage(kind, after, limit); };
    co_return co_await Do(work, 0);
  }
  net::Task<absl::StatusOr<ChangeList>> Changes(std::string kind, uint64_t after) override {
    auto work = [&](SqliteFile& file) { return file.Changes(kind, after); };
    co_return co_await Do(work, 0);
  }
  net::Task<absl::StatusOr<Committed>> Commit(std::vector<Write> writes, uint64_t epoch) override {
    const size_t bytes = BytesOf(writes);
    auto work = [this, &writes, epoch](SqliteFile& file) {
      absl::StatusOr<Committed> committed = file.Commit(writes, epoch);
      if (committed.ok()) NotifyChange(committed->last);
      return committed;
    };
    co_return co_await Do(work, bytes);
  }

  net::Task<absl::StatusOr<Lead>> Campaign(std::string holder, std::string about,
                                           conf::Duration ttl) override {
    auto work = [&](SqliteFile& file) { return file.Campaign(holder, about); };
    absl::StatusOr<Lead> lead = co_await Do(work, 0);
    if (lead.ok()) lead->left = ttl;
    co_return lead;
  }
  net::Task<absl::StatusOr<Lead>> Leader() override {
    auto work = [](SqliteFile& file) { return file.Leader(); };
    co_return co_await Do(work, 0);
  }
  net::Task<absl::Status> SkipTo(uint64_t number) override {
    auto work = [number](SqliteFile& file) { return file.SkipTo(number); };
    co_return co_await Do(work, 0);
  }
  net::Task<absl::Status> Resign(std::string holder, uint64_t epoch) override {
    auto work = [&](SqliteFile& file) { return file.Resign(holder, epoch); };
    co_return co_await Do(work, 0);
  }

  void Add(Listener& listener) override {
    listeners_.push_back(&listener);
    SetFollowed();
  }
  void Remove(Listener& listener) override {
    std::erase(listeners_, &listener);
    SetFollowed();
  }

 private:
  struct Job {
    conf::TimePoint deadline;
    size_t bytes = 0;
    // Null: refused for waiting too long.
    std::function<void(SqliteFile*)> run;
  };

  // Suspends until the thread has done `work`, which lives in the awaiting frame.
  template <class Work>
  struct Operation {
    using Result = std::invoke_result_t<Work&, SqliteFile&>;
    SqliteStore& store;
    Work& work;
    size_t bytes;
    std::optional<Result> result = std::nullopt;

    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> waiter) {
      absl::Status queued = store.Enqueue(bytes, [this, waiter](SqliteFile* file) {
        if (file != nullptr) {
          result.emplace(work(*file));
        } else {
          result.emplace(absl::UnavailableError(
              fmt::format("{}: no answer within {}: the disk or another process delays it",
                          store.options_.file.path, conf::InWords(store.options_.patience))));
        }
        store.loop_.Post([waiter] { waiter.resume(); });
      });
      if (queued.ok()) return true;
      result.emplace(std::move(queued));
      return false;
    }
    Result await_resume() { return std::move(*result); }
  };

  template <class Work>
  Operation<Work> Do(Work& work, size_t bytes) {
    return Operation<Work>{*this, work, bytes};
  }

  absl::Status Enqueue(size_t bytes, std::function<void(SqliteFile*)> run) {
    {
      const std::scoped_lock lock(mutex_);
      const bool many = waiting_.size() >= options_.max_waiting;
      if (many || (waiting_bytes_ > 0 && waiting_bytes_ + bytes > options_.max_waiting_bytes)) {
        return absl::ResourceExhaustedError(fmt::format("{}: {} operations wait already; try again later",
                                                        options_.file.path, waiting_.size()));
      }
      waiting_.push_back({net::Now() + options_.patience, bytes, std::move(run)});
      waiting_bytes_ += bytes;
    }
    wake_.notify_one();
    return absl::OkStatus();
  }

  void SetFollowed() {
    {
      const std::scoped_lock lock(mutex_);
      followed_ = !listeners_.empty();
    }
    wake_.notify_one();
  }

  // The thread.
  void Run() {
    pthread_setname_np(pthread_self(), "store");
    std::unique_lock lock(mutex_);
    while (true) {
      const auto ready = [this] { return closing_ || !waiting_.empty(); };
      if (followed_) {
        wake_.wait_for(lock, kCheckInterval, ready);
      } else {
        wake_.wait(lock, [&] { return ready() || followed_; });
      }
      if (!waiting_.empty()) {
        Job job = std::move(waiting_.front());
        waiting_.pop_front();
        waiting_bytes_ -= job.bytes;
        lock.unlock();
        Execute(job);
        lock.lock();
      } else if (closing_) {
        return;
      }
      if (!followed_ || net::Now() < next_check_) continue;
      lock.unlock();
      CheckForChanges();
      lock.lock();
    }
  }

  void Execute(Job& job) {
    const conf::Duration left = job.deadline - net::Now();
    if (left <= conf::Duration::zero()) {
      job.run(nullptr);
      return;
    }
    file_->SetBusyTimeout(std::max(left, kLeastPatience));
    job.run(file_.get());
  }

  void CheckForChanges() {
    next_check_ = net::Now() + kCheckInterval;
    if (net::Now() >= next_file_check_) {
      next_file_check_ = net::Now() + kFileCheckInterval;
      in_place_ = file_->CheckInPlace();
    }
    const absl::StatusOr<int64_t> version = file_->DataVersion();
    absl::Status read = in_place_.ok() ? version.status() : in_place_;
    if (version.ok() && *version != data_version_) {
      const absl::StatusOr<uint64_t> last = file_->LastNumber();
      if (read.ok()) read = last.status();
      if (last.ok()) {
        data_version_ = *version;
        NotifyChange(*last);
      }
    }
    if (read.ok() != std::exchange(readable_, read.ok())) NotifyHealth(std::move(read));
  }

  void NotifyChange(uint64_t last) {
    if (last == told_) return;
    told_ = last;
    ToListeners([last](Listener& listener) { listener.OnChange(last); });
  }

  void NotifyHealth(absl::Status status) {
    ToListeners([status = std::move(status)](Listener& listener) { listener.OnHealth(status); });
  }

  template <class Fn>
  void ToListeners(Fn tell) {
    const std::weak_ptr<bool> alive = alive_;
    loop_.Post([this, alive, tell = std::move(tell)] {
      if (alive.expired()) return;
      const std::vector<Listener*> listeners = listeners_;
      for (Listener* listener : listeners) {
        if (std::find(listeners_.begin(), listeners_.end(), listener) != listeners_.end()) tell(*listener);
      }
    });
  }

  net::Loop& loop_;
  const SqliteStoreOptions options_;

  std::vector<Listener*> listeners_;  // the loop's
  // Expires with the store, which may go before the loop has run what was posted to it.
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);

  // The thread's, once it runs.
  std::unique_ptr<SqliteFile> file_;
  uint64_t told_;
  int64_t data_version_;
  conf::TimePoint next_check_{};
  conf::TimePoint next_file_check_{};
  absl::Status in_place_{};
  bool readable_ = true;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> waiting_;   // guarded by mutex_
  size_t waiting_bytes_ = 0;  // guarded by mutex_
  bool followed_ = false;     // guarded by mutex_
  bool closing_ = false;      // guarded by mutex_
  std::thread thread_;        // last: it uses all of the above
};

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> OpenSqliteStore(net::Loop& loop, SqliteStoreOptions options) {
  auto file = SqliteFile::Open(options.file);
  if (!file.ok()) return file.status();
  const absl::StatusOr<int64_t> version = (*file)->DataVersion();
  if (!version.ok()) return version.status();
  const absl::StatusOr<uint64_t> last = (*file)->LastNumber();
  if (!last.ok()) return last.status();
  return std::make_unique<SqliteStore>(loop, std::move(options), *std::move(file), *last, *version);
}

}  // namespace gateway::store
