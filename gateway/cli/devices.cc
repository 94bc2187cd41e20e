// tidegate devices: lists the GPUs and NPUs of this machine as the tools of their vendors report them, with what they
// measure now, and shows how a configuration names them.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "gateway/cli/commands.h"
#include "gateway/cli/output.h"
#include "gateway/net/clock.h"
#include "plugins/devices/builtin.h"
#include "plugins/devices/faults.h"
#include "plugins/devices/machine.h"
#include "plugins/devices/sampler.h"

namespace gateway::cli {
namespace {

using nlohmann::ordered_json;
using plugins::devices::Device;
using plugins::devices::Found;

// In the form of `scaling.cluster`.
std::string ClusterOf(const scheduler::Cluster& cluster) {
  std::string out;
  for (const scheduler::Node& node : cluster.nodes) {
    const scheduler::NodeType& type = cluster.types[node.type];
    if (type.devices == 0) continue;
    fmt::format_to(std::back_inserter(out), "{}{{kind: {}, count: {}}}", out.empty() ? "" : ", ",
                   cluster.kinds[type.kind].name, type.devices);
  }
  return "[" + out + "]";
}

template <class T>
ordered_json OrNull(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json();
}

ordered_json DeviceAsJson(const Device& device, const plugins::devices::Reading* reading) {
  ordered_json out = {{"vendor", plugins::devices::Name(device.vendor)},
                      {"kind", device.kind},
                      {"product", device.product},
                      {"memory_mib", device.memory_mib},
                      {"uuid", device.uuid},
                      {"visible_as", device.visible},
                      {"numa", device.numa ? ordered_json(*device.numa) : ordered_json()},
                      {"link_domain", device.link_domain},
                      {"instances", ordered_json::array()},
                      {"trouble", device.trouble.empty() ? ordered_json() : ordered_json(device.trouble)}};
  for (const plugins::devices::Instance& instance : device.instances) {
    out["instances"].push_back({{"profile", instance.profile},
                                {"start", instance.start},
                                {"memory_mib", instance.memory_mib},
                                {"visible_as", instance.visible}});
  }
  if (reading == nullptr) return out;
  out["measured"] = {{"utilization", OrNull(reading->utilization)},
                     {"memory_used_mib", OrNull(reading->memory_used_mib)},
                     {"power_watts", OrNull(reading->watts)},
                     {"power_limit_watts", OrNull(reading->watts_limit)},
                     {"temperature_celsius", OrNull(reading->celsius)},
                     {"clock_mhz", OrNull(reading->clock_mhz)},
                     {"ecc_corrected", OrNull(reading->ecc_corrected)},
                     {"ecc_uncorrected", OrNull(reading->ecc_uncorrected)},
                     {"link_errors", OrNull(reading->link_errors)},
                     {"energy_mj", OrNull(reading->energy_mj)},
                     {"errors", reading->errors}};
  return out;
}

// What the devices measure now, by their keys. A tool that hangs is not waited for.
std::vector<plugins::devices::Reading> ReadDevices(const std::vector<Device>& devices,
                                                   std::vector<std::string>& problems) {
  constexpr conf::Duration kPatience = std::chrono::seconds(5);
  std::vector<plugins::devices::Reading> out;
  for (plugins::devices::Reader& reader : plugins::devices::BuiltinReaders()) {
    const auto reads = [&](const Device& device) { return device.vendor == reader.vendor; };
    if (std::ranges::none_of(devices, reads)) continue;
    const plugins::devices::Sampler sampler(reader.name, std::move(reader.read), std::chrono::hours(1));
    const conf::TimePoint until = net::Now() + kPatience;
    while (sampler.Latest()->at == conf::TimePoint() && net::Now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const auto readings = sampler.Latest();
    if (readings->at == conf::TimePoint())
      problems.push_back(fmt::format("{}: it does not answer", reader.name));
    out.insert(out.end(), readings->devices.begin(), readings->devices.end());
    for (const std::string& problem : readings->problems)
      problems.push_back(fmt::format("{}: {}", reader.name, problem));
  }
  return out;
}

const plugins::devices::Reading* ReadingOf(const Device& device,
                                           const std::vector<plugins::devices::Reading>& all) {
  const auto found = std::ranges::find_if(all, [&](const plugins::devices::Reading& one) {
    return one.key == plugins::devices::KeyOf(device) || one.key == device.visible;
  });
  return found == all.end() ? nullptr : &*found;
}

template <class T>
std::string Figure(const std::optional<T>& value, double unit, std::string_view name) {
  return value ? fmt::format("{:.0f} {}", static_cast<double>(*value) * unit, name) : "-";
}

int ListDevices(bool json) {
  Found found = plugins::devices::ProbeDevices();
  const std::vector<plugins::devices::Reading> readings = ReadDevices(found.devices, found.problems);
  const auto machine = plugins::devices::MakeMachineCluster(plugins::devices::ThisMachine(), found.devices);
  if (json) {
    ordered_json out = {{"devices", ordered_json::array()},
                        {"cluster", ClusterOf(machine.cluster)},
                        {"left_out", machine.left_out},
                        {"problems", found.problems}};
    for (const Device& device : found.devices)
      out["devices"].push_back(DeviceAsJson(device, ReadingOf(device, readings)));
    fmt::print("{}\n", AsText(out));
    return kOk;
  }
  for (const std::string& problem : found.problems) fmt::print(stderr, "tidegate: {}\n", problem);
  if (found.devices.empty()) {
    fmt::print(
        "no GPU or NPU was found: libnvidia-ml.so.1, npu-smi and rocm-smi are missing or list no device\n");
    return kOk;
  }
  Table table({{"VENDOR"},
               {"KIND"},
               {"PRODUCT"},
               {"MEMORY", true},
               {"LINK", true},
               {"NUMA", true},
               {"VISIBLE AS"},
               {"USE", true},
               {"USED", true},
               {"POWER", true},
               {"TEMP", true}});
  for (const Device& device : found.devices) {
    const plugins::devices::Reading* const reading = ReadingOf(device, readings);
    const plugins::devices::Reading of = reading == nullptr ? plugins::devices::Reading() : *reading;
    table.Add({std::string(plugins::devices::Name(device.vendor)), device.kind, device.product,
               fmt::format("{} MiB", device.memory_mib), std::to_string(device.link_domain),
               device.numa ? std::to_string(*device.numa) : "-", device.visible,
               Figure(of.utilization, 100, "%"), Figure(of.memory_used_mib, 1, "MiB"),
               Figure(of.watts, 1, "W"), Figure(of.celsius, 1, "°C")});
    for (const plugins::devices::Instance& instance : device.instances)
      table.Add({"", "", "  " + instance.profile, fmt::format("{} MiB", instance.memory_mib), "", "",
                 instance.visible, "", "", "", ""});
  }
  fmt::print("{}", table.Render());
  for (const std::string& left : machine.left_out) fmt::print("not used: {}\n", left);
  fmt::print("\nIn a configuration: scaling.cluster: probe, or the same declared by hand: {}\n",
             ClusterOf(machine.cluster));
  return kOk;
}

}  // namespace

void AddDevices(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("devices", "List the GPUs and NPUs of this machine");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print JSON");
  command->footer("Examples:\n  tidegate devices\n  tidegate devices --json");
  command->callback([json, &run] { run = [json] { return ListDevices(*json); }; });
}

}  // namespace gateway::cli
