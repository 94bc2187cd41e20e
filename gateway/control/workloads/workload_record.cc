#include "gateway/control/workloads/workload_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "conf/json_dump.h"
#include "conf/text.h"
#include "gateway/control/workloads/provenance.h"

namespace gateway::control {
namespace {

using nlohmann::json;

std::string KindOf(const scheduler::Cluster& cluster, const scheduler::Holding& holding) {
  if (holding.devices == 0 || holding.node >= cluster.nodes.size()) return {};
  return cluster.kinds[cluster.type_of(holding.node).kind].name;
}

json Written(const scheduler::MemberAt& at, const scheduler::Cluster& cluster) {
  const scheduler::Holding& holding = at.holding;
  json out = {{"role", at.role},
              {"rank", at.rank},
              {"node", holding.node < cluster.nodes.size() ? cluster.nodes[holding.node].name : ""},
              {"cpu_milli", holding.cpu_milli},
              {"memory_mib", holding.memory_mib},
              {"isolation", static_cast<int>(holding.isolation)}};
  if (holding.devices != 0) {
    out["kind"] = KindOf(cluster, holding);
    out["devices"] = holding.devices;
    out["milli"] = holding.milli;
    out["device_mib"] = holding.device_mib;
  }
  if (holding.profile != 0) {
    out["profile"] = holding.profile;
    out["start"] = holding.start;
  }
  return out;
}

json Written(const std::vector<Member>& members, const scheduler::Cluster& cluster) {
  json out = json::array();
  for (const Member& member : members) {
    json one = Written(member.at, cluster);
    one["run"] = member.run;
    if (member.home) one["home"] = Written(*member.home, cluster);
    if (member.exit_code) one["exit_code"] = *member.exit_code;
    if (member.signal) one["signal"] = *member.signal;
    if (!member.why.empty()) one["why"] = member.why;
    if (!member.log.empty()) one["log"] = member.log;
    if (member.port != 0) {
      one["host"] = member.host;
      one["port"] = member.port;
    }
    if (member.ended) one["ended"] = true;
    if (member.began) one["began_us"] = conf::ToUnixMicros(*member.began);
    if (member.gone) one["gone_us"] = conf::ToUnixMicros(*member.gone);
    out.push_back(std::move(one));
  }
  return out;
}

template <class E>
E Word(std::optional<E> (*parse)(std::string_view), const json& in, const char* key) {
  const auto word = in.at(key).get<std::string>();
  const std::optional<E> value = parse(word);
  if (!value) throw std::invalid_argument(fmt::format("unknown {} \"{}\"", key, word));
  return *value;
}

scheduler::MemberAt ReadPlace(const json& in, const scheduler::Cluster& cluster) {
  scheduler::MemberAt at;
  at.role = in.at("role").get<uint16_t>();
  at.rank = in.at("rank").get<uint32_t>();
  scheduler::Holding& holding = at.holding;
  const auto node =
      std::ranges::find(cluster.nodes, in.at("node").get<std::string>(), &scheduler::Node::name);
  holding.node = node == cluster.nodes.end() ? scheduler::kNone
                                             : static_cast<scheduler::NodeId>(node - cluster.nodes.begin());
  holding.cpu_milli = in.at("cpu_milli").get<int64_t>();
  holding.memory_mib = in.at("memory_mib").get<int64_t>();
  holding.isolation = static_cast<scheduler::Isolation>(std::clamp(in.at("isolation").get<int>(), 0, 2));
  holding.devices = in.value("devices", uint32_t{0});
  holding.milli = in.value("milli", uint16_t{0});
  holding.device_mib = in.value("device_mib", int32_t{0});
  holding.profile = in.value("profile", uint8_t{0});
  holding.start = in.value("start", uint8_t{0});
  if (in.contains("kind") && in["kind"].get<std::string>() != KindOf(cluster, holding))
    holding.node = scheduler::kNone;
  return at;
}

std::vector<Member> ReadMembers(const json& in, const scheduler::Cluster& cluster) {
  std::vector<Member> members;
  members.reserve(in.size());
  for (const json& one : in) {
    Member& member = members.emplace_back();
    member.at = ReadPlace(one, cluster);
    member.run = one.at("run").get<std::string>();
    if (one.contains("home")) member.home = ReadPlace(one["home"], cluster);
    if (one.contains("exit_code")) member.exit_code = one["exit_code"].get<int>();
    if (one.contains("signal")) member.signal = one["signal"].get<int>();
    member.why = one.value("why", "");
    member.log = one.value("log", "");
    member.host = one.value("host", "");
    member.port = one.value("port", uint16_t{0});
    member.ended = one.value("ended", false);
    if (one.contains("began_us")) member.began = conf::FromUnixMicros(one["began_us"].get<int64_t>());
    if (one.contains("gone_us")) member.gone = conf::FromUnixMicros(one["gone_us"].get<int64_t>());
  }
  return members;
}

json Written(const SweepProgress& progress) {
  json out = {{"value", progress.value}, {"best", progress.best}, {"rungs", progress.rungs}};
  if (progress.step) out["step"] = *progress.step;
  if (!progress.stopped.empty()) out["stopped"] = progress.stopped;
  return out;
}

SweepProgress ReadProgress(const json& in) {
  SweepProgress progress;
  if (in.contains("step")) progress.step = in["step"].get<uint64_t>();
  progress.value = in.at("value").get<double>();
  progress.best = in.at("best").get<double>();
  progress.rungs = in.at("rungs").get<std::vector<double>>();
  progress.stopped = in.value("stopped", "");
  return progress;
}

std::shared_ptr<const Submission> ReadSubmission(const std::string& id, const json& in) {
  auto submission = std::make_shared<Submission>();
  submission->id = id;
  submission->number = in.at("number").get<uint64_t>();
  submission->text = in.at("text").get<std::string>();
  submission->user = in.at("user").get<std::string>();
  submission->at = conf::FromUnixMicros(in.at("at_us").get<int64_t>());
  submission->parameters = in.value("parameters", "");
  auto loaded = config::ReadJobFile(submission->text, in.at("file").get<std::string>(),
                                    config::ReferencesOnly(), submission->parameters);
  if (!loaded.value) throw std::invalid_argument(ToString(loaded.problems.front()));
  submission->file = *std::move(loaded.value);
  // As resolved at the submission: a file may leave out the queue, and name a tenant without its path.
  submission->file.job.queue = in.at("queue").get<std::string>();
  submission->file.job.tenant = in.at("tenant").get<std::string>();
  submission->provenance = in.contains("provenance") ? ReadProvenance(in["provenance"].dump(), submission->id)
                                                     : Provenance{.seed = SeedOf(submission->id)};
  return submission;
}

using Submissions = std::map<std::string, std::shared_ptr<const Submission>>;

Workload ReadWorkload(const std::string& id, const json& in, const Submissions& submissions,
                      const scheduler::Cluster& cluster) {
  Workload workload;
  workload.id = id;
  workload.kind = in.contains("model") ? Kind::kReplica : Kind::kJob;
  if (workload.kind == Kind::kReplica) {
    workload.model = in["model"].get<std::string>();
    workload.model_version = in.value("version", "");
    workload.keyed = in.value("keyed", false);
    workload.for_batches = in.value("for_batches", false);
    workload.wakes = in.value("wakes", false);
    if (in.contains("held_from_us"))
      workload.held_from = conf::FromUnixMicros(in["held_from_us"].get<int64_t>());
  } else {
    const auto of = in.at("of").get<std::string>();
    const auto submission = submissions.find(of);
    if (submission == submissions.end())
      throw std::invalid_argument(fmt::format("its submission {} is missing", of));
    workload.of = submission->second;
    workload.element = in.at("element").get<uint32_t>();
    workload.device_seconds = in.value("device_seconds", 0.0);
    if (in.contains("progress")) workload.progress = ReadProgress(in["progress"]);
  }
  workload.state = Word(ParseState, in, "state");
  workload.outcome = Word(ParseOutcome, in, "outcome");
  workload.since = conf::FromUnixMicros(in.at("since_us").get<int64_t>());
  workload.wanted = conf::FromUnixMicros(in.at("wanted_us").get<int64_t>());
  workload.started = conf::FromUnixMicros(in.at("started_us").get<int64_t>());
  workload.why = in.at("why").get<std::string>();
  workload.actor = in.at("actor").get<std::string>();
  workload.afterwards = Word(ParseAfterwards, in, "afterwards");
  workload.attempt = in.at("attempt").get<uint32_t>();
  workload.restarts = in.at("restarts").get<uint32_t>();
  workload.resumes = in.at("resumes").get<bool>();
  workload.done = std::chrono::microseconds(in.at("done_us").get<int64_t>());
  workload.members = ReadMembers(in.at("members"), cluster);
  workload.before = ReadMembers(in.at("before"), cluster);
  for (const json& at : in.at("next")) workload.next.push_back(ReadPlace(at, cluster));
  workload.replaces = in.value("replaces", "");
  if (in.contains("checkpointed_us"))
    workload.checkpointed = conf::FromUnixMicros(in["checkpointed_us"].get<int64_t>());
  if (in.contains("moved_us")) workload.moved = conf::FromUnixMicros(in["moved_us"].get<int64_t>());
  workload.gain = in.value("gain", "");
  workload.saved = true;
  return workload;
}

auto OrderOf(const Workload& workload) {
  return std::tuple(workload.kind == Kind::kReplica, workload.of ? workload.of->number : 0, workload.element,
                    workload.wanted, std::string_view(workload.id));
}

}  // namespace

std::string BodyOf(const Workload& workload, const scheduler::Cluster& cluster) {
  json next = json::array();
  for (const scheduler::MemberAt& at : workload.next) next.push_back(Written(at, cluster));
  json out = {{"state", Name(workload.state)},
              {"outcome", Name(workload.outcome)},
              {"since_us", conf::ToUnixMicros(workload.since)},
              {"wanted_us", conf::ToUnixMicros(workload.wanted)},
              {"started_us", conf::ToUnixMicros(workload.started)},
              {"why", workload.why},
              {"actor", workload.actor},
              {"afterwards", Name(workload.afterwards)},
              {"attempt", workload.attempt},
              {"restarts", workload.restarts},
              {"resumes", workload.resumes},
              {"done_us", std::chrono::duration_cast<std::chrono::microseconds>(workload.done).count()},
              {"members", Written(workload.members, cluster)},
              {"before", Written(workload.before, cluster)},
              {"next", std::move(next)}};
  if (!workload.replaces.empty()) out["replaces"] = workload.replaces;
  if (workload.checkpointed != conf::TimePoint())
    out["checkpointed_us"] = conf::ToUnixMicros(workload.checkpointed);
  if (workload.moved != conf::TimePoint()) {
    out["moved_us"] = conf::ToUnixMicros(workload.moved);
    out["gain"] = workload.gain;
  }
  if (workload.kind == Kind::kReplica) {
    out["model"] = workload.model;
    if (!workload.model_version.empty()) out["version"] = workload.model_version;
    out["keyed"] = workload.keyed;
    if (workload.for_batches) out["for_batches"] = true;
    if (workload.wakes) out["wakes"] = true;
    if (workload.held_from != conf::TimePoint()) out["held_from_us"] = conf::ToUnixMicros(workload.held_from);
    out["serves"] = workload.state == State::kRunning ||
                    (workload.state == State::kStarting && workload.serving.continues);
  } else {
    out["of"] = workload.of->id;
    out["element"] = workload.element;
    out["device_seconds"] = workload.device_seconds;
    if (workload.progress.step || !workload.progress.stopped.empty())
      out["progress"] = Written(workload.progress);
  }
  return conf::DumpJson(out);
}

std::string BodyOf(const Submission& submission) {
  json out = {{"number", submission.number},
              {"at_us", conf::ToUnixMicros(submission.at)},
              {"user", submission.user},
              {"file", submission.file.file},
              {"queue", submission.file.job.queue},
              {"tenant", submission.file.job.tenant},
              {"text", submission.text},
              {"provenance", json::parse(WriteProvenance(submission.provenance))}};
  if (!submission.parameters.empty()) out["parameters"] = submission.parameters;
  return conf::DumpJson(out);
}

std::string BodyOfLast(uint64_t number) {
  return conf::DumpJson(json{{"number", number}});
}

absl::StatusOr<KnownWorkloads> ReadWorkloads(const std::vector<store::Object>& workloads,
                                             const std::vector<store::Object>& submissions,
                                             const scheduler::Cluster& cluster) {
  KnownWorkloads known;
  Submissions by_id;
  const store::Object* at = nullptr;
  try {
    for (const store::Object& object : submissions) {
      at = &object;
      const json body = json::parse(object.body);
      known.last_number = std::max(known.last_number, body.at("number").get<uint64_t>());
      if (object.id != kLastSubmission) by_id[object.id] = ReadSubmission(object.id, body);
    }
    for (const store::Object& object : workloads) {
      at = &object;
      known.workloads.push_back(ReadWorkload(object.id, json::parse(object.body), by_id, cluster));
    }
  } catch (const std::exception& error) {
    return absl::DataLossError(conf::Abseil(fmt::format("{} {}: {}", at->kind, at->id, error.what())));
  }
  std::ranges::sort(known.workloads,
                    [](const Workload& a, const Workload& b) { return OrderOf(a) < OrderOf(b); });
  return known;
}

}  // namespace gateway::control
