#include "bench/autoscaling/day.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <numeric>

#include "router/sim/servegen.h"

namespace bench::autoscaling {
namespace {

constexpr size_t kSteps = kDay / kPaceFor;

std::string ReadWhole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

double MeanOf(std::span<const double> rates) {
  return std::accumulate(rates.begin(), rates.end(), 0.0) / static_cast<double>(rates.size());
}

}  // namespace

std::optional<std::vector<double>> RatesOf(const std::string& traces,
                                           std::span<const std::string_view> clients) {
  std::vector<double> rates(kSteps, 0);
  for (const std::string_view client : clients) {
    const size_t slash = client.find('/');
    const std::string path =
        fmt::format("{}/servegen/{}/chunk-{}", traces, client.substr(0, slash), client.substr(slash + 1));
    const std::string trace = path + "-trace.csv";
    const std::string dataset = path + "-dataset.json";
    const std::string rows = ReadWhole(trace);
    const std::string histograms = ReadWhole(dataset);
    const router::sim::LoadedClient loaded =
        router::sim::ReadServegenClient({trace, rows}, {dataset, histograms});
    if (!loaded.client) {
      fmt::print(stderr, "{}: cannot be read\n", trace);
      return std::nullopt;
    }
    for (const router::sim::ServegenClient::Window& window : loaded.client->windows) {
      const auto step = static_cast<size_t>(window.from / kPaceFor);
      if (step < kSteps) rates[step] += window.rate;
    }
  }
  return rates;
}

double PeakOverMean(std::span<const double> rates) {
  return *std::ranges::max_element(rates) / MeanOf(rates);
}

std::vector<router::sim::Request> DayOf(std::span<const router::sim::Request> hour,
                                        std::span<const double> rates, double pace) {
  std::vector<router::sim::Request> day;
  const double mean = MeanOf(rates);
  const double period = conf::ToSeconds(hour.back().at) + 1;
  const double length = conf::ToSeconds(kPaceFor);
  double heard = 0;  // seconds of the recorded hours
  size_t next = 0;
  double round = 0;  // when the present repetition began, in those
  for (size_t step = 0; step < rates.size(); ++step) {
    const double speed = pace * rates[step] / mean;
    const double until = heard + speed * length;
    while (speed > 0 && round + conf::ToSeconds(hour[next].at) < until) {
      const double at =
          static_cast<double>(step) * length + (round + conf::ToSeconds(hour[next].at) - heard) / speed;
      day.push_back(hour[next]);
      day.back().at = conf::Duration(static_cast<int64_t>(1e9 * at));
      if (++next < hour.size()) continue;
      next = 0;
      round += period;
    }
    heard = until;
  }
  return day;
}

}  // namespace bench::autoscaling
