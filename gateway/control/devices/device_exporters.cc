#include "gateway/control/devices/device_exporters.h"

#include <absl/strings/str_replace.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "conf/text.h"
#include "gateway/config/node_url.h"
#include "gateway/net/clock.h"
#include "gateway/net/http/fetch.h"
#include "gateway/net/url.h"
#include "plugins/devices/dcgm.h"

namespace gateway::control {

DeviceExporters::DeviceExporters(
    net::Loop& loop, const std::vector<config::DeviceMetrics>& configured,
    std::function<void(const std::string&, const config::DeviceMetrics&, const plugins::devices::Readings&)>
        on_readings)
    : loop_(loop), configured_(configured), on_readings_(std::move(on_readings)) {}

void DeviceExporters::Tick(const std::vector<std::string>& nodes, conf::TimePoint now) {
  if (closed_ || configured_.empty()) return;
  struct Due {
    conf::TimePoint since;
    const config::DeviceMetrics* of;
    std::string node;
    std::string url;
  };
  std::set<std::string> known;
  std::vector<Due> due;
  const auto ask = [&](const config::DeviceMetrics& of, const std::string& node) {
    std::string url =
        node.empty() ? of.url : absl::StrReplaceAll(of.url, {{conf::Abseil(config::kNodeInUrl), node}});
    known.insert(url);
    const Asked& asked = asked_[url];
    if (!asked.under_way && now >= asked.next) due.push_back({asked.next, &of, node, std::move(url)});
  };
  for (const config::DeviceMetrics& of : configured_) {
    if (of.url.find(config::kNodeInUrl) == std::string::npos) {
      ask(of, {});
    } else {
      for (const std::string& node : nodes) ask(of, node);
    }
  }
  // Those that have waited longest go first: where many do not answer, the others still have their turn.
  std::ranges::sort(due, {}, &Due::since);
  for (Due& one : due) {
    if (under_way_ >= kMaxAtOnce) break;
    Asked& asked = asked_[one.url];
    asked.next = now + one.of->interval;
    asked.under_way = true;
    ++under_way_;
    loop_.tasks.Spawn(Ask(*one.of, std::move(one.node), std::move(one.url)));
  }
  std::erase_if(asked_, [&](const auto& one) { return !one.second.under_way && !known.contains(one.first); });
}

net::Task<void> DeviceExporters::Ask(const config::DeviceMetrics& of, std::string node, std::string url) {
  std::string trouble;
  net::http::FetchRequest request;
  request.timeout = kTimeout;
  request.max_response_bytes = kMaxAnswer;
  request.server_name = of.tls.server_name;
  const absl::StatusOr<net::Url> parsed = net::ParseUrl(url);
  if (!parsed.ok()) {
    trouble = conf::Std(parsed.status().message());
  } else {
    request.url = *parsed;
    if (parsed->tls) {
      auto tls =
          net::TlsContext::Client({of.tls.ca, of.tls.certificate, of.tls.key, !of.tls.insecure_skip_verify});
      tls.ok() ? void(request.tls = *std::move(tls)) : void(trouble = conf::Std(tls.status().message()));
    }
  }
  if (trouble.empty()) {
    const absl::StatusOr<net::http::FetchResponse> answer =
        co_await net::http::Fetch(loop_, std::move(request), &fetches_);
    if (!answer.ok()) {
      trouble = conf::Std(answer.status().message());
    } else if (answer->status != 200) {
      trouble = fmt::format("it answers {}", answer->status);
    } else {
      plugins::devices::Readings readings = plugins::devices::ParseDcgm(answer->body);
      readings.at = net::Now();
      if (readings.devices.empty()) trouble = "it reports no device under DCGM's names (DCGM_FI_DEV_…)";
      if (!readings.problems.empty()) trouble = readings.problems.front();
      if (!closed_) on_readings_(node, of, readings);
    }
  }
  --under_way_;
  if (const auto asked = asked_.find(url); asked != asked_.end()) {
    asked->second.under_way = false;
    asked->second.trouble = std::move(trouble);
  }
}

std::vector<TelemetryTrouble> DeviceExporters::troubles() const {
  std::vector<TelemetryTrouble> out;
  for (const auto& [url, asked] : asked_) {
    if (!asked.trouble.empty()) out.push_back({url, asked.trouble});
  }
  return out;
}

void DeviceExporters::Close() {
  closed_ = true;
  fetches_.Abort();
}

}  // namespace gateway::control
