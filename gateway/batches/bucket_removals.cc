#include "gateway/batches/bucket_removals.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "conf/json_fields.h"
#include "conf/text.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/people/stored_json.h"
#include "gateway/store/kinds.h"

namespace gateway::batches {
namespace {

constexpr conf::Duration kLeastRemovalPause = std::chrono::seconds(1);
constexpr conf::Duration kMostRemovalPause = std::chrono::minutes(1);
constexpr conf::Duration kIdleRemovalPause = std::chrono::minutes(10);

}  // namespace

template <class O>
constexpr void Bind(O& o, BucketRemoval& removal) {
  o.Required("object", removal.object);
  o.Optional("decided", removal.decided);
  o.Optional("holder", removal.holder);
}

std::string EncodeRemoval(const BucketRemoval& removal) {
  return conf::ToJsonText(removal);
}

absl::StatusOr<BucketRemoval> DecodeRemoval(std::string_view json) {
  return ReadStored<BucketRemoval>("file_removal", json);
}

BucketRemovals::BucketRemovals(net::Loop& loop, store::Store& store, Bucket& bucket, const Sharing* sharing)
    : loop_(loop),
      store_(store),
      bucket_(bucket),
      sharing_(sharing),
      copy_(loop, store, kind(), DecodeRemoval, [] {}),
      pause_(loop.watchdog) {}

const char* BucketRemovals::kind() const {
  return sharing_ == nullptr ? store::kFileRemoval : store::kSharedFileRemoval;
}

bool BucketRemovals::IsDue(const std::string& id, const BucketRemoval& removal) const {
  if (held_.contains(id)) return false;
  return removal.decided || sharing_ == nullptr || removal.holder == sharing_->gateway ||
         !sharing_->lives(removal.holder);
}

void BucketRemovals::Begin() {
  loop_.tasks.Spawn(Run());
}

void BucketRemovals::Wake() {
  woken_ = true;
  pause_.Cancel();
}

void BucketRemovals::Stop() {
  stopped_ = true;
  copy_.Stop();
  pause_.Cancel();
}

net::Task<absl::Status> BucketRemovals::Hold(std::string id, std::string object) {
  if (removing_ == id) co_return absl::UnavailableError("an earlier object of the file is being removed");
  held_[id] = 0;
  absl::Status held = co_await copy_.CatchUp();
  if (const auto* const entry = copy_.Find(id); held.ok() && entry != nullptr) {
    // Of an upload that did not come to its end.
    const bool mine = sharing_ == nullptr || entry->value.holder == sharing_->gateway;
    if (entry->value.object == object && !entry->value.decided && mine) {
      held_[id] = entry->version;
      co_return held;
    }
    held = absl::UnavailableError("an earlier object of the file is to be removed");
  } else if (held.ok()) {
    std::vector<store::Write> writes;
    writes.push_back(store::Write::Create(
        kind(), id,
        EncodeRemoval(
            {.object = object, .decided = false, .holder = sharing_ == nullptr ? "" : sharing_->gateway})));
    held = (co_await store_.Commit(std::move(writes))).status();
    if (held.ok()) held = co_await copy_.CatchUp();
    const auto* const made = copy_.Find(id);
    if (held.ok() && made == nullptr) held = absl::UnavailableError("the store does not show it");
    if (held.ok()) held_[id] = made->version;
  }
  if (!held.ok()) Release(id);
  co_return held;
}

store::Write BucketRemovals::Forgetting(const std::string& id) const {
  // As it was then: a record that another gateway has decided about since refuses the commit.
  return {kind(), id, held_.at(id), std::nullopt};
}

void BucketRemovals::Release(const std::string& id) {
  held_.erase(id);
  Wake();
}

store::Write BucketRemovals::Noting(const std::string& id, const std::string& object) const {
  return store::Write::Create(kind(), id, EncodeRemoval({.object = object, .decided = true}));
}

net::Task<absl::Status> BucketRemovals::RemoveOne(std::string id) {
  const auto* entry = copy_.Find(id);
  if (entry == nullptr || held_.contains(id)) co_return absl::OkStatus();
  const std::string object = entry->value.object;
  if (!entry->value.decided) {
    std::vector<store::Write> decided;
    decided.push_back({kind(), id, entry->version, EncodeRemoval({.object = object, .decided = true})});
    absl::Status written = (co_await store_.Commit(std::move(decided))).status();
    const absl::Status current = co_await copy_.CatchUp();
    if (absl::IsAborted(written)) co_return current;  // it has become a file's
    if (written.ok()) written = current;
    if (!written.ok()) co_return written;
    entry = copy_.Find(id);
    if (entry == nullptr) co_return absl::OkStatus();
  }
  if (absl::Status removed = co_await bucket_.Remove(object); !removed.ok()) co_return removed;
  entry = copy_.Find(id);
  if (entry == nullptr) co_return absl::OkStatus();
  std::vector<store::Write> forgotten;
  forgotten.push_back({kind(), id, entry->version, std::nullopt});
  const absl::Status written = (co_await store_.Commit(std::move(forgotten))).status();
  const absl::Status current = co_await copy_.CatchUp();
  // Aborted: another gateway has removed it, too.
  co_return written.ok() || absl::IsAborted(written) ? current : written;
}

net::Task<void> BucketRemovals::Run() {
  conf::Duration pause = kLeastRemovalPause;
  while (!stopped_) {
    woken_ = false;
    absl::Status done = co_await copy_.CatchUp();
    std::vector<std::string> ids;
    for (const auto& [id, entry] : copy_.all()) {
      if (IsDue(id, entry.value)) ids.push_back(id);
    }
    for (const std::string& id : ids) {
      if (stopped_ || absl::IsUnavailable(done)) break;  // the rest would fail likewise
      removing_ = id;
      if (absl::Status one = co_await RemoveOne(id); !one.ok()) done = one;
      removing_.clear();
    }
    if (stopped_) co_return;
    if (done.ok()) {
      told_ = false;
      pause = kLeastRemovalPause;
      if (!woken_) co_await pause_.For(kIdleRemovalPause);
      continue;
    }
    if (!ids.empty() && !std::exchange(told_, true)) {
      log::Warn("objects of removed files are still in the bucket; retrying",
                {{"objects", ids.size()}, {"why", conf::Std(done.message())}});
    }
    co_await pause_.For(pause);
    pause = std::min(2 * pause, kMostRemovalPause);
  }
}

}  // namespace gateway::batches
