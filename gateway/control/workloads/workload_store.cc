#include "gateway/control/workloads/workload_store.h"

#include <algorithm>
#include <utility>

#include "gateway/api/coded_status.h"
#include "gateway/audit/stored_events.h"
#include "gateway/store/kinds.h"

namespace gateway::control {
namespace {

constexpr size_t kMaxWrites = 16'384;                  // that wait for each other
constexpr size_t kMostInWrite = 16'384;                // objects
constexpr size_t kMostBytesAtOnce = size_t{32} << 20;  // of them

}  // namespace

WorkloadStore::WorkloadStore(store::Store& store, const scheduler::Cluster& cluster, Fence fence)
    : store_(store), cluster_(cluster), fence_(std::move(fence)), writes_(kMaxWrites) {}

net::Task<absl::StatusOr<KnownWorkloads>> WorkloadStore::Load() {
  const absl::StatusOr<store::Listing> workloads = co_await store_.List(store::kWorkload);
  if (!workloads.ok()) co_return workloads.status();
  const absl::StatusOr<store::Listing> submissions = co_await store_.List(store::kSubmission);
  if (!submissions.ok()) co_return submissions.status();
  versions_.clear();
  for (const auto* listing : {&*workloads, &*submissions}) {
    for (const store::Object& object : listing->objects) versions_[{object.kind, object.id}] = object.version;
  }
  versions_known_ = true;
  co_return ReadWorkloads(workloads->objects, submissions->objects, cluster_);
}

void WorkloadStore::Enqueue(Key key, std::optional<std::string> body) {
  waiting_[std::move(key)] = std::move(body);
  ++put_;
}

void WorkloadStore::Put(const Workload& workload) {
  Enqueue({store::kWorkload, workload.id}, BodyOf(workload, cluster_));
}

void WorkloadStore::Put(const Submission& submission) {
  Enqueue({store::kSubmission, submission.id}, BodyOf(submission));
  Enqueue({store::kSubmission, kLastSubmission}, BodyOfLast(submission.number));
}

void WorkloadStore::Remove(const Workload& workload) {
  Enqueue({store::kWorkload, workload.id}, std::nullopt);
}

void WorkloadStore::Remove(const Submission& submission) {
  Enqueue({store::kSubmission, submission.id}, std::nullopt);
}

std::string WorkloadStore::Put(ledger::Event event) {
  store::Write write = StoredEvent(std::move(event));
  Enqueue({write.kind, write.id}, std::move(write.body));
  return write.id;
}

// A written event needs no second write: the ledger has it, or gets it.
void WorkloadStore::RemoveEvent(const std::string& id) {
  waiting_.erase(Key(store::kLedgerEvent, id));
}

std::optional<uint64_t> WorkloadStore::VersionOf(const Workload& workload) const {
  const Key key(store::kWorkload, workload.id);
  const auto version = versions_.find(key);
  if (waiting_.contains(key) || version == versions_.end()) return std::nullopt;
  return version->second;
}

net::Task<absl::Status> WorkloadStore::Flush() {
  const uint64_t mine = put_;
  if (written_ >= mine) co_return absl::OkStatus();
  absl::Status written;
  if (co_await writes_.Lock()) {
    while (written_ < mine && written.ok()) written = co_await Write();
    writes_.Unlock();
  } else {
    written = absl::ResourceExhaustedError("too many writes wait for the store");
  }
  co_return api::WithCode(std::move(written), api::Code::kStoreUnavailable);
}

// As many waiting objects as one transaction may have: submissions first, since workloads name them.
net::Task<absl::Status> WorkloadStore::Write() {
  if (!versions_known_) {
    if (absl::Status read = co_await ReadVersions(); !read.ok()) co_return read;
  }
  const uint64_t covers = put_;
  std::vector<store::Write> writes;
  std::vector<Key> keys;
  size_t bytes = 0;
  bool all = true;
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    const auto version = versions_.find(at->first);
    if (!at->second && version == versions_.end()) {
      at = waiting_.erase(at);
      continue;
    }
    bytes += at->second ? at->second->size() : 0;
    if (!writes.empty() && (writes.size() >= kMostInWrite || bytes > kMostBytesAtOnce)) {
      all = false;
      break;
    }
    writes.push_back({.kind = at->first.first,
                      .id = at->first.second,
                      .replaces = version == versions_.end() ? 0 : version->second,
                      .body = at->second});
    keys.push_back(at->first);
    ++at;
  }
  if (writes.empty()) {
    written_ = std::max(written_, covers);
    co_return absl::OkStatus();
  }
  // Objects that are put during this write wait for the next one.
  std::map<Key, std::optional<std::string>> taken;
  for (const Key& key : keys) taken.insert(waiting_.extract(key));
  const absl::StatusOr<store::Committed> committed = co_await store_.Commit(std::move(writes), fence_.epoch);
  if (!committed.ok()) {
    if (absl::IsPermissionDenied(committed.status())) fence_.deposed();
    versions_known_ = !absl::IsUnknown(committed.status()) && !absl::IsAborted(committed.status());
    waiting_.merge(taken);
    co_return committed.status();
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].first == store::kLedgerEvent) continue;  // it is the ledger's now
    if (taken[keys[i]]) {
      versions_[keys[i]] = committed->VersionOf(i);
    } else {
      versions_.erase(keys[i]);
    }
  }
  if (all) written_ = std::max(written_, covers);
  co_return absl::OkStatus();
}

net::Task<absl::Status> WorkloadStore::ReadVersions() {
  std::map<Key, uint64_t> versions;
  for (const char* kind : {store::kWorkload, store::kSubmission}) {
    const absl::StatusOr<store::Listing> listing = co_await store_.List(kind);
    if (!listing.ok()) co_return listing.status();
    for (const store::Object& object : listing->objects) versions[{object.kind, object.id}] = object.version;
  }
  // Events of a write whose answer was lost.
  const absl::StatusOr<store::Listing> events = co_await store_.List(store::kLedgerEvent);
  if (!events.ok()) co_return events.status();
  for (const store::Object& object : events->objects) RemoveEvent(object.id);
  versions_ = std::move(versions);
  versions_known_ = true;
  co_return absl::OkStatus();
}

}  // namespace gateway::control
