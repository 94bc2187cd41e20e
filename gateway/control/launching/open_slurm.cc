#include "gateway/control/launching/open_slurm.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <functional>

#include "gateway/config/sources.h"
#include "gateway/net/clock.h"
#include "gateway/net/tls.h"
#include "plugins/launchers/slurm.h"

namespace gateway::control {
namespace {

using plugins::launchers::SlurmLauncher;

// A name that survives a restart and that no other gateway has: the machine's name and the state folder.
std::string StateName(const std::string& state_dir) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return fmt::format("{}:{}", host.data(), std::filesystem::absolute(state_dir).lexically_normal().string());
}

// A token in a file is renewed there while we run.
std::function<absl::StatusOr<std::string>()> TokenOf(const conf::Secret& token) {
  constexpr std::string_view kFile = "file:";
  if (token.empty()) return nullptr;
  if (!token.reference().starts_with(kFile)) {
    return [token]() -> absl::StatusOr<std::string> { return std::string(token.Reveal()); };
  }
  return [path = token.reference().substr(kFile.size())]() -> absl::StatusOr<std::string> {
    absl::StatusOr<std::string> text = SystemSources().file(path);
    while (text.ok() && text->ends_with('\n')) text->pop_back();
    return text;
  };
}

}  // namespace

absl::StatusOr<std::unique_ptr<plugins::launchers::Launcher>> OpenSlurm(net::Loop& loop,
                                                                        const config::Scaling& scaling,
                                                                        const std::string& state_dir) {
  const config::Slurm& slurm = *scaling.slurm;
  SlurmLauncher::Options options;
  if (slurm.socket.empty()) {
    options.server.url = {slurm.url.tls(), slurm.url.host, std::to_string(slurm.url.port), slurm.url.path,
                          ""};
  } else {
    options.server.url = {false, "localhost", "80", "", ""};
    options.server.socket = slurm.socket;
  }
  if (slurm.url.tls()) {
    auto tls = net::TlsContext::Client(
        {slurm.tls.ca, slurm.tls.certificate, slurm.tls.key, !slurm.tls.insecure_skip_verify});
    if (!tls.ok()) return tls.status();
    options.server.tls = *std::move(tls);
    options.server.server_name = slurm.tls.server_name;
  }
  options.server.user = slurm.user;
  options.server.token = TokenOf(slurm.token);
  options.state = slurm.name.empty() ? StateName(state_dir) : slurm.name;
  options.partition = slurm.partition;
  options.account = slurm.account;
  options.qos = slurm.qos;
  options.ports = {scaling.ports.first, scaling.ports.last};
  options.gres = slurm.gres;
  options.preemptible_partitions = slurm.preemptible.partitions;
  options.preemptible_qos = slurm.preemptible.qos;
  options.directory = slurm.directory;
  options.logs = slurm.logs;
  options.seed = static_cast<uint64_t>(net::Now().time_since_epoch().count());
  auto launcher = std::make_unique<SlurmLauncher>(loop, std::move(options));
  launcher->Open();
  return launcher;
}

}  // namespace gateway::control
