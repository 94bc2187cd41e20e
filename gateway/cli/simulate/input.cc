#include "gateway/cli/simulate/input.h"

#include <cmath>
#include <cstdlib>

#include "scheduler/model.h"

namespace gateway::cli {

void AddInputOptions(CLI::App& command, SimulateInput& input) {
  const auto text = [&](const char* name, std::string& out, const char* what) {
    return command.add_option(name, out, what);
  };
  text("--trace", input.trace, "Recorded jobs, a file");
  text("--format", input.format, "Format of the trace: jsonl, philly, openb or swf")
      ->check(CLI::IsMember({"jsonl", "philly", "openb", "swf"}))
      ->capture_default_str();
  command.add_option("--scale", input.scale, "Factor by which jobs arrive faster")
      ->check(CLI::Range(1e-6, 1e6))
      ->check([](const std::string& text) -> std::string {
        return std::isnan(std::strtod(text.c_str(), nullptr)) ? "is not a number" : "";
      })
      ->capture_default_str();
  command.add_option("--repeat", input.repeat, "Run the trace this many times, one after the other")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();

  text("--cluster", input.cluster, "The cluster, a YAML file; instead of --nodes and the options about them");
  text("--node-list", input.node_list, "Nodes as a CSV file (also openb's), alone or added to --cluster");
  command.add_option("--nodes", input.nodes, "Number of nodes, all alike")
      ->check(CLI::Range(1, 200'000))
      ->capture_default_str();
  command.add_option("--devices", input.devices, "GPUs in each node")
      ->check(CLI::Range(1, scheduler::kMaxDevices))
      ->capture_default_str();
  command.add_option("--nodes-per-leaf", input.nodes_per_leaf, "Nodes under each leaf switch")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command
      .add_option("--leaves-per-spine", input.leaves_per_spine,
                  "Leaf switches under each spine; 0: no spines")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  command.add_option("--add-nodes", input.add_nodes, "What if: add this many nodes of the last node's type")
      ->check(CLI::Range(0, 1'000'000));
  command.add_option("--remove-nodes", input.remove_nodes, "What if: remove this many nodes, from the end")
      ->check(CLI::Range(0, 1'000'000));

  CLI::Option* policy =
      text("--policy", input.policy, "The policy, a YAML file; default: the default policy");
  command.add_option("--compare", input.compare, "Two policy files to compare")
      ->expected(2)
      ->excludes(policy);
  text("--placement", input.placement, "Placement policy, instead of the file's");
  text("--backfill", input.backfill, "fifo, best-effort, easy or conservative, instead of the file's")
      ->check(CLI::IsMember({"fifo", "best-effort", "easy", "conservative"}));
  text("--defragment", input.defragment, "on or off, instead of the file's")
      ->check(CLI::IsMember({"on", "off"}));

  text("--queues", input.queues, "What if: the queues of this policy file");
  command.add_option("--quota", input.quotas,
                     "What if: QUEUE=DEVICES or QUEUE=KIND:DEVICES, what the queue deserves");
  command.add_flag("--without-base", input.without_base,
                   "Run the what-if alone, without the system as it is");

  text("--mtbf", input.mtbf, "Mean time between faults of one node; default: no faults");
  text("--repair", input.repair, "Time until a failed or drained node is back")->capture_default_str();
  text("--quarantine", input.quarantine,
       "Time until a node is back that failed too often by the policy's faults")
      ->capture_default_str();
  command.add_option("--fail-leaf", input.fail_leaf,
                     "NAME@TIME: all nodes of this leaf (or spine) fail, this long after the start");
  command.add_option("--drain-node", input.drain_node,
                     "NAME@TIME: this node takes no new work for the time of --repair");
  text("--checkpoint", input.checkpoint, "Interval of checkpoints, for jobs that give none");
  text("--save", input.save, "How long a checkpoint takes, with --checkpoint")->capture_default_str();
  text("--restart", input.restart, "How long a restore takes, with --checkpoint")->capture_default_str();
  text("--load", input.load, "Time from the start of a job to its first work")->capture_default_str();
  text("--min-cycle", input.min_cycle, "Shortest time between planning cycles")->capture_default_str();
  text("--horizon", input.horizon, "When the simulation ends; 0: when all jobs have ended")
      ->capture_default_str();
}

}  // namespace gateway::cli
