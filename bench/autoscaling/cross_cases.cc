#include "bench/autoscaling/cross_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <numbers>
#include <span>
#include <string_view>
#include <utility>

#include "bench/replay/study.h"
#include "router/sim/offered_load.h"
#include "router/sim/scaling_study.h"
#include "router/sim/servegen.h"
#include "router/sim/shared_cache.h"
#include "scheduler/autoscale/capacity.h"
#include "scheduler/engine/presets.h"
#include "scheduler/rng.h"
#include "scheduler/sim/draws.h"

namespace bench::autoscaling {
namespace {

namespace autoscale = scheduler::autoscale;
using router::sim::Request;
using scheduler::Rng;

constexpr std::array<const char*, 3> kPresets = {"llama-3.3-70b-4xa100", "qwen3-32b-2x910b", "mistral-7b-l4"};
constexpr double kMostRequests = 40'000;  // of a case: more would take minutes, and show nothing more
constexpr double kLeastPeak = 2.5;
constexpr std::array<double, 3> kPeaks = {6, 12, 24};  // replicas that the busiest ten minutes need
constexpr conf::Duration kLength = std::chrono::hours(2);
constexpr conf::Duration kQuickLength = std::chrono::minutes(30);
constexpr conf::Duration kSpread = std::chrono::minutes(1);
constexpr double kWindow = 600;  // seconds
constexpr size_t kQuickEach = 4;
constexpr double kMinute = 60;

double Work(const autoscale::Capacity& c, double prompt, double output, double hits) {
  return autoscale::WorkOf(c, prompt * (1 - hits), prompt, output);
}

// Replicas that the busiest ten minutes keep busy.
double PeakOf(std::span<const Request> requests, const autoscale::Capacity& capacity, double hits) {
  std::vector<double> work;
  for (const Request& request : requests) {
    const auto at = static_cast<size_t>(conf::ToSeconds(request.at) / kWindow);
    if (work.size() <= at) work.resize(at + 1, 0);
    work[at] += Work(capacity, request.prompt_tokens, request.output_tokens, hits);
  }
  return work.empty() ? 0 : *std::ranges::max_element(work) / kWindow;
}

struct ClientFile {
  std::string name;  // "m-small/17"
  std::string trace;
  std::string dataset;
};

std::vector<ClientFile> ClientsIn(const std::string& folder) {
  namespace fs = std::filesystem;
  constexpr std::string_view kBefore = "chunk-";
  constexpr std::string_view kAfter = "-trace.csv";
  std::vector<ClientFile> found;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string file = at->path().filename().string();
    if (!file.starts_with(kBefore) || !file.ends_with(kAfter)) continue;
    const std::string number = file.substr(kBefore.size(), file.size() - kBefore.size() - kAfter.size());
    const fs::path parent = at->path().parent_path();
    const std::string group =
        fs::equivalent(parent, folder, error) ? "reasoning" : parent.filename().string();
    found.push_back({.name = fmt::format("{}/{}", group, number),
                     .trace = at->path().string(),
                     .dataset = (parent / fmt::format("chunk-{}-dataset.json", number)).string()});
  }
  std::ranges::sort(found, {}, &ClientFile::name);
  return found;
}

std::optional<router::sim::ServegenClient> LoadClient(const ClientFile& of) {
  const auto read = [](const std::string& path) -> std::string {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  };
  const std::string rows = read(of.trace);
  const std::string histograms = read(of.dataset);
  auto loaded = router::sim::ReadServegenClient({of.trace, rows}, {of.dataset, histograms});
  if (!loaded.client && !loaded.report.problems.empty())
    fmt::print(stderr, "{}\n", conf::ToString(loaded.report.problems.front()));
  return std::move(loaded.client);
}

// The client's two hours around its busiest ten minutes, so often that these need `peak` replicas, or as few as
// kMostRequests allow.
std::vector<Request> BusiestOf(const router::sim::ServegenClient& client, double peak, conf::Duration length,
                               const autoscale::Capacity& capacity) {
  const auto busiest =
      std::ranges::max_element(client.windows, {}, &router::sim::ServegenClient::Window::rate);
  conf::Duration from = std::max(busiest->from - length / 2, conf::Duration());
  from = std::chrono::floor<std::chrono::minutes>(from);
  const auto draw = [&](double times) {
    const router::sim::MixPart part{.client = 0, .times = times, .shift = {}};
    const auto calls = router::sim::Mixed(std::span(&client, 1), std::span(&part, 1),
                                          {.from = from, .length = length, .max_calls = 0}, 1);
    std::vector<Request> requests = router::sim::RequestsOf(*calls);
    for (Request& request : requests) request.at -= from;
    return requests;
  };
  double times = std::min(1.0, 1000 / (busiest->rate * conf::ToSeconds(length)));
  std::vector<Request> requests = draw(times);
  for (int i = 0; i < 3; ++i) {  // bursts do not grow in proportion
    const double now = PeakOf(requests, capacity, 0);
    if (now <= 0) break;
    times *= std::min(peak / now, kMostRequests / static_cast<double>(requests.size()));
    requests = draw(times);
  }
  return requests;
}

struct World {
  std::string_view name;
  bool bursty = false;
  double prompt = 0;  // tokens, mean
  double output = 0;
  double spread = 0;                       // of answers: sigma of a lognormal distribution
  std::function<double(double)> replicas;  // wanted at a second
};

double Wave(double second, double period) {
  return (1 - std::cos(2 * std::numbers::pi * second / period)) / 2;
}

std::vector<World> Worlds() {
  const auto on_off = [](double on, double off, double high) {
    return [=](double s) { return std::fmod(s + off / 2, on + off) < off ? 0.02 : high; };
  };
  // Bursts of a minute or so at irregular times, as when people edit code together.
  const auto code = [](double s) {
    const auto turn = static_cast<uint64_t>(s / 300);
    Rng rng(turn * 7919 + 5);
    const double begin = 150 * rng.Double();
    const double length = 30 + 90 * rng.Double();
    const double high = rng.Double() < 0.3 ? 0.05 : 3 + 12 * rng.Double();
    const double in = s - static_cast<double>(turn) * 300 - begin;
    return in >= 0 && in < length ? high : 0.05;
  };
  return {
      {"step", false, 2400, 500, 0.7, [](double s) { return s < 45 * kMinute ? 3.0 : 9.0; }},
      {"ramp", false, 2400, 500, 0.7,
       [](double s) { return 2 + 14 * std::max(0.0, 1 - std::abs(s / kMinute - 60) / 45); }},
      {"flash crowd", false, 1200, 400, 0.7,
       [](double s) { return s > 50 * kMinute && s < 62 * kMinute ? 16.0 : 3.0; }},
      {"on and off, 10 min idle", true, 2400, 300, 0.7, on_off(300, 600, 8)},
      {"day in two hours", false, 2400, 500, 0.7, [](double s) { return 2 + 12 * Wave(s, 7200); }},
      {"heavy answers", false, 400, 1200, 1.6, [](double s) { return 5 + 3 * Wave(s, 5400); }},
      {"code completion", true, 1800, 25, 0.6, code},
      {"code completion, small", true, 1800, 25, 0.6, [=](double s) { return 0.25 * code(s + 3600); }},
  };
}

std::vector<Request> MadeUp(const World& world, conf::Duration length, const autoscale::Capacity& capacity) {
  Rng rng(11);
  const auto lognormal = [&](double mean, double sigma) {
    const double value = mean * std::exp(sigma * scheduler::sim::Normal(rng) - sigma * sigma / 2);
    return static_cast<uint32_t>(std::clamp(std::round(value), 1.0, 16384.0));
  };
  // The work of a mean request, by a sample.
  double work = 0;
  constexpr int kSample = 2000;
  for (int i = 0; i < kSample; ++i)
    work += Work(capacity, lognormal(world.prompt, 0.7), lognormal(world.output, world.spread), 0) / kSample;
  double all = 0;
  for (double second = 0; second < conf::ToSeconds(length); ++second) all += world.replicas(second) / work;
  const double part = std::min(1.0, kMostRequests / all);
  std::vector<Request> requests;
  for (double second = 0; second < conf::ToSeconds(length); second += 1) {
    const double rate = part * world.replicas(second) / work;
    double at = -std::log1p(-rng.Double()) / rate;
    for (; at < 1; at += -std::log1p(-rng.Double()) / rate) {
      requests.push_back({.at = conf::Duration(static_cast<int64_t>((second + at) * 1e9)),
                          .prompt_tokens = lognormal(world.prompt, 0.7),
                          .output_tokens = lognormal(world.output, world.spread),
                          .blocks = {}});
    }
  }
  return requests;
}

// As many copies of the trace as its busiest ten minutes need to keep `peak` replicas busy.
std::vector<Request> Scaled(std::vector<Request> requests, double peak, conf::Duration length, double hits,
                            const autoscale::Capacity& capacity) {
  requests = router::sim::Looped(requests, length);
  const double wanted = std::min(peak / PeakOf(requests, capacity, hits),
                                 2 * kMostRequests / static_cast<double>(requests.size()));
  const double copies = std::max(1.0, std::round(wanted));
  return copies > 1 ? router::sim::Copied(requests, static_cast<uint32_t>(copies), kSpread, 1) : requests;
}

class Builder {
 public:
  Builder(std::vector<CrossCase>& cases, bool quick) : cases_(cases), quick_(quick) {}

  // Which engine and size the next case gets, or whether it is left out.
  bool Begins() {
    const size_t at = count_++;
    if (quick_ && at % kQuickEach != 0) return false;
    const size_t turn = quick_ ? at / kQuickEach : at;
    next_ = CrossCase();
    peak_ = kPeaks[(turn / kPresets.size() + turn) % kPeaks.size()];
    Take(kPresets[turn % kPresets.size()]);
    return true;
  }
  void Take(const char* preset) {
    next_.preset = preset;
    next_.engine = router::sim::Simulated(*scheduler::engine::FindPreset(preset));
  }
  void Ends() {
    if (next_.requests.size() > 1) cases_.push_back(std::move(next_));
  }
  CrossCase& next() { return next_; }
  double peak() const { return peak_; }
  autoscale::Capacity capacity() const { return autoscale::CapacityOf(next_.engine); }
  conf::Duration length() const { return quick_ ? kQuickLength : kLength; }

 private:
  std::vector<CrossCase>& cases_;
  bool quick_;
  size_t count_ = 0;
  double peak_ = 0;
  CrossCase next_;
};

}  // namespace

std::optional<std::vector<CrossCase>> LoadCrossCases(const std::string& traces, bool quick) {
  std::vector<CrossCase> cases;
  Builder builder(cases, quick);
  for (const ClientFile& file : ClientsIn(traces + "/servegen")) {
    if (!builder.Begins()) continue;
    const auto client = LoadClient(file);
    if (!client) return std::nullopt;
    CrossCase& c = builder.next();
    c.name = file.name;
    c.origin = Origin::kClient;
    c.requests = BusiestOf(*client, builder.peak(), builder.length(), builder.capacity());
    if (PeakOf(c.requests, builder.capacity(), 0) < kLeastPeak) {
      builder.Take(kPresets.back());
      c.requests = BusiestOf(*client, builder.peak(), builder.length(), builder.capacity());
    }
    // Else its requests are too short: hundreds a second for each replica.
    if (PeakOf(c.requests, builder.capacity(), 0) < kLeastPeak) c.requests.clear();
    builder.Ends();
  }
  struct Trace {
    std::string_view name;
    std::string_view file;
    router::sim::TrafficFormat format;
    bool optional;  // not part of every copy of the traces
  };
  const std::array<Trace, 3> recorded = {
      Trace{"azure conversations", "azure_llm/AzureLLMInferenceTrace_conv.csv",
            router::sim::TrafficFormat::kAzure, false},
      Trace{"mooncake conversations", "mooncake/conversation_trace.jsonl",
            router::sim::TrafficFormat::kMooncake, false},
      Trace{"mooncake tool, agent", "mooncake/toolagent_trace.jsonl", router::sim::TrafficFormat::kMooncake,
            true}};
  for (const Trace& trace : recorded) {
    const std::string path = fmt::format("{}/{}", traces, trace.file);
    if (trace.optional && !std::filesystem::exists(path)) continue;
    if (!builder.Begins()) continue;
    auto requests = LoadRequests(path, trace.format);
    if (!requests) return std::nullopt;
    CrossCase& c = builder.next();
    c.name = trace.name;
    c.origin = Origin::kTrace;
    builder.Take(kPresets.front());  // the prompts are long
    c.hits = router::sim::SharedCacheHitRatio(*requests, c.engine.kv_blocks);
    const conf::Duration length =
        trace.format == router::sim::TrafficFormat::kMooncake ? builder.length() / 2 : builder.length();
    c.requests = Scaled(*std::move(requests), builder.peak(), length, c.hits, builder.capacity());
    builder.Ends();
  }
  for (const World& world : Worlds()) {
    if (!builder.Begins()) continue;
    CrossCase& c = builder.next();
    c.name = world.name;
    c.bursty = world.bursty;
    c.requests = MadeUp(world, builder.length(), builder.capacity());
    builder.Ends();
  }
  return cases;
}

}  // namespace bench::autoscaling
