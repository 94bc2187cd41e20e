#include "gateway/cli/simulate/input.h"

#include <cmath>
#include <cstdlib>

#include "scheduler/model.h"

namespace gateway::cli {
namespace {

constexpr const char* kWorkload = "Workload";
constexpr const char* kCluster = "Cluster";
constexpr const char* kPolicy = "Policy";
constexpr const char* kWhatIf = "What-if changes, compared with the system as it is";
constexpr const char* kFaults = "Faults and checkpoints";

void AddPolicyShortcuts(CLI::App& command, SimulateInput& input) {
  command.add_option("--backfill", input.backfill, "fifo, best-effort, easy or conservative")
      ->check(CLI::IsMember({"fifo", "best-effort", "easy", "conservative"}))
      ->group(kPolicy);
  command.add_option("--defragment", input.defragment, "on or off")
      ->check(CLI::IsMember({"on", "off"}))
      ->group(kPolicy);
}

CLI::Option* AddPolicyFile(CLI::App& command, SimulateInput& input) {
  command.add_option("--placement", input.placement, "Placement, instead of the policy's")->group(kPolicy);
  return command.add_option("--policy", input.policy, "The policy, a YAML file; default: the default policy")
      ->group(kPolicy);
}

}  // namespace

void AddTraceOptions(CLI::App& command, SimulateInput& input) {
  command.add_option("TRACE", input.trace, "Recorded jobs, a file")->required()->type_name("");
  command.add_option("--format", input.format, "auto, jsonl, philly, openb or swf")
      ->check(CLI::IsMember({"auto", "jsonl", "philly", "openb", "swf"}))
      ->capture_default_str()
      ->group(kWorkload);
}

void AddClusterOptions(CLI::App& command, SimulateInput& input) {
  CLI::Option* const file =
      command.add_option("--cluster", input.cluster, "The cluster, a YAML file")->group(kCluster);
  CLI::Option* const list =
      command.add_option("--node-list", input.node_list, "Nodes as CSV (also openb's), alone or added")
          ->group(kCluster);
  const auto made_up = [&](const char* name, auto& value, const char* what, auto range) {
    command.add_option(name, value, what)
        ->check(range)
        ->capture_default_str()
        ->excludes(file)
        ->excludes(list)
        ->group(kCluster);
  };
  made_up("--nodes", input.nodes, "Without a file: number of nodes, all alike", CLI::Range(1, 200'000));
  made_up("--devices", input.devices, "GPUs in each node", CLI::Range(1, scheduler::kMaxDevices));
  made_up("--nodes-per-leaf", input.nodes_per_leaf, "Nodes under each leaf switch", CLI::Range(1, 1'000'000));
  made_up("--leaves-per-spine", input.leaves_per_spine, "0: no spines", CLI::Range(0, 1'000'000));
}

void AddPolicyOptions(CLI::App& command, SimulateInput& input) {
  CLI::Option* const policy = AddPolicyFile(command, input);
  command.add_option("--compare", input.compare, "Two policy files to compare")
      ->expected(2)
      ->excludes(policy)
      ->group(kPolicy);
}

void AddDecisionOptions(CLI::App& command, SimulateInput& input) {
  AddPolicyFile(command, input);
  AddPolicyShortcuts(command, input);
}

void AddTimeOptions(CLI::App& command, SimulateInput& input) {
  command.add_option("--scale", input.scale, "Factor by which jobs arrive faster")
      ->check(CLI::Range(1e-6, 1e6))
      ->check([](const std::string& text) -> std::string {
        return std::isnan(std::strtod(text.c_str(), nullptr)) ? "is not a number" : "";
      })
      ->capture_default_str()
      ->group(kWorkload);
  command.add_option("--repeat", input.repeat, "Times that the trace runs, one after the other")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str()
      ->group(kWorkload);
  command.add_option("--horizon", input.horizon, "Simulated time; 0s: until all jobs have ended")
      ->capture_default_str()
      ->group(kWorkload);
  command.add_option("--load", input.load, "Time from a job's start to its first work")
      ->capture_default_str()
      ->group(kWorkload);
  AddPolicyShortcuts(command, input);
  command.add_option("--min-cycle", input.min_cycle, "Shortest time between planning cycles")
      ->capture_default_str()
      ->group(kPolicy);
}

void AddWhatIfOptions(CLI::App& command, SimulateInput& input, bool queues) {
  command.add_option("--add-nodes", input.add_nodes, "More nodes of the last node's type")
      ->check(CLI::Range(0, 1'000'000))
      ->group(kWhatIf);
  command.add_option("--remove-nodes", input.remove_nodes, "Fewer nodes, from the end")
      ->check(CLI::Range(0, 1'000'000))
      ->group(kWhatIf);
  if (queues) {
    command.add_option("--queues", input.queues, "The queues of this policy file")->group(kWhatIf);
    command.add_option("--quota", input.quotas, "QUEUE=DEVICES or QUEUE=KIND:DEVICES that it deserves")
        ->group(kWhatIf);
  }
  command.add_flag("--without-base", input.without_base, "Run the what-if alone")->group(kWhatIf);
}

void AddFaultOptions(CLI::App& command, SimulateInput& input) {
  const auto text = [&](const char* name, std::string& out, const char* what) {
    return command.add_option(name, out, what)->group(kFaults);
  };
  text("--mtbf", input.mtbf, "Mean time between faults of a node; 0s: none")->capture_default_str();
  text("--repair", input.repair, "Time until a failed or drained node is back")->capture_default_str();
  text("--quarantine", input.quarantine, "The same, of a node that failed too often")->capture_default_str();
  command.add_option("--fail-leaf", input.fail_leaf, "NAME@TIME: the nodes of a leaf or spine fail")
      ->group(kFaults);
  command.add_option("--drain-node", input.drain_node, "NAME@TIME: a node takes no new work for a while")
      ->group(kFaults);
  text("--checkpoint", input.checkpoint, "Interval of checkpoints of jobs without one; 0s: none")
      ->capture_default_str();
  text("--save", input.save, "How long such a checkpoint takes")->capture_default_str();
  text("--restart", input.restart, "How long such a restore takes")->capture_default_str();
}

}  // namespace gateway::cli
