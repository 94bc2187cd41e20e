#include "gateway/replicas/replica_watch.h"

#include <utility>

#include "gateway/log.h"
#include "gateway/net/clock.h"

namespace gateway {
namespace {

constexpr conf::Duration kWatchTick = std::chrono::milliseconds(100);

}  // namespace

void ReplicaWatch::Start(std::shared_ptr<const Runtime> runtime) {
  runtime_ = std::move(runtime);
  OnAlarm();
}

void ReplicaWatch::Stop() {
  Clear();
  runtime_.reset();
}

void ReplicaWatch::OnAlarm() {
  const conf::TimePoint now = net::Now();
  const router::RouteTable& routes = runtime_->routes();
  for (const router::Model& model : routes.models()) {
    if (model.served_by != model.id) continue;  // an adapter: checked with its base
    changes_.clear();
    router::DetectOutliers(routes, model.id, runtime_->load(), now, changes_);
    for (const router::OutlierChange& change : changes_) {
      log::Warn("replica standing", {{"replica", routes.replica(change.replica).spec.identity},
                                     {"was", router::OutlierStatus::NameOf(change.was)},
                                     {"is", router::OutlierStatus::NameOf(change.is)}});
    }
  }
  SetAfter(kWatchTick);
}

}  // namespace gateway
