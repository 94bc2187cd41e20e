#include "gateway/control/workloads/legacy_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "conf/json_dump.h"
#include "conf/text.h"
#include "gateway/control/workloads/grant.h"
#include "gateway/control/workloads/workload_record.h"
#include "gateway/net/files.h"
#include "gateway/store/kinds.h"

namespace gateway::control {
namespace {

using nlohmann::json;

constexpr uint64_t kMostBytes = uint64_t{256} << 20;

// Its id ends with it.
uint64_t NumberOfSubmission(const std::string& submission) {
  const std::optional<uint64_t> number =
      conf::ReadNumber<uint64_t>(submission.substr(submission.rfind('-') + 1));
  if (!number) throw std::invalid_argument(fmt::format("submission {} has no number", submission));
  return *number;
}

std::pair<std::string, std::string> StateAndOutcome(const std::string& state) {
  if (state == "starting") return {"placed", "none"};
  if (state == "stopping") return {"draining", "none"};
  if (ParseOutcome(state)) return {"stopped", state};
  return {state, "none"};
}

class JobsReader {
 public:
  void Take(const json& line) {
    if (line.contains("submission")) {
      const auto id = line["submission"].get<std::string>();
      json body = line;
      body.erase("submission");
      body["number"] = NumberOfSubmission(id);
      last_ = std::max(last_, NumberOfSubmission(id));
      submissions_[id] = std::move(body);
    } else if (line.contains("forgotten")) {
      jobs_.erase(line["forgotten"].get<std::string>());
    } else if (line.contains("last")) {
      last_ = std::max(last_, line["last"].get<uint64_t>());
    } else {
      TakeJob(line);
    }
  }

  void Finish(std::vector<store::Write>& out) const {
    std::map<std::string, bool> named;
    for (const auto& [id, body] : jobs_) {
      named[body.at("of").get<std::string>()] = true;
      out.push_back(store::Write::Create(store::kWorkload, id, conf::DumpJson(body)));
    }
    for (const auto& [id, body] : submissions_) {
      if (named.contains(id))
        out.push_back(store::Write::Create(store::kSubmission, id, conf::DumpJson(body)));
    }
    if (last_ > 0)
      out.push_back(store::Write::Create(store::kSubmission, kLastSubmission, BodyOfLast(last_)));
  }

 private:
  void TakeJob(const json& line) {
    const auto id = line.at("job").get<std::string>();
    const auto [state, outcome] = StateAndOutcome(line.at("state").get<std::string>());
    json body = line;
    body.erase("job");
    body["state"] = state;
    body["outcome"] = outcome;
    body["wanted_us"] = submissions_.at(line.at("of").get<std::string>()).at("at_us");
    if (!body.contains("done_us")) body["done_us"] = 0;
    jobs_[id] = std::move(body);
  }

  uint64_t last_ = 0;
  std::map<std::string, json> submissions_;
  std::map<std::string, json> jobs_;
};

Workload ReadReplica(const json& in, const scheduler::Cluster& cluster) {
  plugins::launchers::DeviceGrant grant;
  grant.node = in.at("node").get<std::string>();
  grant.cpu_milli = in.at("cpu_milli").get<int64_t>();
  grant.memory_mib = in.at("memory_mib").get<int64_t>();
  if (in.contains("devices")) {
    grant.kind = in.at("kind").get<std::string>();
    grant.devices = in.at("devices").get<std::vector<uint8_t>>();
    grant.milli = in.at("milli").get<uint16_t>();
    grant.device_mib = in.value("device_mib", 0);
  }
  if (in.contains("partition")) {
    grant.partition = in.at("partition").get<std::string>();
    grant.partition_start = in.at("partition_start").get<uint8_t>();
  }
  Workload replica;
  replica.id = in.at("run").get<std::string>();
  replica.kind = Kind::kReplica;
  replica.model = in.at("model").get<std::string>();
  replica.state = State::kStarting;
  replica.since = replica.wanted = replica.started =
      conf::FromUnixMicros(in.at("launched_us").get<int64_t>());
  replica.attempt = 1;
  replica.actor = "control";
  Member& leader = replica.members.emplace_back();
  leader.run = replica.id;
  leader.at.holding.node = scheduler::kNone;
  if (const std::optional<scheduler::Holding> holding = HoldingOf(cluster, grant))
    leader.at.holding = *holding;
  return replica;
}

absl::Status ReadJobs(const std::string& path, std::vector<store::Write>& out) {
  absl::StatusOr<std::string> file = net::ReadFile(path, kMostBytes);
  if (absl::IsNotFound(file.status())) return absl::OkStatus();
  if (!file.ok()) return file.status();
  JobsReader reader;
  std::string_view text = *file;
  text = text.substr(0, text.rfind('\n') + 1);  // npos + 1: nothing is whole
  for (size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    try {
      reader.Take(json::parse(line));
    } catch (const std::exception& error) {
      return absl::DataLossError(conf::Abseil(fmt::format("{}:{}: {}", path, number, error.what())));
    }
  }
  reader.Finish(out);
  return absl::OkStatus();
}

absl::Status ReadReplicas(const std::string& path, const scheduler::Cluster& cluster,
                          std::vector<store::Write>& out) {
  const absl::StatusOr<std::string> text = net::ReadFile(path, kMostBytes);
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  if (!text.ok()) return text.status();
  try {
    const json file = json::parse(*text);
    for (const json& one : file.at("replicas")) {
      const Workload replica = ReadReplica(one, cluster);
      out.push_back(store::Write::Create(store::kWorkload, replica.id, BodyOf(replica, cluster)));
    }
  } catch (const json::exception& error) {
    return absl::DataLossError(conf::Abseil(fmt::format("{}: {}", path, error.what())));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<store::Write>> ReadLegacyFiles(const std::string& folder,
                                                          const scheduler::Cluster& cluster) {
  std::vector<store::Write> writes;
  if (absl::Status read = ReadJobs(folder + "/" + kLegacyJobs, writes); !read.ok()) return read;
  if (absl::Status read = ReadReplicas(folder + "/" + kLegacyReplicas, cluster, writes); !read.ok())
    return read;
  return writes;
}

}  // namespace gateway::control
