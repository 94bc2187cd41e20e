#include "plugins/launchers/kubernetes/runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace plugins::launchers::kubernetes {
namespace {

constexpr size_t kMostMessage = 500;

std::string Shortened(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  while (text.ends_with(' ') || text.ends_with('.')) text.pop_back();
  if (text.size() > kMostMessage) text = text.substr(0, kMostMessage) + "...";
  return text;
}

std::string WithMessage(std::string sentence, const std::string& message) {
  if (!message.empty()) sentence += ": " + Shortened(message);
  return sentence;
}

bool StartsWith(std::string_view text, std::string_view with) {
  return text.starts_with(with);
}

// A container that a signal ended has 128 and its number as its exit code.
constexpr int kSignalled = 128;
constexpr int kMostSignal = 64;

bool IsSignal(const Pod& pod) {
  return pod.exit_code && *pod.exit_code > kSignalled && *pod.exit_code <= kSignalled + kMostSignal &&
         pod.terminated_reason != "StartError" && pod.terminated_reason != "ContainerCannotRun";
}

}  // namespace

namespace {

// The last line of an output, which may have lines of progress before it.
std::string LastLineOf(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  const size_t line = text.rfind('\n');
  return std::string(line == std::string_view::npos ? text : text.substr(line + 1));
}

}  // namespace

std::string WhyWaiting(const Pod& pod) {
  if (pod.node.empty()) {
    if (pod.unscheduled.empty()) return {};
    return WithMessage("Kubernetes cannot place its pod", pod.unscheduled);
  }
  const std::string& reason = pod.waiting;
  if (reason == "ErrImagePull" || reason == "ImagePullBackOff" || reason == "ErrImageNeverPull" ||
      reason == "RegistryUnavailable" || reason == "ImageInspectError") {
    return WithMessage("its image cannot be pulled", pod.waiting_message);
  }
  if (reason == "InvalidImageName") return WithMessage("its image has no valid name", pod.waiting_message);
  if (reason == "CreateContainerConfigError")
    return WithMessage("its container cannot be set up as it is described", pod.waiting_message);
  if (reason == "CreateContainerError" || reason == "RunContainerError")
    return WithMessage("its container cannot be started", pod.waiting_message);
  if (reason.empty() || reason == "ContainerCreating" || reason == "PodInitializing") return {};
  return WithMessage(fmt::format("its container waits: {}", reason), pod.waiting_message);
}

std::string WhyEnded(const Pod& pod, bool told_to_stop) {
  if (StartsWith(pod.reason, "OutOf")) {
    return WithMessage(fmt::format("node {} refused its pod, because it had no {} left", pod.node,
                                   std::string_view(pod.reason).substr(5)),
                       pod.message);
  }
  if (pod.reason == "Evicted")
    return WithMessage(fmt::format("node {} evicted its pod", pod.node), pod.message);
  if (pod.reason == "DeadlineExceeded") return "it ran longer than its pod's limit of time";
  if (pod.reason == "NodeAffinity" || pod.reason == "NodeName")
    return WithMessage(fmt::format("node {} refused its pod", pod.node), pod.message);
  if (pod.reason == "Preempting" || pod.reason == "Preempted" || StartsWith(pod.disrupted, "Preemption"))
    return WithMessage("its pod was preempted by one of a higher priority", pod.message);
  if (pod.reason == "NodeLost") return fmt::format("its node {} is lost", pod.node);
  if (pod.reason == "Shutdown" || pod.reason == "NodeShutdown" || pod.reason == "Terminated")
    return WithMessage(fmt::format("its node {} is shutting down", pod.node), pod.message);
  if (pod.reason == "UnexpectedAdmissionError")
    return WithMessage(fmt::format("node {} could not give its devices", pod.node), pod.message);
  if (pod.terminated_reason == "OOMKilled")
    return "it used more memory than it was given, and was killed for it";
  if (pod.terminated_reason == "StartError" || pod.terminated_reason == "ContainerCannotRun")
    return WithMessage("its command cannot be started", pod.terminated_message);
  if (pod.disrupted == "EvictionByEvictionAPI") return "its pod was evicted, as a drain of its node does";
  if (pod.disrupted == "DeletionByTaintManager" || pod.disrupted == "DeletionByPodGC")
    return fmt::format("its pod was deleted because of its node {}", pod.node);
  if (!pod.disrupted.empty()) return fmt::format("its pod was disrupted: {}", pod.disrupted);
  if (pod.deleting && !told_to_stop)
    return "its pod was deleted by another: a drain of its node, a preemption or a person";
  if (!pod.reason.empty()) return WithMessage(fmt::format("its pod failed: {}", pod.reason), pod.message);
  if (!pod.weights_failure.empty())
    return WithMessage("its weights were not fetched", LastLineOf(pod.weights_failure));
  return {};
}

bool Runs::Update(Run& run, const Pod& pod, conf::TimePoint now) {
  RunStatus before = run.status;
  RunStatus& status = run.status;
  const bool was_waiting = run.waits_for_environment;
  const bool by_us = run.told_to_stop || run.signalled;
  run.uid = pod.uid;
  run.version = pod.version;
  run.gone = false;
  if (run.asked) run.stamp = ++stamp_;  // a list that was asked for before need not name it
  run.asked = run.creating = false;
  run.unanswered = 0;
  run.created = pod.created;
  run.host_network = pod.host_network;
  run.fetches = pod.fetches_weights;
  if (!pod.node.empty()) run.node = pod.node;
  run.unbound = pod.node.empty() && !pod.over() ? (pod.unscheduled.empty() ? "-" : pod.unscheduled) : "";
  run.waits_for_environment = pod.waiting == "CreateContainerConfigError";
  if (status.state == RunState::kEnded) return was_waiting != run.waits_for_environment;
  if (status.port != 0) status.host = pod.host_network ? pod.host_ip : pod.ip;
  if (pod.started) status.started = pod.started;
  if (pod.over() || pod.terminated) {
    status.state = RunState::kEnded;
    status.ended = pod.finished.value_or(now);
    // The times of containers have whole seconds.
    if (status.started && *status.ended < *status.started) status.ended = status.started;
    status.since = *status.ended;
    status.witness = pod.finished ? Witness::kManager : Witness::kLauncher;
    if (IsSignal(pod)) {
      status.signal = *pod.exit_code - kSignalled;
    } else if (pod.exit_code) {
      status.exit_code = pod.exit_code;
    }
    status.why = run.ended_by_us.empty() ? WhyEnded(pod, by_us) : run.ended_by_us;
    return true;
  }
  const RunState state = pod.deleting || (run.told_to_stop && pod.running) ? RunState::kStopping
                         : pod.running                                     ? RunState::kRunning
                                                                           : RunState::kStarting;
  if (state != status.state) {
    status.state = state;
    status.since = state == RunState::kRunning && pod.started ? *pod.started : now;
  }
  if (state != RunState::kStarting) status.witness = Witness::kManager;
  status.why = state == RunState::kStarting ? WhyWaiting(pod) : "";
  if (state == RunState::kStopping && !run.told_to_stop) status.why = WhyEnded(pod, by_us);
  return status.state != before.state || status.why != before.why || status.host != before.host;
}

bool Runs::Apply(const Pod& pod, conf::TimePoint now, Round* round) {
  if (!IsOurs(pod)) return false;
  if (round != nullptr) round->named.insert(pod.name);
  if (forgotten_.contains(pod.uid)) {
    if (pod.over()) {
      leftovers_.erase(pod.name);
    } else {
      leftovers_[pod.name] = pod;
    }
    return false;
  }
  auto found = runs_.find(pod.name);
  if (found == runs_.end()) {
    std::optional<Mark> mark = ReadMark(pod.mark);
    Run run;
    run.status.id = pod.name;
    run.status.since = pod.created;
    if (mark && mark->id == pod.name) {
      run.status.owner = std::move(mark->owner);
      run.status.port = mark->port;
      run.status.grant = std::move(mark->grant);
    } else {
      run.status.orphan = true;
    }
    run.stamp = ++stamp_;
    found = runs_.emplace(pod.name, std::move(run)).first;
    Update(found->second, pod, now);
    return true;
  }
  // Another pod of this name: ours was deleted, and another user has created one.
  if (!found->second.uid.empty() && found->second.uid != pod.uid) return false;
  if (pod.version < found->second.version) return false;  // of another list or watch, and older
  return Update(found->second, pod, now);
}

std::vector<std::string> Runs::Listed(const Round& round, conf::TimePoint now) {
  std::vector<std::string> changed;
  std::vector<std::string> never_made;
  for (auto& [id, run] : runs_) {
    const bool unanswered = run.asked && !run.creating && run.unanswered != 0;
    if (unanswered && run.unanswered < round.stamp && !round.named.contains(id)) {
      run.unanswered = 0;
      run.gone = true;
      if (!run.told_to_stop) never_made.push_back(id);
      if (run.status.state == RunState::kEnded) continue;
      End(id, "", now);
      changed.push_back(id);
      continue;
    }
    if (round.named.contains(id) || run.asked || run.gone || run.uid.empty() || run.stamp > round.stamp)
      continue;
    run.gone = true;
    run.unbound.clear();
    if (run.status.state == RunState::kEnded) continue;
    const bool by_us = run.told_to_stop || run.signalled;
    End(id, by_us ? "" : "its pod is gone: it was deleted by another", now);
    changed.push_back(id);
  }
  for (const std::string& id : never_made) runs_.erase(id);
  std::erase_if(leftovers_, [&](const auto& left) { return !round.named.contains(left.first); });
  return changed;
}

bool Runs::Deleted(const Pod& pod, conf::TimePoint now) {
  if (!IsOurs(pod)) return false;
  leftovers_.erase(pod.name);
  if (forgotten_.erase(pod.uid) > 0) return false;
  const auto found = runs_.find(pod.name);
  if (found == runs_.end() || (!found->second.uid.empty() && found->second.uid != pod.uid)) return false;
  Run& run = found->second;
  Update(run, pod, now);
  run.gone = true;
  run.unbound.clear();
  if (run.status.state == RunState::kEnded) return true;
  std::string why = WhyEnded(pod, run.told_to_stop || run.signalled);
  End(pod.name, std::move(why), now);
  return true;
}

const Runs::Run* Runs::Find(const std::string& id) const {
  const auto found = runs_.find(id);
  return found == runs_.end() ? nullptr : &found->second;
}

std::vector<RunStatus> Runs::List() const {
  std::vector<RunStatus> all;
  all.reserve(runs_.size());
  for (const auto& [id, run] : runs_) all.push_back(run.status);
  return all;
}

uint16_t Runs::PickPort(const std::string& id, const std::string& address) const {
  std::set<uint16_t> taken;
  for (const auto& [other, run] : runs_) {
    const bool there = run.host_network && run.status.host == address && run.status.state != RunState::kEnded;
    if (there && other != id) taken.insert(run.status.port);
  }
  return ports_.Pick(id, taken);
}

void Runs::Ask(const RunSpec& spec, const std::string& host, uint16_t port, bool host_network, bool equipped,
               conf::TimePoint now) {
  Run run;
  run.asked = run.creating = true;
  run.equipped = equipped;
  run.host_network = host_network;
  run.node = spec.grant.node;
  run.created = now;
  run.status.id = spec.id;
  run.status.owner = spec.owner;
  run.status.host = host;
  run.status.port = port;
  run.status.since = now;
  run.status.grant = spec.grant;
  runs_[spec.id] = std::move(run);
}

void Runs::AskAgain(const std::string& id) {
  const auto found = runs_.find(id);
  if (found != runs_.end()) found->second.creating = true;
}

void Runs::Created(const std::string& id, const std::string& uid, bool equipped) {
  const auto found = runs_.find(id);
  if (found == runs_.end()) return;
  found->second.asked = found->second.creating = false;
  found->second.unanswered = 0;
  found->second.equipped = equipped;
  found->second.stamp = ++stamp_;
  if (found->second.uid.empty()) found->second.uid = uid;
}

void Runs::Refused(const std::string& id) {
  const auto found = runs_.find(id);
  if (found == runs_.end() || !found->second.asked) return;
  found->second.creating = false;
  if (found->second.unanswered == 0) runs_.erase(found);
}

void Runs::NotOurs(const std::string& id) {
  runs_.erase(id);
}

void Runs::Unanswered(const std::string& id) {
  const auto found = runs_.find(id);
  if (found == runs_.end() || !found->second.asked) return;
  found->second.creating = false;
  found->second.unanswered = ++stamp_;
}

void Runs::Signalled(const std::string& id) {
  const auto found = runs_.find(id);
  if (found == runs_.end()) return;
  found->second.signalled = true;
  // News of the deletion may have come before its answer.
  if (found->second.status.state == RunState::kStopping) found->second.status.why.clear();
}

void Runs::Equipped(const std::string& id) {
  const auto found = runs_.find(id);
  if (found == runs_.end()) return;
  found->second.equipped = true;
  found->second.waits_for_environment = false;
}

bool Runs::Moving() const {
  return std::ranges::any_of(runs_, [](const auto& run) {
    const RunState state = run.second.status.state;
    return state == RunState::kStarting || state == RunState::kStopping;
  });
}

bool Runs::AnyUnanswered() const {
  return std::ranges::any_of(runs_,
                             [](const auto& run) { return run.second.asked && run.second.unanswered != 0; });
}

void Runs::ToldToStop(const std::string& id, conf::TimePoint now) {
  const auto found = runs_.find(id);
  if (found == runs_.end()) return;
  Run& run = found->second;
  run.told_to_stop = true;
  run.doomed |= run.uid.empty();
  run.status.why.clear();
  if (run.status.state == RunState::kEnded || run.status.state == RunState::kStopping) return;
  run.status.state = RunState::kStopping;
  run.status.since = now;
}

void Runs::Forget(const std::string& id) {
  const auto found = runs_.find(id);
  if (found == runs_.end()) return;
  if (!found->second.gone && !found->second.uid.empty()) forgotten_.insert(found->second.uid);
  runs_.erase(found);
}

void Runs::End(const std::string& id, std::string why, conf::TimePoint ended) {
  const auto found = runs_.find(id);
  if (found == runs_.end() || found->second.status.state == RunState::kEnded) return;
  Run& run = found->second;
  run.ended_by_us = why;
  RunStatus& status = run.status;
  status.state = RunState::kEnded;
  status.ended = status.started ? std::max(ended, *status.started) : ended;
  status.since = *status.ended;
  status.witness = Witness::kLauncher;
  status.why = std::move(why);
}

}  // namespace plugins::launchers::kubernetes
