// Answers of the admin API about what-if questions.
#pragma once

#include "gateway/admin/answers/answer_fields.h"

namespace gateway::admin::answers {

// One line of the comparison; null: the simulation has no figure.
struct SimulationFact {
  static constexpr std::string_view kSchema = "SimulationFact";

  std::string name = {};
  std::optional<std::string> today = {};
  std::optional<std::string> what_if = {};
};

template <class O>
constexpr void Bind(O& o, SimulationFact& fact) {
  o.Required("name", fact.name);
  o.Required("today", fact.today);
  o.Required("what_if", fact.what_if);
}

// A job that waits, and when it would start; null: not within the time that was simulated, or not there.
struct SimulatedJob {
  static constexpr std::string_view kSchema = "SimulatedJob";

  std::string id = {};
  std::string queue = {};
  bool asked = false;  // the job of the question
  std::optional<Time> today = {};
  std::optional<Time> what_if = {};
};

template <class O>
constexpr void Bind(O& o, SimulatedJob& job) {
  o.Required("id", job.id);
  o.Required("queue", job.queue);
  o.Required("asked", job.asked);
  o.Required("today", job.today);
  o.Required("what_if", job.what_if);
}

struct Simulation {
  static constexpr std::string_view kSchema = "Simulation";

  std::string id = {};
  std::string_view state = {};  // running, done, failed, cancelled
  std::string question = {};    // in words
  std::string actor = {};
  Time created = {};
  double progress = 0;  // 0 to 1
  std::optional<std::string> problem = {};
  std::vector<std::string> sentences = {};
  std::vector<SimulationFact> facts = {};
  std::vector<SimulatedJob> jobs = {};
  bool more_jobs = false;  // than `jobs` names
};

template <class O>
constexpr void Bind(O& o, Simulation& simulation) {
  o.Required("id", simulation.id);
  o.Required("state", simulation.state);
  o.Required("question", simulation.question);
  o.Required("actor", simulation.actor);
  o.Required("created", simulation.created);
  o.Required("progress", simulation.progress);
  o.Required("problem", simulation.problem);
  o.Required("sentences", simulation.sentences);
  o.Required("facts", simulation.facts);
  o.Required("jobs", simulation.jobs);
  o.Required("more_jobs", simulation.more_jobs);
}

}  // namespace gateway::admin::answers
