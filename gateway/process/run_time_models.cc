#include "gateway/process/run_time_models.h"

#include "gateway/net/loop.h"

namespace gateway {

RunTimeModels::RunTimeModels(net::Loop& loop, store::Store& store, Environment env)
    : loop_(loop),
      env_(std::move(env)),
      adapters_(loop, store,
                {.record = env_.record,
                 .runtime = env_.runtime,
                 .epoch = [this] { return Epoch(); },
                 .changed = [this] { OnAdapters(); }}),
      loads_(loop, adapters_,
             {.runtime = env_.runtime,
              .acts =
                  [this] {
                    const control::ControlPlane* const plane = env_.control_plane();
                    return plane != nullptr && !plane->follows();
                  },
              .elsewhere =
                  [this] {
                    const control::ControlPlane* const plane = env_.control_plane();
                    return plane == nullptr ? control::AdapterUses() : plane->AdaptersElsewhere();
                  },
              .changed = env_.changed}),
      rollouts_(
          loop, store,
          {.record = env_.record, .epoch = [this] { return Epoch(); }, .changed = [this] { OnRollouts(); }}) {
}

absl::Status RunTimeModels::Open() {
  if (absl::Status started = net::Await(loop_, adapters_.Start()); !started.ok()) return started;
  return net::Await(loop_, rollouts_.Start());
}

void RunTimeModels::Stop() {
  loads_.Stop();
  adapters_.Stop();
  rollouts_.Stop();
}

// Where others may lead, a change is written only while this gateway does.
uint64_t RunTimeModels::Epoch() const {
  control::ControlPlane* const plane = env_.control_plane();
  return plane != nullptr && plane->shared() && plane->loop() != nullptr ? plane->epoch() : 0;
}

void RunTimeModels::OnAdapters() {
  std::vector<config::RunTimeAdapter> now = adapters_.InForce();
  if (now != published_) {
    published_ = std::move(now);
    env_.publish();
  }
  loads_.Wake();
  env_.changed();
}

void RunTimeModels::OnRollouts() {
  env_.publish();
  env_.changed();
}

}  // namespace gateway
