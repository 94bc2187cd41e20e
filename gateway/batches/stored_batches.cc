#include "gateway/batches/stored_batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "conf/text.h"
#include "gateway/api/error.h"
#include "gateway/log.h"
#include "gateway/store/kinds.h"

namespace gateway::batches {
namespace {

constexpr conf::Duration kChangePause = std::chrono::seconds(1);

api::ApiError NoBatch(std::string_view id) {
  return api::Make(api::Code::kNotFound, fmt::format("there is no batch {}", id), "batch_id");
}

std::string BatchDetail(const Batch& batch) {
  return nlohmann::ordered_json{{"endpoint", batch.endpoint},          {"input_file", batch.input_file},
                                {"state", NameOf(batch.state)},        {"total", batch.counts.total},
                                {"completed", batch.counts.completed}, {"failed", batch.counts.failed},
                                {"input_tokens", batch.usage.input},   {"output_tokens", batch.usage.output}}
      .dump();
}

}  // namespace

StoredBatches::StoredBatches(net::Loop& loop, store::Store& store, Files& files,
                             std::function<void()> changed)
    : loop_(loop),
      store_(store),
      files_(files),
      copy_(loop, store, {store::kBatch, store::kSharedBatch}, files.sharing().shared(), DecodeBatch,
            std::move(changed)) {}

void StoredBatches::Stop() {
  stopped_ = true;
  copy_.Stop();
}

const Batch* StoredBatches::Find(std::string_view id) const {
  const auto* const entry = copy_.Find(id);
  return entry == nullptr ? nullptr : &entry->value;
}

std::vector<const Batch*> StoredBatches::OfTenant(std::string_view tenant) const {
  std::vector<const Batch*> batches;
  for (const auto* const entry : copy_.all()) {
    if (entry->value.tenant == tenant) batches.push_back(&entry->value);
  }
  std::ranges::sort(batches, [](const Batch* a, const Batch* b) {
    return std::pair(a->created, a->id) > std::pair(b->created, b->id);
  });
  return batches;
}

net::Task<absl::Status> StoredBatches::Commit(const Batch& batch, uint64_t replaces, std::string_view action,
                                              std::string actor, std::vector<store::Write> also) {
  std::vector<store::Write> writes = std::move(also);
  writes.push_back({copy_.KindOf(batch), batch.id, replaces, EncodeBatch(batch)});
  if (!action.empty()) writes.push_back(EventFor(action, actor, batch.id, batch.tenant, BatchDetail(batch)));
  const absl::Status committed = (co_await store_.Commit(std::move(writes))).status();
  const absl::Status current = co_await copy_.CatchUp();
  co_return committed.ok() ? current : committed;
}

net::Task<absl::Status> StoredBatches::Claim(std::string id) {
  const auto* const entry = copy_.Find(id);
  if (entry == nullptr || HasEnded(entry->value.state)) co_return absl::NotFoundError("it has ended");
  Batch claimed = entry->value;
  const bool taken_over = !IsRunHere(claimed);
  if (taken_over) ++claimed.epoch;
  claimed.runner = files_.sharing().gateway;
  claimed.paused.clear();
  // Written also if nothing changes: the write is refused if another gateway has taken it meanwhile.
  co_return co_await Commit(claimed, entry->version, taken_over ? "batch.take_over" : "", "control", {});
}

net::Task<absl::Status> StoredBatches::ChangeRun(std::string id, uint64_t epoch,
                                                 std::function<bool(Batch&)> edit,
                                                 std::vector<store::Write> also) {
  const auto* const entry = copy_.Find(id);
  if (entry == nullptr || HasEnded(entry->value.state) || !IsRunHere(entry->value) ||
      entry->value.epoch != epoch)
    co_return absl::PermissionDeniedError("another gateway runs this batch now, or it has ended");
  Batch changed = entry->value;
  if (!edit(changed)) co_return absl::AbortedError("the batch has changed");
  co_return co_await Commit(changed, entry->version, "", "control", std::move(also));
}

net::Task<bool> StoredBatches::Change(std::string id, std::function<void(Batch&)> edit,
                                      std::string_view action, std::vector<store::Write> also) {
  bool told = false;
  while (!stopped_) {
    const auto* const entry = copy_.Find(id);
    if (entry == nullptr) co_return false;
    // A commit whose outcome was not known has come to pass.
    if (HasEnded(entry->value.state)) co_return IsRunHere(entry->value);
    if (!IsRunHere(entry->value)) co_return false;
    Batch changed = entry->value;
    edit(changed);
    const absl::Status committed = co_await Commit(changed, entry->version, action, "control", also);
    if (committed.ok()) co_return true;
    // Aborted: it was cancelled meanwhile.
    if (!absl::IsAborted(committed) && !std::exchange(told, true)) {
      log::Error("a batch cannot be written to the store; retrying",
                 {{"batch", id}, {"why", conf::Std(committed.message())}});
    }
    net::Sleep pause(loop_.watchdog);
    co_await pause.For(kChangePause);
  }
  co_return false;
}

net::Task<Result<Batch>> StoredBatches::Create(Creation creation, uint32_t most_active, conf::TimePoint now) {
  const Principal& principal = *creation.principal;
  const std::optional<router::Api> api = ApiOf(creation.endpoint);
  if (!api || (*api == router::Api::kMessages && !creation.lines)) {
    co_return api::Make(
        api::Code::kInvalidValue,
        "endpoint must be /v1/chat/completions, /v1/completions, /v1/embeddings or /v1/responses",
        "endpoint");
  }
  if (const auto family = config::FamilyOf(*api); family && !principal.apis.Has(*family)) {
    co_return api::Make(api::Code::kPermissionDenied,
                        fmt::format("this key may not use {}", creation.endpoint), "endpoint");
  }
  const StoredFile* const input = files_.Find(principal.tenant, creation.input_file, now);
  if (input == nullptr) {
    co_return api::Make(api::Code::kNotFound, fmt::format("there is no file {}", creation.input_file),
                        "input_file_id");
  }
  if (input->purpose != Purpose::kBatch) {
    co_return api::Make(api::Code::kInvalidValue,
                        fmt::format("the file {} was not uploaded with the purpose batch", input->id),
                        "input_file_id");
  }
  const bool shared = input->shared;
  const absl::StatusOr<ledger::ContentKeyRef> key = co_await files_.KeyFor(principal.tenant, shared);
  if (!key.ok()) co_return ErrorOf(key.status());
  size_t active = 0;
  std::vector<const BothCopies<Batch>::Entry*> ended;
  for (const auto* const entry : copy_.all()) {
    if (entry->value.tenant != principal.tenant) continue;
    HasEnded(entry->value.state) ? ended.push_back(entry) : static_cast<void>(++active);
  }
  if (active >= most_active) {
    co_return api::Make(
        api::Code::kTooManyBatches,
        fmt::format("your tenant has {} batches that have not ended, which is the limit", active));
  }
  Batch batch{.id = NewId(*api == router::Api::kMessages ? "msgbatch_" : "batch_"),
              .tenant = principal.tenant,
              .key = principal.key,
              .endpoint = creation.endpoint,
              .input_file = creation.input_file,
              .output_file = NewId("file-"),
              .error_file = NewId("file-"),
              .sealed_by = *key == nullptr ? std::string() : (*key)->id(),
              .state = BatchState::kValidating,
              .created = now,
              .expires = now + *conf::ParseDuration(creation.window),
              .window = creation.window,
              .in_progress = {},
              .cancelling = {},
              .finalizing = {},
              .ended = {},
              .counts = {},
              .usage = {},
              .metadata = std::move(creation.metadata),
              .output_age = creation.output_age,
              .problems = {},
              .shared = shared};
  if (shared && files_.shares()) {
    batch.runner = files_.sharing().gateway;
    batch.epoch = 1;
  }
  if (creation.lines) {
    batch.state = BatchState::kInProgress;
    batch.in_progress = now;
    batch.counts.total = *creation.lines;
  }
  std::vector<store::Write> also;
  if (active + ended.size() >= kMostStored && !ended.empty()) {
    const auto* const oldest =
        *std::ranges::min_element(ended, {}, [](const auto* entry) { return entry->value.created; });
    also.push_back({copy_.KindOf(oldest->value), oldest->value.id, oldest->version, std::nullopt});
  }
  const absl::Status created = co_await Commit(batch, 0, "batch.create", batch.key, std::move(also));
  if (!created.ok()) co_return ErrorOf(created);
  co_return batch;
}

net::Task<Result<Batch>> StoredBatches::Cancel(std::string tenant, std::string id, std::string key,
                                               conf::TimePoint now) {
  while (true) {
    const auto* const entry = copy_.Find(id);
    if (entry == nullptr || entry->value.tenant != tenant) co_return NoBatch(id);
    if (entry->value.state == BatchState::kCancelling) co_return entry->value;
    if (HasEnded(entry->value.state)) {
      co_return api::Make(api::Code::kConflict,
                          fmt::format("the batch is {} already", NameOf(entry->value.state)));
    }
    Batch changed = entry->value;
    changed.state = BatchState::kCancelling;
    changed.cancelling = now;
    const absl::Status committed = co_await Commit(changed, entry->version, "batch.cancel", key, {});
    if (absl::IsAborted(committed)) continue;  // it has gone on meanwhile
    if (!committed.ok()) co_return ErrorOf(committed);
    co_return changed;
  }
}

net::Task<Result<Batch>> StoredBatches::Delete(std::string tenant, std::string id, std::string key) {
  const auto* const entry = copy_.Find(id);
  if (entry == nullptr || entry->value.tenant != tenant) co_return NoBatch(id);
  if (!HasEnded(entry->value.state)) {
    co_return api::Make(api::Code::kConflict,
                        fmt::format("the batch is {}; cancel it, and delete it when it has ended",
                                    NameOf(entry->value.state)));
  }
  const Batch batch = entry->value;
  std::vector<store::Write> writes;
  writes.push_back({copy_.KindOf(batch), id, entry->version, std::nullopt});
  writes.push_back(EventFor("batch.delete", key, id, tenant, BatchDetail(batch)));
  absl::Status deleted = (co_await store_.Commit(std::move(writes))).status();
  if (deleted.ok()) deleted = co_await copy_.CatchUp();
  if (!deleted.ok()) co_return ErrorOf(deleted);
  co_return batch;
}

std::optional<std::string> StoredBatches::UserOf(std::string_view file) const {
  for (const auto* const entry : copy_.all()) {
    if (!HasEnded(entry->value.state) && entry->value.input_file == file) return entry->value.id;
  }
  return std::nullopt;
}

bool StoredBatches::NeededHere(std::string_view file) const {
  return std::ranges::any_of(copy_.all(), [&](const auto* entry) {
    const Batch& batch = entry->value;
    return !HasEnded(batch.state) && batch.input_file == file && IsRunHere(batch);
  });
}

std::set<std::string> StoredBatches::UsedFiles() const {
  std::set<std::string> used;
  for (const auto* const entry : copy_.all()) {
    const Batch& batch = entry->value;
    if (HasEnded(batch.state)) continue;
    used.insert({batch.input_file, batch.output_file, batch.error_file});
    if (!batch.shared || !IsRunHere(batch)) continue;
    for (const std::string& file : {batch.output_file, batch.error_file})
      used.insert(Files::RunNameOf(file, batch.epoch));
  }
  return used;
}

net::Task<void> StoredBatches::Sweep(conf::TimePoint now) {
  std::vector<std::string> old;
  for (const auto* const entry : copy_.all()) {
    if (entry->value.ended && now >= *entry->value.ended + files_.max_age()) old.push_back(entry->value.id);
  }
  for (const std::string& id : old) {
    const auto* const entry = copy_.Find(id);
    if (entry == nullptr) continue;
    std::vector<store::Write> writes;
    writes.push_back({copy_.KindOf(entry->value), id, entry->version, std::nullopt});
    const absl::Status removed = (co_await store_.Commit(std::move(writes))).status();
    // Aborted: another gateway was faster.
    if ((!removed.ok() && !absl::IsAborted(removed)) || !(co_await copy_.CatchUp()).ok()) co_return;
  }
}

}  // namespace gateway::batches
