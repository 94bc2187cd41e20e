// Any text at all must be read as an answer of slurmrestd, or refused, without a crash; what is accepted must
// be within its bounds.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "plugins/launchers/slurm/answers.h"
#include "plugins/launchers/slurm/hostlist.h"

namespace {

using namespace plugins::launchers::slurm;

void Require(bool holds) {
  if (!holds) std::abort();
}

void Check(const std::vector<std::string>& hosts) {
  Require(hosts.size() <= kMaxHosts);
  for (const std::string& host : hosts) Require(!host.empty() && host.size() <= kMaxHostName);
}

void Check(const std::vector<Gres>& gres, std::string_view text) {
  Require(gres.size() <= text.size());
  for (const Gres& one : gres) Require(!one.name.empty() && one.places.size() <= 256);
}

void ReadAnswers(std::string_view text) {
  if (const auto list = ReadJobs(text); list.ok()) {
    size_t hosts = 0;
    for (const Job& job : list->jobs) {
      Check(job.nodes);
      hosts += job.nodes.size();
      Require(job.gres.empty() || job.gres.size() == job.nodes.size());
      for (const std::vector<Gres>& gres : job.gres) Check(gres, text);
    }
    Require(hosts <= kMaxHostsOfJobs);
  }
  if (const auto nodes = ReadNodes(text); nodes.ok()) {
    for (const Node& node : *nodes) {
      Require(!node.name.empty());
      Check(node.gres, text);
    }
  }
  if (const auto id = ReadSubmitted(text); id.ok()) Require(*id != 0);
  (void)ErrorOf(text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 4) {
    case 0:
      ReadAnswers(text);
      break;
    case 1:
      if (const auto gres = ReadGres(text); gres.ok()) Check(*gres, text);
      break;
    case 2:
      if (const auto hosts = ExpandHosts(text); hosts.ok()) Check(*hosts);
      break;
    default:
      if (const auto places = ExpandPlaces(text); places.ok()) Require(places->size() <= 256);
      break;
  }
  return 0;
}
