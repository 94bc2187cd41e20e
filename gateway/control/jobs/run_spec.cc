#include "gateway/control/jobs/run_spec.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "conf/document.h"
#include "conf/text.h"
#include "gateway/control/grant.h"

namespace gateway::control {
namespace {

using plugins::launchers::RunSpec;

// Below what systems give to outgoing connections, and apart from the replicas' default.
constexpr uint16_t kFirstPort = 30'000;
constexpr uint16_t kPorts = 2'000;

// FNV-1a: the same in every process.
uint64_t HashOf(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace

uint16_t MeetingPort(std::string_view job, uint32_t attempt) {
  return static_cast<uint16_t>(kFirstPort + (HashOf(job) + attempt) % kPorts);
}

absl::StatusOr<RunSpec> SpecOf(const Job& job, uint32_t rank, const Meeting& meeting,
                               const scheduler::Cluster& cluster, const conf::Sources& sources) {
  const config::JobFile& file = job.file();
  RunSpec spec;
  spec.id = job.members[rank].run;
  spec.owner = job.id;
  spec.tenant = file.job.tenant;
  spec.grant = GrantOf(cluster, job.members[rank].at.holding);
  spec.command = job.resumes && !file.checkpoint.resume.empty() ? file.checkpoint.resume : file.command;
  spec.directory = file.directory;
  spec.limit = file.job.limit;
  spec.env.reserve(file.env.size() + file.secret_env.size() + 13);
  const auto tell = [&](std::string name, std::string value) {
    spec.env.emplace_back(std::move(name), std::move(value));
  };
  for (const auto& [name, value] : file.env) tell(name, value);
  // As references: what they lead to may have changed since the job was handed in.
  for (const auto& [name, secret] : file.secret_env) {
    conf::Document document(nlohmann::json(secret.reference()).dump(), file.file, sources);
    conf::Secret now;
    conf::Read(document.root(), now);
    if (document.problem_count() > 0) {
      return absl::FailedPreconditionError(
          conf::Abseil(fmt::format("secret_env/{}: {}", name, document.TakeProblems().front().message)));
    }
    tell(name, std::string(now.Reveal()));
  }
  tell("RANK", std::to_string(rank));
  tell("WORLD_SIZE", std::to_string(job.members.size()));
  tell("LOCAL_RANK", "0");  // a member sees no devices but its own
  tell("MASTER_ADDR", meeting.address);
  tell("MASTER_PORT", std::to_string(meeting.port));
  tell("TIDEGATE_JOB", job.id);
  tell("TIDEGATE_RUN", spec.id);
  tell("TIDEGATE_NODE", spec.grant.node);
  tell("TIDEGATE_ATTEMPT", std::to_string(job.attempt));
  tell("TIDEGATE_RESUMES", job.resumes ? "1" : "0");
  if (file.elements > 0) {
    tell("TIDEGATE_ARRAY_INDEX", std::to_string(job.element));
    tell("TIDEGATE_ARRAY_COUNT", std::to_string(file.elements));
  }
  return spec;
}

}  // namespace gateway::control
