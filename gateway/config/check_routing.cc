// Checks between sections about routing: tracks and their endpoints, zones, targets of copies.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "gateway/config/check.h"
#include "gateway/config/names.h"

namespace gateway::config {
namespace {

// The names of a model's tracks, as its endpoints give them.
Names TracksOf(const Model& model) {
  std::vector<std::string> tracks;
  for (const Endpoint& endpoint : model.endpoints) {
    if (!endpoint.track.empty()) tracks.push_back(endpoint.track);
  }
  return {tracks, [](const std::string& name) -> const std::string& {
            return name;  // NOLINT(bugprone-return-const-ref-from-parameter): the vector's own
          }};
}

std::string Unknown(const Names& tracks, const std::string& track) {
  return tracks.empty() ? fmt::format("no endpoint of this model has the track \"{}\", or any", track)
                        : fmt::format("unknown track \"{}\"{}", track, tracks.Hint(track));
}

void CheckCanaries(conf::Document& document, size_t m, const Model& model, const Names& tracks) {
  std::map<std::string, size_t> seen;
  double sum = 0;
  for (size_t c = 0; c < model.routing.canaries.size(); ++c) {
    const Canary& canary = model.routing.canaries[c];
    const std::string pointer = fmt::format("/models/{}/routing/canaries/{}", m, c);
    sum += canary.percent <= 100 ? canary.percent : 0;  // reported already
    if (canary.track.empty()) continue;
    if (!tracks.Has(canary.track)) {
      document.AddAt(pointer + "/track", canary.track, Unknown(tracks, canary.track));
    }
    if (const auto [first, added] = seen.try_emplace(canary.track, c); !added) {
      document.AddAt(pointer + "/track", canary.track,
                     fmt::format("track \"{}\" is given twice, first at /models/{}/routing/canaries/{}",
                                 canary.track, m, first->second));
    }
  }
  if (sum > 100) {
    document.AddAt(fmt::format("/models/{}/routing/canaries", m), "",
                   fmt::format("the percentages sum to {}, which is more than 100", sum));
  }
}

void CheckEndpoints(conf::Document& document, size_t m, const Config& config) {
  const Model& model = config.models[m];
  for (size_t e = 0; e < model.endpoints.size(); ++e) {
    const Endpoint& endpoint = model.endpoints[e];
    if (!endpoint.zone.empty() && config.server.zone.empty()) {
      document.AddAt(fmt::format("/models/{}/endpoints/{}/zone", m, e), endpoint.zone,
                     "has no effect without server.zone, the gateway's own");
    }
    const bool used = endpoint.track.empty() ||
                      std::ranges::any_of(model.routing.shadows,
                                          [&](const Shadow& s) { return s.track == endpoint.track; }) ||
                      std::ranges::any_of(model.routing.canaries,
                                          [&](const Canary& c) { return c.track == endpoint.track; });
    if (used) continue;
    document.AddAt(fmt::format("/models/{}/endpoints/{}/track", m, e), endpoint.track,
                   fmt::format("nothing is sent to the track \"{}\"; name it under routing.canaries or "
                               "routing.shadows",
                               endpoint.track));
  }
}

void CheckShadows(conf::Document& document, size_t m, const Config& config, const Names& tracks) {
  const Model& model = config.models[m];
  double sum = 0;
  for (size_t s = 0; s < model.routing.shadows.size(); ++s) {
    const Shadow& shadow = model.routing.shadows[s];
    const std::string pointer = fmt::format("/models/{}/routing/shadows/{}", m, s);
    sum += shadow.percent <= 100 ? shadow.percent : 0;
    if (!shadow.track.empty() && !tracks.Has(shadow.track))
      document.AddAt(pointer + "/track", shadow.track, Unknown(tracks, shadow.track));
    if (shadow.model.empty()) continue;
    const bool itself =
        shadow.model == model.name || std::ranges::find(model.aliases, shadow.model) != model.aliases.end();
    if (itself) {
      document.AddAt(pointer + "/model", shadow.model,
                     "is the model itself; give some of its endpoints a track and name that");
    } else if (const Names names = ModelNames(config.models); !names.Has(shadow.model) && names.complete()) {
      document.AddAt(pointer + "/model", shadow.model,
                     fmt::format("unknown model \"{}\"{}", shadow.model, names.Hint(shadow.model)));
    }
  }
  if (sum > 100) {
    document.AddAt(fmt::format("/models/{}/routing/shadows", m), "",
                   fmt::format("the percentages sum to {}, which is more than 100", sum));
  }
}

}  // namespace

void CheckRouting(conf::Document& document, const Config& config) {
  for (size_t m = 0; m < config.models.size(); ++m) {
    const Names tracks = TracksOf(config.models[m]);
    CheckCanaries(document, m, config.models[m], tracks);
    CheckEndpoints(document, m, config);
    CheckShadows(document, m, config, tracks);
  }
}

}  // namespace gateway::config
