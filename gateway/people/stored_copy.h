// A copy in memory of one kind of stored object, decoded. It follows the store. An object that cannot be read has
// no effect: the log says so, and a change of it waits for the version that wrote it.
//
// Owner: who uses the copy. Thread: the loop's.
#pragma once

#include <absl/status/statusor.h>

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

namespace gateway {

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
  using Decode = absl::StatusOr<T> (*)(std::string_view json);

  // `loop` and `store` must outlive it; `told` is called after each change.
  StoredCopy(net::Loop& loop, store::Store& store, std::string kind, Decode decode,
             std::function<void()> told)
      : kind_(std::move(kind)),
        decode_(decode),
        told_(std::move(told)),
        follower_(loop, store, kind_,
                  {.replace = [this](const std::vector<store::Object>& all) { Replace(all); },
                   .apply = [this](const std::vector<store::Change>& changes) { Apply(changes); }}) {}

  net::Task<absl::Status> Start() { return follower_.Start(); }
  net::Task<absl::Status> CatchUp() { return follower_.CatchUp(); }
  void Stop() { follower_.Stop(); }

  // By id.
  const Entries& all() const { return all_; }
  // Null when there is none.
  const Entry* Find(std::string_view id) const {
    const auto it = all_.find(id);
    return it == all_.end() ? nullptr : &it->second;
  }

 private:
  void Replace(const std::vector<store::Object>& all) {
    all_.clear();
    for (const store::Object& object : all) Take(object.id, object.version, object.body);
    told_();
  }
  void Apply(const std::vector<store::Change>& changes) {
    for (const store::Change& change : changes) {
      if (change.body) {
        Take(change.id, change.number, *change.body);
      } else {
        all_.erase(change.id);
      }
    }
    told_();
  }
  void Take(const std::string& id, uint64_t version, const std::string& body) {
    absl::StatusOr<T> value = decode_(body);
    if (value.ok()) {
      all_.insert_or_assign(id, Entry{*std::move(value), version});
      return;
    }
    all_.erase(id);
    log::Error("a stored object cannot be read and has no effect",
               {{"kind", kind_}, {"id", id}, {"why", conf::Std(value.status().message())}});
  }

  const std::string kind_;
  const Decode decode_;
  const std::function<void()> told_;
  Entries all_;
  store::Follower follower_;
};

}  // namespace gateway
