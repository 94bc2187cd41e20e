#include "gateway/admin/read_records.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "conf/json_dump.h"

namespace gateway::admin {
namespace {

// Where a reader is in what it reads.
bool IsPlace(const std::string& parameter) {
  constexpr std::string_view kPlaces[] = {"from", "from_seq", "limit", "bytes", "after"};
  return std::ranges::find(kPlaces, parameter) != std::end(kPlaces);
}

}  // namespace

void ReadRecords::Note(const Route& route, const Call& call) {
  nlohmann::ordered_json detail = nlohmann::ordered_json::object();
  for (const auto& [name, value] : call.query) {
    if (!IsPlace(name)) detail[name] = value;
  }
  ledger::Event event;
  event.kind = ledger::Kind::kAdmin;
  event.action = route.read;
  event.actor = call.caller.actor;
  event.subject = call.item;
  event.detail = conf::DumpJson(detail);
  std::string thing = event.actor + '\n' + event.action + '\n' + event.subject + '\n' + event.detail;
  const auto found = recent_.find(thing);
  if (found != recent_.end() && call.now - found->second < kWindow) return;
  if (found == recent_.end() && recent_.size() >= kMaxRecent) {
    recent_.erase(std::ranges::min_element(recent_, {}, [](const auto& entry) { return entry.second; }));
  }
  recent_[std::move(thing)] = call.now;
  operations_.record(std::move(event));
}

}  // namespace gateway::admin
