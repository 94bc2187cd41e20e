#include "gateway/discovery/service_source.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "conf/text.h"
#include "gateway/config/sources.h"
#include "gateway/net/clock.h"
#include "gateway/net/url.h"

namespace gateway::discovery {
namespace {

namespace kubernetes = plugins::kubernetes;
using nlohmann::json;

constexpr conf::Duration kAgain = std::chrono::seconds(2);
constexpr std::string_view kGroup = "/apis/discovery.k8s.io";

std::string NameOf(const json& object) {
  const auto metadata = object.find("metadata");
  if (metadata == object.end() || !metadata->is_object()) return {};
  const auto name = metadata->find("name");
  return name != metadata->end() && name->is_string() ? name->get<std::string>() : std::string();
}

}  // namespace

std::string_view VersionOf(const json& group) {
  bool beta = false;
  const auto versions = group.find("versions");
  if (versions == group.end() || !versions->is_array()) return {};
  for (const json& version : *versions) {
    const auto name = version.find("version");
    if (name == version.end() || !name->is_string()) continue;
    if (*name == "v1") return "v1";
    beta |= *name == "v1beta1";
  }
  return beta ? "v1beta1" : "";
}

ServiceSource::ServiceSource(net::Loop& loop, config::Discovery discovery, const kubernetes::Place& place,
                             Listener listener)
    : loop_(loop),
      discovery_(std::move(discovery)),
      listener_(std::move(listener)),
      client_(
          loop, [place] { return kubernetes::ReadAccess(place, SystemSources()); },
          static_cast<uint64_t>(net::Now().time_since_epoch().count())),
      pause_(loop.watchdog) {}

void ServiceSource::Start() {
  loop_.tasks.Spawn(Run(shared_from_this()));
}

void ServiceSource::Stop() {
  stopped_ = true;
  client_.Abort();
  pause_.Cancel();
  ends_.Set();
}

net::Task<void> ServiceSource::Run(std::shared_ptr<ServiceSource> self) {
  std::string path = co_await self->FindPath();
  if (self->stopped_) co_return;
  const std::string selector =
      net::PercentEncode("kubernetes.io/service-name=" + self->discovery_.kubernetes->service);
  self->watch_.emplace(
      self->loop_, self->client_,
      kubernetes::Watch::Options{.path = std::move(path),
                                 .query = "labelSelector=" + selector,
                                 .seed = static_cast<uint64_t>(net::Now().time_since_epoch().count())},
      self->Handlers());
  self->watch_->Open();
  co_await self->ends_.Wait();
  co_await self->watch_->Close();
}

net::Task<std::string> ServiceSource::FindPath() {
  while (!stopped_) {
    const absl::StatusOr<json> group = co_await client_.Get(std::string(kGroup));
    if (stopped_) break;
    const std::string_view version = group.ok() ? VersionOf(*group) : std::string_view();
    if (!version.empty()) {
      const std::string& given = discovery_.kubernetes->service_namespace;
      co_return fmt::format("{}/{}/namespaces/{}/endpointslices", kGroup, version,
                            given.empty() ? client_.name_space() : given);
    }
    listener_.trouble(group.ok() ? std::string("the API server has no EndpointSlices (discovery.k8s.io/v1)")
                                 : std::string(conf::Std(group.status().message())));
    (void)co_await pause_.For(kAgain);
  }
  co_return std::string();
}

kubernetes::Watch::Handlers ServiceSource::Handlers() {
  kubernetes::Watch::Handlers handlers;
  handlers.on_begin = [this] { listing_.emplace(); };
  handlers.on_object = [this](const json& object) { Keep(object); };
  handlers.on_deleted = [this](const json& object) { slices_.erase(NameOf(object)); };
  handlers.on_listed = [this] { slices_ = std::exchange(listing_, std::nullopt).value_or(Slices()); };
  handlers.on_news = [this] { Report(); };
  return handlers;
}

void ServiceSource::Keep(const json& object) {
  absl::StatusOr<EndpointSlice> slice = ParseEndpointSlice(object);
  Slices& to = listing_ ? *listing_ : slices_;
  if (slice.ok()) {
    to.insert_or_assign(NameOf(object), *std::move(slice));
  } else {
    to.erase(NameOf(object));
  }
}

void ServiceSource::Report() {
  if (stopped_) return;
  std::string trouble;
  if (watch_->listed()) {
    ServiceTargets all = TargetsOf(slices_, discovery_);
    trouble = std::move(all.trouble);
    listener_.found(std::move(all.targets));
  }
  if (!watch_->health().ok()) trouble = std::string(conf::Std(watch_->health().message()));
  listener_.trouble(std::move(trouble));
}

}  // namespace gateway::discovery
