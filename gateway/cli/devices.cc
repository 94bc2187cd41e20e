// tidegate devices: lists the GPUs and NPUs of this machine as the tools of their vendors report them, and
// shows how a configuration names them.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "gateway/cli/commands.h"
#include "gateway/cli/output.h"
#include "plugins/devices/builtin.h"
#include "plugins/devices/machine.h"

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

ordered_json DeviceAsJson(const Device& device) {
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
  return out;
}

int ListDevices(bool json) {
  const Found found = plugins::devices::ProbeDevices();
  const auto machine = plugins::devices::MakeMachineCluster(plugins::devices::ThisMachine(), found.devices);
  if (json) {
    ordered_json out = {{"devices", ordered_json::array()},
                        {"cluster", ClusterOf(machine.cluster)},
                        {"left_out", machine.left_out},
                        {"problems", found.problems}};
    for (const Device& device : found.devices) out["devices"].push_back(DeviceAsJson(device));
    fmt::print("{}\n", AsText(out));
    return kOk;
  }
  for (const std::string& problem : found.problems) fmt::print(stderr, "tidegate: {}\n", problem);
  if (found.devices.empty()) {
    fmt::print(
        "no GPU or NPU was found: libnvidia-ml.so.1, npu-smi and rocm-smi are missing or list no device\n");
    return kOk;
  }
  Table table(
      {{"VENDOR"}, {"KIND"}, {"PRODUCT"}, {"MEMORY", true}, {"LINK", true}, {"NUMA", true}, {"VISIBLE AS"}});
  for (const Device& device : found.devices) {
    table.Add({std::string(plugins::devices::Name(device.vendor)), device.kind, device.product,
               fmt::format("{} MiB", device.memory_mib), std::to_string(device.link_domain),
               device.numa ? std::to_string(*device.numa) : "-", device.visible});
    for (const plugins::devices::Instance& instance : device.instances)
      table.Add({"", "", "  " + instance.profile, fmt::format("{} MiB", instance.memory_mib), "", "",
                 instance.visible});
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
