// The launcher of Kubernetes: what the start of a pod costs where there are few and where there are many, and what it
// takes to come to know a large cluster of others.
#include "plugins/launchers/kubernetes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>

#include "bench/clusters/api_server.h"
#include "bench/clusters/samples.h"
#include "bench/clusters/section.h"

namespace bench::clusters {
namespace {

using gateway::net::Task;
using plugins::launchers::KubernetesLauncher;
using plugins::launchers::RunSpec;
using tests::FakeKube;
using Json = nlohmann::json;

KubernetesLauncher::Options OptionsFor(const ApiServer& server, const std::string& nodes, size_t count) {
  KubernetesLauncher::Options options;
  options.access = [url = server.url()]() -> absl::StatusOr<plugins::kubernetes::Access> {
    plugins::kubernetes::Access access;
    access.server = url;
    access.name_space = ApiServer::kNameSpace;
    return access;
  };
  options.name_space = ApiServer::kNameSpace;
  options.gateway = "bench";
  for (size_t i = 0; i < count; ++i) options.nodes[fmt::format("{}-{:05}", nodes, i)] = {"h100", 8};
  return options;
}

Task<absl::Status> Open(tests::TestLoop& loop, KubernetesLauncher& launcher) {
  launcher.Open();
  const bool knows = co_await tests::Eventually(
      loop, [&] { return launcher.shared() != nullptr && launcher.health().ok(); }, std::chrono::minutes(5));
  co_return knows ? absl::OkStatus() : launcher.health();
}

Task<absl::Status> Start(KubernetesLauncher& launcher, size_t number, Samples* millis) {
  RunSpec spec;
  spec.id = fmt::format("run-{}", number);
  spec.owner = "chat-small";
  spec.grant.node = fmt::format("node-{:05}", number / 8);
  spec.grant.kind = "h100";
  spec.grant.devices = {static_cast<uint8_t>(number % 8)};
  spec.image = "engine:1";
  spec.command = {"/engine", "--port", "{port}"};
  spec.env = {{"API_KEY", "a-key-of-this-replica-alone"}};
  spec.serves = true;
  const conf::TimePoint begun = gateway::net::Now();
  absl::Status started = co_await launcher.Start(std::move(spec));
  if (millis != nullptr)
    millis->Add(std::chrono::duration<double, std::milli>(gateway::net::Now() - begun).count());
  co_return started;
}

// `there` pods are there; `count` more are started, one after the other.
Task<absl::Status> StartMore(KubernetesLauncher& launcher, ApiServer& server, size_t there, size_t count,
                             Json& out) {
  Samples millis;
  const int asked = server.Count("");
  const double begun = ThreadMicros();
  for (size_t i = there; i < there + count; ++i) {
    if (absl::Status started = co_await Start(launcher, i, &millis); !started.ok()) co_return started;
  }
  const double cpu = (ThreadMicros() - begun) / static_cast<double>(count);
  const double requests = static_cast<double>(server.Count("") - asked) / static_cast<double>(count);
  fmt::print("a start, {:5} pods there: CPU {:6.0f} us, {:.2f} requests, {:.2f} ms p50, {:.2f} ms p99\n",
             there, cpu, requests, millis.At(0.5), millis.At(0.99));
  out["starts"].push_back(
      {{"there", there}, {"cpu_us", cpu}, {"requests", requests}, {"ms", millis.ToJson()}});
  co_return absl::OkStatus();
}

Task<absl::Status> Starts(tests::TestLoop& loop, ApiServer& server, const Options& options, Json& out) {
  KubernetesLauncher launcher(loop, OptionsFor(server, "node", 200));
  absl::Status done = co_await Open(loop, launcher);
  const size_t count = options.Of(300);
  const size_t many = options.Of(1'000);
  if (done.ok()) done = co_await StartMore(launcher, server, 0, count, out);
  for (size_t i = count; i < many && done.ok(); ++i) done = co_await Start(launcher, i, nullptr);
  if (done.ok()) done = co_await StartMore(launcher, server, many, count, out);
  co_await launcher.Close();
  co_return done;
}

double ResidentMib() {
  size_t total = 0;
  size_t resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return static_cast<double>(resident * static_cast<size_t>(sysconf(_SC_PAGESIZE))) / (1 << 20);
}

Task<absl::Status> Crowd(tests::TestLoop& loop, ApiServer& server, size_t nodes, size_t pods, Json& out) {
  const double memory = ResidentMib();
  const double begun = ThreadMicros();
  const conf::TimePoint from = gateway::net::Now();
  KubernetesLauncher launcher(loop, OptionsFor(server, "crowd", nodes));
  absl::Status done = co_await Open(loop, launcher);
  const double wall = std::chrono::duration<double>(gateway::net::Now() - from).count();
  const double cpu = (ThreadMicros() - begun) * 1e-6;
  const double taken = ResidentMib() - memory;
  const int pages = server.Count("LIST ");
  fmt::print("{} nodes and {} pods of others: CPU {:.2f} s, {:.1f} s, {:.0f} MiB, {} pages\n", nodes, pods,
             cpu, wall, taken, pages);
  out["crowd"] = {{"nodes", nodes}, {"pods", pods}, {"cpu_s", cpu},
                  {"s", wall},      {"mib", taken}, {"pages", pages}};
  co_await launcher.Close();
  co_return done;
}

template <class Measure>
absl::Status OnLoop(Measure measure) {
  tests::TestLoop loop([](std::exception_ptr) { std::abort(); });
  const absl::Status measured = gateway::net::Await(loop, measure(loop));
  loop.Drain();
  return measured;
}

}  // namespace

absl::Status MeasureLauncher(const Options& options, Json& out) {
  {
    const size_t nodes = options.Of(5'000);
    const size_t pods = options.Of(50'000);
    ApiServer server([&](FakeKube& kube) { kube.SetCrowd(pods, nodes); });
    const absl::Status crowd =
        OnLoop([&](tests::TestLoop& loop) { return Crowd(loop, server, nodes, pods, out); });
    if (!crowd.ok()) return crowd;
  }
  ApiServer server([&](FakeKube& kube) {
    for (size_t i = 0; i < 200; ++i) kube.AddNode(fmt::format("node-{:05}", i), 8);
  });
  return OnLoop([&](tests::TestLoop& loop) { return Starts(loop, server, options, out); });
}

}  // namespace bench::clusters
