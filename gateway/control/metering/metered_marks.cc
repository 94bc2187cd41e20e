#include "gateway/control/metering/metered_marks.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "conf/text.h"
#include "gateway/store/kinds.h"

namespace gateway::control {
namespace {

using nlohmann::json;

constexpr std::string_view kIdleMark = "idle/";  // of the energy that nobody uses

std::string MarkIdOf(const std::string& model, const std::string& job, const std::string& device) {
  if (model.empty() && job.empty()) return fmt::format("{}{}", kIdleMark, device);
  return job.empty() ? fmt::format("replicas/{}/{}", model, device) : fmt::format("job/{}/{}", job, device);
}

}  // namespace

net::Task<absl::StatusOr<std::vector<ledger::LastHeld>>> MeteredMarks::Load() {
  const absl::StatusOr<store::Listing> listing = co_await store_.List(store::kMetered);
  if (!listing.ok()) co_return listing.status();
  marks_.clear();
  std::vector<ledger::LastHeld> last;
  for (const store::Object& object : listing->objects) {
    try {
      const json in = json::parse(object.body);
      ledger::LastHeld& held = last.emplace_back();
      held.model = in.at("model").get<std::string>();
      held.job = in.at("job").get<std::string>();
      held.device = in.at("device").get<std::string>();
      held.from_us = held.until_us = in.at("until_us").get<int64_t>();
      marks_[object.id] = {.version = object.version, .until_us = held.until_us};
    } catch (const std::exception& error) {
      co_return absl::DataLossError(
          conf::Abseil(fmt::format("{} {}: {}", object.kind, object.id, error.what())));
    }
  }
  known_ = true;
  co_return last;
}

net::Task<absl::Status> MeteredMarks::Announce(std::span<const ledger::DeviceRecord> records) {
  if (!known_) {
    if (absl::Status loaded = (co_await Load()).status(); !loaded.ok()) co_return loaded;
  }
  std::map<std::string, const ledger::DeviceRecord*> latest;
  for (const ledger::DeviceRecord& record : records) {
    const ledger::DeviceRecord*& of = latest[MarkIdOf(record.model, record.job, record.device)];
    if (of == nullptr || of->until_us < record.until_us) of = &record;
  }
  std::vector<store::Write> writes;
  for (const auto& [id, record] : latest) {
    const auto mark = marks_.find(id);
    if (mark != marks_.end() && mark->second.until_us >= record->until_us) continue;
    writes.push_back({.kind = store::kMetered,
                      .id = id,
                      .replaces = mark == marks_.end() ? 0 : mark->second.version,
                      .body = json{{"model", record->model},
                                   {"job", record->job},
                                   {"device", record->device},
                                   {"until_us", record->until_us}}
                                  .dump(-1, ' ', false, json::error_handler_t::replace)});
  }
  if (writes.empty()) co_return absl::OkStatus();
  std::vector<std::string> ids;
  for (const store::Write& write : writes) ids.push_back(write.id);
  const absl::StatusOr<store::Committed> committed = co_await store_.Commit(std::move(writes), epoch_);
  if (!committed.ok()) {
    if (absl::IsPermissionDenied(committed.status())) deposed_();
    known_ = false;
    co_return committed.status();
  }
  for (size_t i = 0; i < ids.size(); ++i)
    marks_[ids[i]] = {.version = committed->VersionOf(i), .until_us = latest[ids[i]]->until_us};
  co_return absl::OkStatus();
}

net::Task<absl::Status> MeteredMarks::KeepOnly(std::span<const HeldDevices> held) {
  std::set<std::string> kept;
  for (const HeldDevices& one : held) kept.insert(MarkIdOf(one.model, one.job, one.kind));
  for (const auto& [id, mark] : marks_) {
    if (id.starts_with(kIdleMark)) kept.insert(id);
  }
  std::vector<store::Write> writes;
  for (const auto& [id, mark] : marks_) {
    if (!kept.contains(id))
      writes.push_back({.kind = store::kMetered, .id = id, .replaces = mark.version, .body = std::nullopt});
  }
  if (writes.empty() || !known_) co_return absl::OkStatus();
  const absl::StatusOr<store::Committed> committed = co_await store_.Commit(std::move(writes), epoch_);
  if (committed.ok()) {
    std::erase_if(marks_, [&](const auto& mark) { return !kept.contains(mark.first); });
  } else {
    if (absl::IsPermissionDenied(committed.status())) deposed_();
    known_ = false;
  }
  co_return committed.status();
}

}  // namespace gateway::control
