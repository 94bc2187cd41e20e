// BothCopies: the objects of this gateway alone, and those that all gateways of the store share, which are of
// another kind. T says by `shared` which one it is. No two have one id: ids are random.
//
// Owner: Files or StoredBatches. Thread: the loop's.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/net/loop.h"
#include "gateway/store/store.h"
#include "gateway/store/stored_copy.h"

namespace gateway::batches {

template <class T>
class BothCopies {
 public:
  using Copy = store::StoredCopy<T>;
  using Entry = typename Copy::Entry;
  struct Kinds {
    const char* own;
    const char* shared;
  };

  // `is_shared`: other gateways use the store; `told` is called after each change of a shared object.
  BothCopies(
      net::Loop& loop, store::Store& store, Kinds kinds, bool is_shared, typename Copy::DecodeBody decode,
      std::function<void()> told = [] {})
      : kinds_(kinds), own_(loop, store, kinds.own, decode, [] {}) {
    if (!is_shared) return;
    shared_.emplace(
        loop, store, kinds.shared,
        [decode](const std::string&, const std::string& body) {
          absl::StatusOr<T> value = decode(body);
          if (value.ok()) value->shared = true;
          return value;
        },
        std::move(told));
  }

  net::Task<absl::Status> Start() {
    if (absl::Status started = co_await own_.Start(); !started.ok() || !shared_) co_return started;
    co_return co_await shared_->Start();
  }
  net::Task<absl::Status> CatchUp() {
    if (absl::Status current = co_await own_.CatchUp(); !current.ok() || !shared_) co_return current;
    co_return co_await shared_->CatchUp();
  }
  net::Task<absl::Status> CatchUpShared() {
    if (!shared_) co_return absl::OkStatus();
    co_return co_await shared_->CatchUp();
  }
  void Stop() {
    own_.Stop();
    if (shared_) shared_->Stop();
  }

  // Null when there is none.
  const Entry* Find(std::string_view id) const {
    const Entry* const own = own_.Find(id);
    return own == nullptr && shared_ ? shared_->Find(id) : own;
  }
  // Until the next change.
  std::vector<const Entry*> all() const {
    std::vector<const Entry*> entries;
    entries.reserve(size());
    for (const auto& [id, entry] : own_.all()) entries.push_back(&entry);
    if (shared_) {
      for (const auto& [id, entry] : shared_->all()) entries.push_back(&entry);
    }
    return entries;
  }
  size_t size() const { return own_.all().size() + (shared_ ? shared_->all().size() : 0); }
  std::string KindOf(const T& value) const { return value.shared ? kinds_.shared : kinds_.own; }

 private:
  const Kinds kinds_;
  Copy own_;
  std::optional<Copy> shared_;
};

}  // namespace gateway::batches
