#include "gateway/control/scaling/scaled_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "conf/text.h"
#include "gateway/config/sources.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/net/watchdog.h"
#include "plugins/kubernetes/access.h"
#include "plugins/kubernetes/scale.h"

namespace gateway::control {
namespace {

namespace kubernetes = plugins::kubernetes;
using nlohmann::json;

constexpr conf::Duration kReadScalesEvery = std::chrono::seconds(5);
constexpr conf::Duration kAfterError = std::chrono::seconds(2);
constexpr conf::Duration kWishHolds = std::chrono::seconds(2);
constexpr int kTries = 5;           // after conflicts, in a row
constexpr size_t kMostCosts = 128;  // pods told before one scale-down

}  // namespace

struct ScaledModels::Followed {
  Followed(net::Loop& loop, std::string of, config::ScaleTarget at)
      : model(std::move(of)), target(std::move(at)), law(target.hold), pause(loop.watchdog) {}

  std::string Object() const { return fmt::format("{} {}", kubernetes::Name(target.kind), target.name); }

  const std::string model;
  const config::ScaleTarget target;
  ScaleLaw law;
  std::string version;  // of the object, as seen last
  uint32_t wish = 0;
  std::string why;
  conf::TimePoint wished_at{};
  conf::TimePoint read_at{};
  std::string trouble;
  std::map<std::string, uint32_t> costs;  // told, by pod
  bool may_tell_costs = true;
  net::Sleep pause;
  bool stopped = false;
};

ScaledModels::ScaledModels(net::Loop& loop, Environment env) : loop_(loop), env_(std::move(env)) {}
ScaledModels::~ScaledModels() = default;

void ScaledModels::Configure(const Config& config) {
  if (closing_) return;
  std::map<std::string, config::ScaleTarget> wanted;
  if (config.scaling) {
    for (const config::ModelPolicy& policy : config.scaling->models) {
      if (policy.scale) wanted.emplace(policy.model(), *policy.scale);
    }
  }
  for (auto at = followed_.begin(); at != followed_.end();) {
    const auto stays = wanted.find(at->first);
    if (stays != wanted.end() && stays->second == at->second->target) {
      ++at;
      continue;
    }
    at->second->stopped = true;
    at->second->pause.Cancel();
    at = followed_.erase(at);
  }
  if (!wanted.empty() && !client_) {
    kubernetes::Place place;
    if (config.kubernetes)
      place = {config.kubernetes->kubeconfig, config.kubernetes->context, config.kubernetes->name_space};
    client_ = std::make_unique<kubernetes::Client>(
        loop_, [place] { return kubernetes::ReadAccess(place, SystemSources()); },
        static_cast<uint64_t>(net::Now().time_since_epoch().count()));
  }
  for (auto& [model, target] : wanted) {
    const auto [at, added] = followed_.try_emplace(model);
    if (!added) continue;
    at->second = std::make_shared<Followed>(loop_, model, target);
    ++under_way_;
    loop_.tasks.Spawn(Follow(at->second));
  }
}

void ScaledModels::Want(const std::string& model, uint32_t replicas, const std::string& why) {
  const auto at = followed_.find(model);
  if (at == followed_.end()) return;
  Followed& of = *at->second;
  const conf::TimePoint now = net::Now();
  of.wish = replicas;
  of.why = why;
  of.wished_at = now;
  if (of.trouble.empty() && of.law.Next(replicas, now)) of.pause.Cancel();  // at once
}

ScaledModels::View ScaledModels::ViewOf(const std::string& model) const {
  const auto at = followed_.find(model);
  if (at == followed_.end()) return {};
  return {.replicas = at->second->law.replicas(), .trouble = at->second->trouble};
}

void ScaledModels::Close() {
  closing_ = true;
  for (auto& [model, of] : followed_) {
    of->stopped = true;
    of->pause.Cancel();
  }
  if (client_) client_->Abort();
}

std::string ScaledModels::NameSpaceOf(const Followed& of) const {
  return of.target.name_space.empty() ? client_->name_space() : of.target.name_space;
}

net::Task<void> ScaledModels::Follow(std::shared_ptr<Followed> of) {
  while (!of->stopped) {
    const absl::Status done = co_await Step(*of);
    if (of->stopped) break;
    std::string trouble;
    if (!done.ok()) trouble = fmt::format("{} cannot be scaled: {}", of->Object(), conf::Std(done.message()));
    if (trouble != of->trouble) {
      if (!trouble.empty()) {
        log::Warn("a model cannot be scaled", {{"model", of->model}, {"why", trouble}});
      } else {
        log::Info("a model can be scaled again", {{"model", of->model}});
      }
      of->trouble = std::move(trouble);
    }
    const bool more =
        done.ok() && of->law.Next(of->wish, net::Now()) && net::Now() - of->wished_at < kWishHolds;
    if (!more) (void)co_await of->pause.For(done.ok() ? kReadScalesEvery : kAfterError);
  }
  --under_way_;
}

net::Task<absl::Status> ScaledModels::Read(Followed& of) {
  if (absl::Status ready = co_await client_->Prepare(); !ready.ok()) co_return ready;
  absl::StatusOr<json> object =
      co_await client_->Get(kubernetes::ScalePath(of.target.kind, NameSpaceOf(of), of.target.name));
  if (!object.ok()) co_return object.status();
  const absl::StatusOr<kubernetes::Scale> scale = kubernetes::ParseScale(*object);
  if (!scale.ok()) co_return scale.status();
  const std::optional<uint32_t> before = of.law.replicas();
  of.version = scale->version;
  of.read_at = net::Now();
  if (of.law.Update(scale->wanted, of.read_at)) {
    const json detail = {{"object", of.Object()},
                         {"namespace", NameSpaceOf(of)},
                         {"before", before.value_or(0)},
                         {"replicas", scale->wanted},
                         {"wanted", of.wish}};
    log::Warn("a model's number of replicas was changed elsewhere",
              {{"model", of.model}, {"replicas", scale->wanted}, {"wanted", of.wish}});
    co_return co_await Record(of, "scale.changed_elsewhere", detail.dump());
  }
  co_return absl::OkStatus();
}

net::Task<absl::Status> ScaledModels::Step(Followed& of) {
  for (int tries = 0; tries < kTries && !of.stopped; ++tries) {
    if (absl::Status read = co_await Read(of); !read.ok()) co_return read;
    const conf::TimePoint now = net::Now();
    if (of.stopped || of.wished_at == conf::TimePoint() || now - of.wished_at > kWishHolds)
      co_return absl::OkStatus();
    const std::optional<uint32_t> next = of.law.Next(of.wish, now);
    if (!next) co_return absl::OkStatus();
    const uint32_t before = of.law.replicas().value_or(0);
    const json detail = {{"object", of.Object()},
                         {"namespace", NameSpaceOf(of)},
                         {"before", before},
                         {"replicas", *next},
                         {"reason", of.why}};
    if (absl::Status recorded = co_await Record(of, "scale.set", detail.dump()); !recorded.ok())
      co_return recorded;
    if (*next < before && of.target.kind == kubernetes::Scalable::kDeployment) co_await TellDeletionCosts(of);
    if (of.stopped || net::Now() - of.wished_at > kWishHolds) co_return absl::OkStatus();
    const absl::StatusOr<json> changed =
        co_await client_->Patch(kubernetes::ScalePath(of.target.kind, NameSpaceOf(of), of.target.name),
                                kubernetes::ScaleTo(*next, of.version));
    if (changed.ok()) {
      of.law.Wrote(*next);
      log::Info("a model is scaled", {{"model", of.model}, {"replicas", *next}, {"before", before}});
      co_return absl::OkStatus();
    }
    if (!absl::IsAborted(changed.status())) co_return changed.status();
  }
  co_return absl::UnavailableError("others keep changing it; it is tried again later");
}

// Best effort: without the right to do it, Kubernetes chooses by its own rules.
net::Task<void> ScaledModels::TellDeletionCosts(Followed& of) {
  if (!of.may_tell_costs) co_return;
  std::vector<Pod> pods = env_.pods(of.model);
  std::ranges::sort(pods, std::greater(), &Pod::requests);
  if (pods.size() > kMostCosts) pods.resize(kMostCosts);
  std::map<std::string, uint32_t> told;
  for (const Pod& pod : pods) {
    const size_t slash = pod.name.find('/');
    if (slash == std::string::npos || of.stopped) continue;
    const auto before = of.costs.find(pod.name);
    const uint32_t known = before == of.costs.end() ? 0 : before->second;
    if (known != pod.requests) {
      const absl::StatusOr<json> changed =
          co_await client_->Patch(kubernetes::PodPath(pod.name.substr(0, slash), pod.name.substr(slash + 1)),
                                  kubernetes::DeletionCost(pod.requests));
      if (absl::IsPermissionDenied(changed.status())) {
        of.may_tell_costs = false;
        log::Warn("the costs of deleting pods cannot be set",
                  {{"model", of.model}, {"why", conf::Std(changed.status().message())}});
        co_return;
      }
      if (!changed.ok()) continue;
    }
    told[pod.name] = pod.requests;
  }
  of.costs = std::move(told);
}

net::Task<absl::Status> ScaledModels::Record(const Followed& of, std::string action, std::string detail) {
  ledger::Event event;
  event.kind = ledger::Kind::kAction;
  event.action = std::move(action);
  event.actor = "control";
  event.subject = of.model;
  event.detail = std::move(detail);
  co_return co_await env_.record(std::move(event));
}

}  // namespace gateway::control
