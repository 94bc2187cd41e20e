// What the admin API tells of rollouts of new versions.
#pragma once

#include "gateway/admin/answers/answer_fields.h"

namespace gateway::admin::answers {

// What requests have met at the replicas of one version.
struct VersionFigures {
  static constexpr std::string_view kSchema = "VersionFigures";

  uint32_t ready = 0;  // replicas
  uint64_t tries = 0;
  uint64_t failures = 0;
  std::optional<double> ttft_ms = {};            // geometric mean; null: none was seen
  std::optional<double> tokens_per_second = {};  // of a stream, likewise
  std::optional<uint64_t> rated = {};       // answers with feedback of the name in rollout.bounds; null: none
  std::optional<uint64_t> rated_true = {};  // of them
};

template <class O>
constexpr void Bind(O& o, VersionFigures& figures) {
  o.Required("ready", figures.ready);
  o.Required("tries", figures.tries);
  o.Required("failures", figures.failures);
  o.Required("ttft_ms", figures.ttft_ms);
  o.Required("tokens_per_second", figures.tokens_per_second);
  o.Required("rated", figures.rated);
  o.Required("rated_true", figures.rated_true);
}

struct Rollout {
  static constexpr std::string_view kSchema = "Rollout";

  std::string model = {};
  std::string version = {};              // the new one
  std::optional<std::string> from = {};  // the version in force before; null: it has no name
  std::string_view state = {};           // running, promoted, rolled_back, aborted
  uint32_t step = 0;                     // of `steps`, from 0
  std::vector<double> steps = {};        // percent of the requests
  double percent = 0;                    // in force now
  Time began = {};
  Time since = {};  // the state, the step or its opening
  std::string reason = {};
  std::string by = {};
  std::optional<std::string> waits_for = {};  // what the next move waits for
  uint32_t wanted_replicas = 0;               // of the new version
  VersionFigures fresh = {};                  // in this step
  VersionFigures old = {};                    // since the rollout began, as this gateway saw it
};

template <class O>
constexpr void Bind(O& o, Rollout& rollout) {
  o.Required("model", rollout.model);
  o.Required("version", rollout.version);
  o.Required("from", rollout.from);
  o.Required("state", rollout.state);
  o.Required("step", rollout.step);
  o.Required("steps", rollout.steps);
  o.Required("percent", rollout.percent);
  o.Required("began", rollout.began);
  o.Required("since", rollout.since);
  o.Required("reason", rollout.reason);
  o.Required("by", rollout.by);
  o.Required("waits_for", rollout.waits_for);
  o.Required("wanted_replicas", rollout.wanted_replicas);
  o.Required("new", rollout.fresh);
  o.Required("old", rollout.old);
}

}  // namespace gateway::admin::answers
