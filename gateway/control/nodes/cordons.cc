#include "gateway/control/nodes/cordons.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "conf/text.h"
#include "gateway/audit/recorded_change.h"
#include "gateway/log.h"
#include "gateway/store/kinds.h"

namespace gateway::control {
namespace {

// A cordon whose reason cannot be read still applies.
absl::StatusOr<Cordon> ReadStoredCordon(const std::string& id, const std::string& body) {
  absl::StatusOr<Cordon> cordon = ReadCordon(id, body);
  if (cordon.ok()) return cordon;
  const std::optional<Cordon> named = CordonOfId(id);
  if (!named) return cordon;
  log::Error("a stored cordon cannot be read",
             {{"cordon", id}, {"why", conf::Std(cordon.status().message())}});
  return *named;
}

}  // namespace

Cordons::Cordons(net::Loop& loop, store::Store& store, const Context& context)
    : context_(context),
      stored_(loop, store, store::kCordon, ReadStoredCordon, [this] { UpdatePlanner(); }) {}

net::Task<absl::Status> Cordons::Start() {
  if (started_) co_return absl::OkStatus();
  const absl::Status started = co_await stored_.Start();
  started_ = started.ok();
  co_return started;
}

void Cordons::UpdatePlanner() {
  context_.planning->UpdateCordons(all(), context_.now());
  context_.wake();
}

std::vector<Cordon> Cordons::all() const {
  std::vector<Cordon> all;
  all.reserve(stored_.all().size());
  for (const auto& [id, entry] : stored_.all()) all.push_back(entry.value);
  return all;
}

std::vector<std::string> Cordons::InWords() const {
  std::vector<std::string> sentences;
  sentences.reserve(stored_.all().size());
  for (const auto& [id, entry] : stored_.all())
    sentences.push_back(fmt::format("{} gets no new work: {}.", PlaceOf(entry.value), WhyOf(entry.value)));
  return sentences;
}

absl::Status Cordons::Check(const Cordon& cordon) const {
  const scheduler::Cluster& cluster = context_.cluster();
  const auto node = std::ranges::find(cluster.nodes, cordon.node, &scheduler::Node::name);
  if (node == cluster.nodes.end())
    return absl::NotFoundError(conf::Abseil(fmt::format("no node has the name \"{}\"", cordon.node)));
  const uint8_t devices = cluster.types[node->type].devices;
  if (!cordon.device || *cordon.device < devices) return absl::OkStatus();
  return absl::NotFoundError(conf::Abseil(devices == 0
                                              ? fmt::format("{} has no devices", cordon.node)
                                              : fmt::format("{} has the devices 0 to {}, and no device {}",
                                                            cordon.node, devices - 1, *cordon.device)));
}

net::Task<absl::Status> Cordons::Set(Cordon cordon) {
  if (absl::Status known = Check(cordon); !known.ok()) co_return known;
  ledger::Event event = EventOf(cordon.drains ? kDrainAction : kCordonAction, cordon);
  co_return co_await Commit(std::move(event), [this, cordon = std::move(cordon)] {
    const std::string id = IdOf(cordon);
    const auto* const there = stored_.Find(id);
    return std::optional(store::Write{.kind = store::kCordon,
                                      .id = id,
                                      .replaces = there == nullptr ? 0 : there->version,
                                      .body = BodyOf(cordon)});
  });
}

// Also for a node that is no longer in the cluster.
net::Task<absl::Status> Cordons::Lift(Cordon cordon) {
  const std::string id = IdOf(cordon);
  if (stored_.Find(id) == nullptr) {
    if (absl::Status known = Check(cordon); !known.ok()) co_return known;
    co_return absl::FailedPreconditionError(
        conf::Abseil(fmt::format("{} is not {}", PlaceOf(cordon), cordon.drains ? "drained" : "cordoned")));
  }
  ledger::Event event = EventOf(cordon.drains ? kUndrainAction : kUncordonAction, cordon);
  co_return co_await Commit(std::move(event), [this, id]() -> std::optional<store::Write> {
    const auto* const there = stored_.Find(id);
    if (there == nullptr) return std::nullopt;  // lifted meanwhile
    return store::Write{.kind = store::kCordon, .id = id, .replaces = there->version, .body = std::nullopt};
  });
}

net::Task<absl::Status> Cordons::Drain(Cordon cordon) {
  cordon.drains = true;
  return Set(std::move(cordon));
}

net::Task<absl::Status> Cordons::Undrain(Cordon cordon) {
  cordon.drains = true;
  if (const auto* const there = stored_.Find(IdOf(cordon)); there != nullptr && !there->value.drains)
    co_return absl::FailedPreconditionError(
        conf::Abseil(fmt::format("{} is cordoned, but not drained", PlaceOf(cordon))));
  co_return co_await Lift(std::move(cordon));
}

const Cordon* Cordons::Drains(const std::string& node) const {
  const auto* const there = stored_.Find(node);
  return there == nullptr || !there->value.drains ? nullptr : &there->value;
}

ledger::Event Cordons::EventOf(std::string_view action, const Cordon& cordon) const {
  ledger::Event event;
  event.kind = ledger::Kind::kAction;
  event.action = action;
  event.actor = cordon.by;
  event.subject = IdOf(cordon);
  event.detail = nlohmann::json{{"reason", cordon.reason}}.dump(-1, ' ', false,
                                                                nlohmann::json::error_handler_t::replace);
  return event;
}

net::Task<absl::Status> Cordons::Commit(ledger::Event event,
                                        std::function<std::optional<store::Write>()> write) {
  return CommitRecorded(stored_, context_.shared ? context_.epoch : 0, std::move(event), context_.record,
                        std::move(write));
}

}  // namespace gateway::control
