#include "gateway/control/workloads/provenance.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "conf/hash.h"
#include "conf/hex.h"
#include "conf/json_dump.h"
#include "conf/json_parse.h"
#include "gateway/control/workloads/grant.h"
#include "plugins/auth/digest.h"

namespace gateway::control {
namespace {

using nlohmann::json;

std::string Sha256Of(std::string_view text) {
  return conf::Hex(plugins::auth::Sha256(text));
}

}  // namespace

uint64_t SeedOf(std::string_view id) {
  const uint64_t hash = conf::Fnv1a(id);
  return (hash ^ (hash >> 32)) & 0x7fffffff;
}

Provenance ProvenanceOf(const Submission& submission, std::string configuration,
                        const std::function<std::string(const std::string& data)>& digest_of) {
  const config::JobFile& file = submission.file;
  Provenance made;
  made.version = TIDEGATE_VERSION;
  made.configuration = std::move(configuration);
  made.file = Sha256Of(submission.text + '\0' + submission.parameters);
  made.command = Sha256Of(json(file.command).dump(-1, ' ', false, json::error_handler_t::replace));
  made.image = file.image;
  made.seed = file.seed.value_or(SeedOf(submission.id));
  for (const std::string& name : file.data) made.data.emplace_back(name, digest_of(name));
  return made;
}

std::string WriteProvenance(const Provenance& provenance) {
  json data = json::array();
  for (const auto& [name, digest] : provenance.data) data.push_back({{"name", name}, {"digest", digest}});
  json out = {{"version", provenance.version},  {"configuration_sha256", provenance.configuration},
              {"file_sha256", provenance.file}, {"command_sha256", provenance.command},
              {"seed", provenance.seed},        {"data", std::move(data)}};
  if (!provenance.image.empty()) out["image"] = provenance.image;
  if (!provenance.rerun_of.empty()) out["rerun_of"] = provenance.rerun_of;
  return conf::DumpJson(out);
}

Provenance ReadProvenance(std::string_view text, std::string_view id) {
  Provenance read;
  read.seed = SeedOf(id);
  const json in = conf::ParseJson(text);
  if (!in.is_object()) return read;
  const auto of = [&](const char* key) {
    const auto at = in.find(key);
    return at != in.end() && at->is_string() ? at->get<std::string>() : std::string();
  };
  read.version = of("version");
  read.configuration = of("configuration_sha256");
  read.file = of("file_sha256");
  read.command = of("command_sha256");
  read.image = of("image");
  read.rerun_of = of("rerun_of");
  if (const auto seed = in.find("seed"); seed != in.end() && seed->is_number_unsigned())
    read.seed = seed->get<uint64_t>();
  if (const auto data = in.find("data"); data != in.end() && data->is_array()) {
    for (const json& one : *data) {
      if (one.is_object()) read.data.emplace_back(one.value("name", ""), one.value("digest", ""));
    }
  }
  return read;
}

std::vector<std::string> Differences(const Submission& before, const Submission& now,
                                     const scheduler::Cluster& cluster,
                                     const std::vector<const Workload*>& earlier) {
  const Provenance& was = before.provenance;
  const Provenance& is = now.provenance;
  std::vector<std::string> out;
  if (was.version.empty()) {
    out.push_back(fmt::format(
        "{} was submitted to a version that recorded no provenance; only its file is known.", before.id));
    return out;
  }
  if (was.version != is.version)
    out.push_back(fmt::format("Tidegate was {} and is {} now.", was.version, is.version));
  if (was.configuration != is.configuration)
    out.push_back(
        fmt::format("The gateway's configuration has changed since: it was {:.12} and is {:.12} now.",
                    was.configuration, is.configuration));
  for (const auto& [name, digest] : was.data) {
    const auto same = std::ranges::find(is.data, name, &std::pair<std::string, std::string>::first);
    const std::string now_digest = same == is.data.end() ? std::string() : same->second;
    if (now_digest != digest)
      out.push_back(fmt::format("The data set {} was {} and is {} now.", name, digest, now_digest));
  }
  if (!is.image.empty() && is.image.find("@sha256:") == std::string::npos) {
    out.push_back(
        fmt::format("The image {} is named by a tag, which may name another image now; name it by its "
                    "digest to get the same one.",
                    is.image));
  }
  if (is.image.empty())
    out.push_back("The programs and files that the command names are not recorded, and may have changed.");
  if (!now.file.secret_env.empty())
    out.push_back("The values of secret_env are read again, and may have changed.");
  std::set<std::string> kinds;
  for (const Workload* const job : earlier) {
    for (const Member& member : job->members) {
      if (member.at.holding.node >= cluster.nodes.size()) continue;
      const std::string kind = GrantOf(cluster, member.at.holding).kind;
      if (!kind.empty()) kinds.insert(kind);
    }
  }
  std::set<std::string> possible;
  bool any = false;
  for (const scheduler::Role& role : now.file.job.roles) {
    for (const scheduler::DeviceAsk& ask : role.ask.devices) {
      any |= ask.kinds.empty();
      possible.insert(ask.kinds.begin(), ask.kinds.end());
    }
  }
  if (!kinds.empty() && (any || possible.size() > 1)) {
    out.push_back(fmt::format("It ran on {}, and may get devices of another kind that its file allows.",
                              fmt::join(kinds, " and ")));
  }
  return out;
}

}  // namespace gateway::control
