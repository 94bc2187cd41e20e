#include "gateway/control/fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace gateway::control {
namespace {

using scheduler::autoscale::ReplicaPhase;

constexpr std::string_view kPrefix = "r-";
constexpr size_t kMostOfModel = 40;  // characters, of a run's id

// As the launchers want ids: lower-case letters, digits, '.' and '-'.
std::string SlugOf(std::string_view model) {
  std::string slug;
  for (const char c : model.substr(0, kMostOfModel)) {
    if (c >= 'A' && c <= 'Z') {
      slug += static_cast<char>(c - 'A' + 'a');
    } else {
      slug += (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ? c : '-';
    }
  }
  return slug;
}

std::optional<ReplicaPhase> PhaseOf(State state) {
  switch (state) {
    case State::kWaiting:
      return ReplicaPhase::kUnplaced;
    case State::kLaunching:
    case State::kWarming:
      return ReplicaPhase::kPending;
    case State::kReady:
      return ReplicaPhase::kReady;
    case State::kDraining:
      return ReplicaPhase::kDraining;
    case State::kStopping:
      break;
  }
  return std::nullopt;
}

}  // namespace

bool IsReplicaRun(std::string_view run) {
  return run.starts_with(kPrefix);
}

Replica& Fleet::Add(std::string_view model, std::string why, conf::TimePoint now) {
  Replica& replica = replicas_.emplace_back();
  replica.id = ++last_id_;
  replica.model = model;
  // Never used again, by any process: microseconds, and more than the last.
  last_stamp_ = std::max(last_stamp_ + 1, conf::ToUnixMicros(now));
  replica.run = fmt::format("{}{}-{:x}", kPrefix, SlugOf(model), last_stamp_);
  replica.wanted = now;
  Enter(replica, State::kWaiting, std::move(why), now);
  return replica;
}

Replica& Fleet::Adopt(std::string run, std::string model, plugins::launchers::Grant grant,
                      conf::TimePoint since, conf::TimePoint now) {
  Replica& replica = replicas_.emplace_back();
  replica.id = ++last_id_;
  replica.run = std::move(run);
  replica.model = std::move(model);
  replica.grant = std::move(grant);
  replica.wanted = since;
  replica.launched = now;
  replica.submitted = replica.adopted = replica.asked = replica.started = true;
  Enter(replica, State::kLaunching, "it ran when this gateway started", now);
  return replica;
}

void Fleet::Remove(uint32_t id) {
  std::erase_if(replicas_, [id](const Replica& replica) { return replica.id == id; });
}

Replica* Fleet::Find(uint32_t id) {
  const auto found = std::ranges::find(replicas_, id, &Replica::id);
  return found == replicas_.end() ? nullptr : &*found;
}

Replica* Fleet::FindRun(std::string_view run) {
  const auto found = std::ranges::find(replicas_, run, &Replica::run);
  return found == replicas_.end() ? nullptr : &*found;
}

void Fleet::Enter(Replica& replica, State state, std::string why, conf::TimePoint now) {
  replica.state = state;
  replica.since = now;
  replica.why = std::move(why);
  replica.recorded = false;
  replica.next_step = {};
  replica.unpublished = {};
}

std::vector<scheduler::autoscale::ReplicaView> Fleet::Views(std::string_view model) const {
  std::vector<scheduler::autoscale::ReplicaView> views;
  views.reserve(replicas_.size());
  for (const Replica& replica : replicas_) {
    if (replica.model != model || replica.set_aside) continue;
    const std::optional<ReplicaPhase> phase = PhaseOf(replica.state);
    if (!phase) continue;
    const bool coming = *phase == ReplicaPhase::kPending;
    views.push_back({replica.id, *phase, coming ? replica.launched : replica.since, replica.in_flight()});
  }
  return views;
}

uint32_t Fleet::Count(std::string_view model, State state) const {
  return static_cast<uint32_t>(std::ranges::count_if(
      replicas_, [&](const Replica& replica) { return replica.model == model && replica.state == state; }));
}

}  // namespace gateway::control
