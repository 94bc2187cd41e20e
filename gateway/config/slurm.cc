#include "gateway/config/slurm.h"

#include <algorithm>

#include "conf/reader.h"

namespace gateway::config {
namespace {

struct NodesPath {
  std::string operator()(const std::string& path) const {
    return path.starts_with('/') ? "" : "must be an absolute path on the nodes";
  }
};

// The longest path that a Unix socket can have.
struct SocketPath {
  std::string operator()(const std::string& path) const {
    constexpr size_t kLongest = 107;
    if (!path.starts_with('/')) return "must be an absolute path";
    return path.size() > kLongest ? "is longer than 107 bytes, the limit for the path of a Unix socket" : "";
  }
};

struct Word {
  std::string operator()(const std::string& text) const {
    const bool word = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
             c == '_' || c == '.' || c == '@';
    });
    return word ? "" : "must be letters, digits, '-', '_', '.' and '@'";
  }
};

struct Words {
  std::string operator()(const std::vector<std::string>& all) const {
    if (all.empty()) return "must not be empty";
    for (const std::string& text : all) {
      if (std::string wrong = Word()(text); !wrong.empty()) return wrong;
    }
    return "";
  }
};

}  // namespace

static void Bind(conf::Object& o, Preemptible& preemptible) {
  o.Optional("partitions", conf::OneOrMany(preemptible.partitions), Words());
  o.Optional("qos", conf::OneOrMany(preemptible.qos), Words());
}

void Bind(conf::Object& o, Slurm& slurm) {
  o.Optional("url", slurm.url);
  o.Optional("socket", slurm.socket, SocketPath());
  o.Required("user", slurm.user, Word());
  o.Optional("token", slurm.token);
  o.Optional("tls", slurm.tls);
  o.Optional("name", slurm.name, Word());
  o.Required("partition", slurm.partition, Word());
  o.Optional("account", slurm.account, Word());
  o.Optional("qos", slurm.qos, Word());
  o.Optional("gres", conf::OneOrMany(slurm.gres), Words());
  o.Optional("preemptible", slurm.preemptible);
  o.Optional("topology", slurm.topology, conf::NotEmpty());
  o.Optional("directory", slurm.directory, NodesPath());
  o.Optional("logs", slurm.logs, NodesPath());
  if (!o.reading()) return;
  if (o.Has("url") == o.Has("socket")) o.Error("give either url or socket of slurmrestd");
  if (o.Has("url") && !o.Has("token"))
    o.Error("is required with url; slurmrestd authenticates the gateway by it", "token");
  RefuseIdleTls(o, slurm.url, slurm.tls);
}

}  // namespace gateway::config
