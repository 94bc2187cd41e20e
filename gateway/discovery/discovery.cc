#include "gateway/discovery/discovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "gateway/log.h"
#include "gateway/net/clock.h"

namespace gateway::discovery {
namespace {

// Tells apart all that makes other targets.
std::string KeyOf(const config::Discovery& of) {
  std::string key = fmt::format("{}|{}|{}", config::SourceOf(of), of.scheme, of.path);
  if (of.dns) key += fmt::format("|{}", of.dns->interval.count());
  return key;
}

}  // namespace

Discovery::Discovery(net::Loop& loop, MakeSource make, std::function<void()> changed)
    : Alarm(loop.watchdog), make_(std::move(make)), changed_(std::move(changed)) {}

Discovery::~Discovery() = default;

void Discovery::Configure(const Config& config) {
  if (&config != std::exchange(in_use_, &config)) made_.clear();
  std::map<std::string, std::pair<config::Discovery, std::set<std::string>>> wanted;
  for (const config::Model& model : config.models) {
    for (const config::Endpoint& endpoint : model.endpoints) {
      if (!endpoint.discovery) continue;
      auto& [of, models] = wanted[KeyOf(*endpoint.discovery)];
      of = *endpoint.discovery;
      models.insert(model.name);
    }
  }
  for (auto at = followed_.begin(); at != followed_.end();) {
    if (wanted.contains(at->first)) {
      ++at;
      continue;
    }
    at->second.source->Stop();
    at = followed_.erase(at);
  }
  for (const auto& [key, by] : wanted) {
    const auto [at, added] = followed_.try_emplace(key);
    Followed& follows = at->second;
    follows.status.models.assign(by.second.begin(), by.second.end());
    if (!added) continue;
    follows.of = by.first;
    follows.status.source = config::SourceOf(by.first);
    follows.source =
        make_(by.first, {.found = [this, key](Targets targets) { Found(key, std::move(targets)); },
                         .trouble = [this, key](std::string why) { Trouble(key, std::move(why)); }});
    follows.source->Start();
  }
}

void Discovery::Stop() {
  Clear();
  for (auto& [key, follows] : followed_) follows.source->Stop();
  followed_.clear();
}

void Discovery::Found(const std::string& key, Targets targets) {
  const auto at = followed_.find(key);
  if (at == followed_.end()) return;
  Followed& follows = at->second;
  const bool first = !std::exchange(follows.status.found, true);
  if (targets == follows.targets && !first) return;
  if (targets != follows.targets) {
    ++follows.status.changes;
    follows.status.changed_at = net::Now();
    log::Info("endpoints discovered", {{"source", follows.status.source},
                                       {"addresses", targets.size()},
                                       {"before", follows.targets.size()}});
  }
  follows.targets = std::move(targets);
  follows.status.addresses = follows.targets.size();
  if (!armed()) Set(std::max(net::Now(), told_at_ + kBatch));
}

void Discovery::Trouble(const std::string& key, std::string why) {
  const auto at = followed_.find(key);
  if (at == followed_.end() || at->second.status.trouble == why) return;
  Followed& follows = at->second;
  if (why.empty()) {
    log::Info("endpoints are discovered again", {{"source", follows.status.source}});
  } else {
    log::Warn("endpoints cannot be discovered; the last ones stay",
              {{"source", follows.status.source}, {"addresses", follows.targets.size()}, {"why", why}});
  }
  follows.status.trouble = std::move(why);
}

void Discovery::OnAlarm() {
  told_at_ = net::Now();
  changed_();
}

void Discovery::AddEndpoints(const config::Model& model, const Targets& targets, const config::Endpoint& from,
                             Made& known, std::vector<std::shared_ptr<const config::Endpoint>>& out) const {
  std::set<std::string> configured;
  for (const config::Endpoint& endpoint : model.endpoints) {
    if (!endpoint.discovery) configured.insert(ToString(endpoint.url));
  }
  std::set<std::string> there;
  for (const auto& endpoint : out) there.insert(ToString(endpoint->url));
  Made made;
  for (const config::Target& target : targets) {
    // One engine is one replica, in whatever ways it is found.
    const std::string url = ToString(target.url);
    if (configured.contains(url) || !there.insert(url).second) continue;
    const auto before = known.find(url);
    std::shared_ptr<const config::Endpoint> endpoint;
    if (before != known.end() && before->second->pod == target.pod &&
        before->second->authority == target.authority)
      endpoint = before->second;
    if (!endpoint) endpoint = std::make_shared<config::Endpoint>(config::DiscoveredEndpoint(from, target));
    made.emplace(url, endpoint);
    out.push_back(std::move(endpoint));
  }
  known = std::move(made);
}

Launched Discovery::Endpoints(const Config& config) const {
  Launched out;
  if (followed_.empty()) return out;
  const bool in_use = &config == in_use_;
  for (const config::Model& model : config.models) {
    for (const config::Endpoint& endpoint : model.endpoints) {
      if (!endpoint.discovery) continue;
      const auto follows = followed_.find(KeyOf(*endpoint.discovery));
      if (follows == followed_.end() || follows->second.targets.empty()) continue;
      Made other;
      Made& known = in_use ? made_[{model.name, endpoint.name}] : other;
      AddEndpoints(model, follows->second.targets, endpoint, known, out[model.name]);
    }
  }
  return out;
}

std::vector<SourceStatus> Discovery::status() const {
  std::vector<SourceStatus> out;
  out.reserve(followed_.size());
  for (const auto& [key, follows] : followed_) out.push_back(follows.status);
  return out;
}

}  // namespace gateway::discovery
