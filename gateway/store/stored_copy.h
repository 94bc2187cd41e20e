// A copy in memory of one kind of stored object, decoded. It follows the store. An object that cannot be read has
// no effect: the log says so, and a change of it waits for the version that wrote it.
//
// Owner: the reader of the objects. Thread: the loop's.
#pragma once

#include <absl/status/statusor.h>
#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conf/text.h"
#include "gateway/log.h"
#include "gateway/net/loop.h"
#include "gateway/store/follower.h"
#include "gateway/store/store.h"

namespace gateway::store {

// How often a change is tried when others change the same objects at the same time.
inline constexpr int kChangeAttempts = 5;

template <class T>
class StoredCopy {
 public:
  struct Entry {
    T value;
    uint64_t version = 0;
  };
  using Entries = std::map<std::string, Entry, std::less<>>;
  using Decode = std::function<absl::StatusOr<T>(const std::string& id, const std::string& body)>;
  using DecodeBody = absl::StatusOr<T> (*)(std::string_view json);

  // `loop` and `store` must outlive it; `told` is called after each change.
  StoredCopy(net::Loop& loop, Store& store, std::string kind, DecodeBody decode, std::function<void()> told)
      : StoredCopy(
            loop, store, std::move(kind),
            [decode](const std::string&, const std::string& body) { return decode(body); }, std::move(told)) {
  }
  StoredCopy(net::Loop& loop, Store& store, std::string kind, Decode decode, std::function<void()> told)
      : store_(store),
        kind_(std::move(kind)),
        decode_(std::move(decode)),
        told_(std::move(told)),
        follower_(loop, store, kind_,
                  {.replace = [this](const std::vector<Object>& all) { Replace(all); },
                   .apply = [this](const std::vector<Change>& changes) { Apply(changes); }}) {}

  net::Task<absl::Status> Start() { return follower_.Start(); }
  net::Task<absl::Status> CatchUp() { return follower_.CatchUp(); }
  void Stop() { follower_.Stop(); }
  // No read of the store is under way after Stop().
  bool idle() const { return follower_.idle(); }

  // For the leader of that epoch (0: no other gateway may lead): durable and in the copy after Ok. Unavailable:
  // another change came first, or another gateway leads; and the store's errors.
  net::Task<absl::Status> Commit(std::vector<Write> writes, uint64_t epoch) {
    const absl::StatusOr<Committed> committed = co_await store_.Commit(std::move(writes), epoch);
    if (absl::IsAborted(committed.status())) {
      co_return absl::UnavailableError(
          conf::Abseil(fmt::format("another change of this {} came first; try again", kind_)));
    }
    if (absl::IsPermissionDenied(committed.status()))
      co_return absl::UnavailableError("another gateway leads now; try again");
    if (!committed.ok()) co_return committed.status();
    co_return co_await follower_.CatchUp();
  }

  // By id.
  const Entries& all() const { return all_; }
  // Null when there is none.
  const Entry* Find(std::string_view id) const {
    const auto it = all_.find(id);
    return it == all_.end() ? nullptr : &it->second;
  }

 private:
  void Replace(const std::vector<Object>& all) {
    all_.clear();
    for (const Object& object : all) Take(object.id, object.version, object.body);
    told_();
  }
  void Apply(const std::vector<Change>& changes) {
    for (const Change& change : changes) {
      if (change.body) {
        Take(change.id, change.number, *change.body);
      } else {
        all_.erase(change.id);
      }
    }
    told_();
  }
  void Take(const std::string& id, uint64_t version, const std::string& body) {
    absl::StatusOr<T> value = decode_(id, body);
    if (value.ok()) {
      all_.insert_or_assign(id, Entry{*std::move(value), version});
      return;
    }
    all_.erase(id);
    log::Error("a stored object cannot be read and has no effect",
               {{"kind", kind_}, {"id", id}, {"why", conf::Std(value.status().message())}});
  }

  Store& store_;
  const std::string kind_;
  const Decode decode_;
  const std::function<void()> told_;
  Entries all_;
  Follower follower_;
};

}  // namespace gateway::store
