// A pick among endpoints that were found in EndpointSlices, beside the same pick among the same number of endpoints in
// the configuration; and the cost of a change of one pod for the control loop.
#include <fmt/format.h>

#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "bench/clusters/api_server.h"
#include "bench/clusters/samples.h"
#include "bench/clusters/section.h"
#include "gateway/config/load.h"
#include "gateway/discovery/discovery.h"
#include "gateway/discovery/open_source.h"
#include "gateway/shard/runtime.h"
#include "router/pick.h"
#include "scheduler/rng.h"

namespace bench::clusters {
namespace {

using gateway::net::Task;
using tests::FakeKube;
using Json = nlohmann::json;
using Served = std::shared_ptr<const gateway::Runtime>;

constexpr size_t kSlice = 100;  // endpoints of one, as Kubernetes makes them
constexpr const char* kSlices = "/apis/discovery.k8s.io/v1/namespaces/runs/endpointslices";

std::string AddressOf(size_t i) {
  return fmt::format("10.1.{}.{}", i / 250, i % 250);
}

Json Slice(size_t number, size_t endpoints) {
  Json pods = Json::array();
  for (size_t i = number * kSlice; i < std::min((number + 1) * kSlice, endpoints); ++i) {
    pods.push_back(
        {{"addresses", {AddressOf(i)}},
         {"conditions", {{"ready", true}}},
         {"targetRef", {{"kind", "Pod"}, {"namespace", "runs"}, {"name", fmt::format("vllm-{}", i)}}}});
  }
  return {{"metadata",
           {{"name", fmt::format("vllm-{}", number)}, {"labels", {{"kubernetes.io/service-name", "vllm"}}}}},
          {"addressType", "IPv4"},
          {"ports", {{{"name", "http"}, {"port", 8000}}}},
          {"endpoints", std::move(pods)}};
}

absl::StatusOr<gateway::Config> Configured(const std::string& endpoints, const std::string& policy) {
  gateway::LoadResult loaded = gateway::ParseConfig(
      fmt::format("server: {{listen: 127.0.0.1:0, state_dir: /tmp/s}}\ntenants: [{{name: t, models: "
                  "[\"*\"]}}]\nmodels: [{{name: m, routing: {{policy: {}}}, endpoints: [{}]}}]\n",
                  policy, endpoints),
      "picks.yaml", conf::Sources());
  if (loaded.config) return *std::move(loaded.config);
  return absl::InvalidArgumentError(ToString(loaded.problems.at(0)));
}

// The measurements of one runtime.
struct Learning {
  router::limits::LimitTree limits{};
  router::ReplicaStates replicas{};
  gateway::TokenEstimates estimates{};
  gateway::ModelQueues queues{};
  gateway::ScalingHintsByModel scaling_hints{};
  gateway::ModelSwitches switches{};
  gateway::Learned all() { return {limits, replicas, estimates, queues, scaling_hints, switches}; }
};

// Mean CPU time of a pick in nanoseconds, with as many requests under way as there are endpoints.
double NanosOfPick(const gateway::Runtime& runtime, size_t picks, scheduler::Rng& rng) {
  std::deque<router::Charge> under_way;
  const conf::TimePoint now{std::chrono::seconds(1'000'000)};
  const size_t most = runtime.replicas().size();
  double begun = 0;
  for (size_t i = 0; i < most + picks; ++i) {
    if (i == most) begun = ThreadMicros();
    router::Decision decision =
        router::Pick(runtime.routes(), router::ModelId{0}, runtime.load(),
                     {.tokens = 1'300, .prompt_tokens = 1'000, .output_tokens = 300}, {}, now, rng);
    under_way.push_back(std::move(decision.charge));
    if (under_way.size() > most) under_way.pop_front();
  }
  return 1e3 * (ThreadMicros() - begun) / static_cast<double>(picks);
}

// The discovery of the endpoints, and the runtime that has them.
struct Found {
  Found(tests::TestLoop& loop, const ApiServer& server, gateway::Config of)
      : config(std::move(of)),
        discovery(
            loop,
            [&loop, &server](const gateway::config::Discovery& from,
                             gateway::discovery::Source::Listener listener) {
              return gateway::discovery::OpenSource(loop, from, {.kubeconfig = server.kubeconfig()},
                                                    std::move(listener));
            },
            [this] { ++changes; }) {}

  absl::Status Build() {
    auto built = gateway::Runtime::Build(config, learning.all(), gateway::net::Now());
    if (!built.ok()) return built.status();
    runtime = *std::move(built);
    discovery.Configure(runtime->config());
    return absl::OkStatus();
  }
  // As after every change of the addresses.
  absl::Status Swap() {
    auto next = runtime->With(discovery.Endpoints(runtime->config()), learning.all());
    if (next.ok()) runtime = *std::move(next);
    return next.status();
  }

  gateway::Config config;
  Learning learning;
  Served runtime;
  int changes = 0;
  gateway::discovery::Discovery discovery;
};

Task<absl::Status> Compare(tests::TestLoop& loop, ApiServer& server, const std::string& policy,
                           const Options& options, Json& out) {
  const size_t endpoints = options.Of(1'000);
  std::string listed;
  for (size_t i = 0; i < endpoints; ++i)
    listed += fmt::format("{}{{url: \"http://{}:8000\", engine: vllm}}", i > 0 ? ", " : "", AddressOf(i));
  auto config = Configured(listed, policy);
  if (!config.ok()) co_return config.status();
  Learning learning;
  const auto from_file = gateway::Runtime::Build(*std::move(config), learning.all(), gateway::net::Now());
  if (!from_file.ok()) co_return from_file.status();

  config = Configured("{name: pool, kubernetes: {service: vllm, port: 8000}, engine: vllm}", policy);
  if (!config.ok()) co_return config.status();
  Found found(loop, server, *std::move(config));
  if (absl::Status built = found.Build(); !built.ok()) co_return built;
  if (!co_await tests::Eventually(loop, [&] { return found.changes > 0; }, std::chrono::seconds(30)))
    co_return absl::UnavailableError("the EndpointSlices were not read");
  if (absl::Status swapped = found.Swap(); !swapped.ok()) co_return swapped;
  if (found.runtime->replicas().size() != endpoints || (*from_file)->replicas().size() != endpoints) {
    co_return absl::InternalError(fmt::format("{} endpoints are found and {} listed, not {}",
                                              found.runtime->replicas().size(),
                                              (*from_file)->replicas().size(), endpoints));
  }

  scheduler::Rng rng(1);
  Samples of_listed;
  Samples of_found;
  Samples ratios;
  for (size_t round = 0; round < options.Of(20); ++round) {  // in turn, as the machine changes
    of_listed.Add(NanosOfPick(**from_file, options.Of(3'000), rng));
    of_found.Add(NanosOfPick(*found.runtime, options.Of(3'000), rng));
    const double first = NanosOfPick(*found.runtime, options.Of(3'000), rng);
    const double second = NanosOfPick(**from_file, options.Of(3'000), rng);
    ratios.Add(first / second);
  }

  Samples swaps;  // one pod goes, and comes back
  for (size_t i = 0; i < options.Of(40); ++i) {
    const int before = found.changes;
    server.Do([&](FakeKube& kube) {
      kube.Change(kSlices, "vllm-0",
                  {{"endpoints", Slice(0, i % 2 == 0 ? kSlice - 1 : kSlice)["endpoints"]}});
    });
    if (!co_await tests::Eventually(loop, [&] { return found.changes > before; }))
      co_return absl::UnavailableError("a change of an EndpointSlice was not told");
    const double begun = ThreadMicros();
    if (absl::Status swapped = found.Swap(); !swapped.ok()) co_return swapped;
    swaps.Add((ThreadMicros() - begun) * 1e-3);
  }
  found.discovery.Stop();
  fmt::print("{:<16} {:8.0f} {:8.0f} {:8.2f} {:12.2f}\n", policy, of_listed.At(0.5), of_found.At(0.5),
             ratios.At(0.5), swaps.At(0.5));
  out[policy] = {{"listed_ns", of_listed.ToJson()},
                 {"found_ns", of_found.ToJson()},
                 {"found_of_listed", ratios.ToJson()},
                 {"change_ms", swaps.ToJson()}};
  co_return absl::OkStatus();
}

}  // namespace

absl::Status MeasurePicks(const Options& options, Json& out) {
  fmt::print("CPU of a pick among {} endpoints, ns; of a change of one pod, ms\n", options.Of(1'000));
  fmt::print("{:<16} {:>8} {:>8} {:>8} {:>12}\n", "policy", "listed", "found", "ratio", "change");
  for (const char* policy : {"cost", "least-load", "round-robin"}) {
    ApiServer server([&](FakeKube& kube) {
      for (size_t i = 0; i * kSlice < options.Of(1'000); ++i) kube.Put(kSlices, Slice(i, options.Of(1'000)));
    });
    tests::TestLoop loop([](std::exception_ptr) { std::abort(); });
    const absl::Status measured = gateway::net::Await(loop, Compare(loop, server, policy, options, out));
    loop.Drain();
    if (!measured.ok()) return measured;
  }
  return absl::OkStatus();
}

}  // namespace bench::clusters
