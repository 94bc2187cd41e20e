// tidegate jobs, nodes, queues: the jobs that a running gateway runs beside its replicas, and the nodes and
// queues that both share.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <thread>

#include "conf/file_problem.h"
#include "conf/text.h"
#include "gateway/cli/admin_client.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/files.h"
#include "gateway/cli/output.h"
#include "gateway/cli/problems.h"
#include "gateway/config/job_file.h"
#include "gateway/control/workloads/workload.h"
#include "gateway/net/url.h"

namespace gateway::cli {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t kMostJobFile = 192 * 1024;  // and of the file of its parameters: both fit a request
constexpr std::chrono::milliseconds kLogInterval{500};

struct JobsOptions {
  AdminOptions admin;
  std::string file;
  bool check = false;
  std::string id;
  std::vector<std::string> ids;
  bool all = false;
  std::string state;
  std::string queue;
  std::string tenant;
  uint32_t rank = 0;
  uint32_t bytes = 64 * 1024;
  bool before = false;
  bool follow = false;
  std::optional<uint32_t> device;
  std::string reason;
  bool measured = false;
  bool resources = false;
};
using JobsOptionsRef = std::shared_ptr<JobsOptions>;

int PrintSubmitted(const JobsOptions& options, const absl::StatusOr<ordered_json>& answer) {
  if (const auto code = FailOrPrintJson(answer, options.admin.json)) return *code;
  for (const ordered_json& id : (*answer)["jobs"]) fmt::print("{}\n", id.get<std::string>());
  const auto differences = answer->find("differences");
  if (differences == answer->end()) return kOk;
  // Not among the ids, which scripts read.
  for (const ordered_json& sentence : *differences)
    fmt::print(stderr, "not the same: {}\n", VisibleLines(sentence.get<std::string>()));
  return kOk;
}

// The text of the file of parameters that a job's sweep names, beside the job file; empty: it names none.
absl::StatusOr<std::string> ReadParameters(const std::string& job_file, const std::string& text) {
  std::string file = config::ParameterFileOf(text);
  if (file.empty()) return std::string();
  const size_t folder = job_file.rfind('/');
  if (!file.starts_with('/') && folder != std::string::npos) file = job_file.substr(0, folder + 1) + file;
  absl::StatusOr<std::string> parameters = ReadWhole(file, kMostJobFile);
  if (!parameters.ok())
    return absl::InvalidArgumentError(
        conf::Abseil(fmt::format("{}:/sweep/file: {}", job_file, conf::Std(parameters.status().message()))));
  return parameters;
}

int Submit(const JobsOptions& options) {
  const absl::StatusOr<std::string> text = ReadWhole(options.file, kMostJobFile);
  if (!text.ok())
    return PrintProblems({conf::FileProblem(options.file, conf::Std(text.status().message()))},
                         options.admin.json);
  const absl::StatusOr<std::string> parameters = ReadParameters(options.file, *text);
  if (!parameters.ok()) return Fail(parameters.status());
  const auto read = config::ReadJobFile(*text, options.file, config::ReferencesOnly(), *parameters);
  if (!read.value) return PrintProblems(read.problems, options.admin.json);
  if (options.check) {
    if (options.admin.json) {
      fmt::print("{}\n", ordered_json{{"valid", true}, {"name", read.value->name}}.dump());
    } else {
      fmt::print("{}: valid\n", options.file);
    }
    return kOk;
  }
  json body = {{"job", *text}, {"file", options.file}};
  if (!parameters->empty()) body["parameters"] = *parameters;
  return PrintSubmitted(options, AskAdmin(options.admin, "POST", "/admin/v1/jobs", body));
}

// A list as JSON, or as a table of these members.
int PrintList(const JobsOptions& options, const std::string& target, std::vector<Table::Column> columns,
              std::vector<std::string> (*row)(const ordered_json&)) {
  const absl::StatusOr<std::vector<ordered_json>> all = ListAdmin(options.admin, target);
  if (const auto code = FailOrPrintJson(all, options.admin.json)) return *code;
  Table table(std::move(columns));
  for (const ordered_json& one : *all) table.Add(row(one));
  fmt::print("{}", table.Render());
  return kOk;
}

int List(const JobsOptions& options) {
  std::string target = "/admin/v1/jobs?state=";
  target += net::PercentEncode(options.all ? "" : options.state.empty() ? "open" : options.state);
  if (!options.queue.empty()) target += "&queue=" + net::PercentEncode(options.queue);
  if (!options.tenant.empty()) target += "&tenant=" + net::PercentEncode(options.tenant);
  return PrintList(options, target,
                   {{"ID"},
                    {"WORK"},
                    {"STATE"},
                    {"QUEUE"},
                    {"USER"},
                    {"MEMBERS", true},
                    {"DEVICES", true},
                    {"SINCE"},
                    {"REASON"}},
                   [](const ordered_json& job) -> std::vector<std::string> {
                     return {TextOf(job["id"]),
                             TextOf(job["work"]),
                             TextOf(job["state"]),
                             TextOf(job["queue"]),
                             TextOf(job["user"]),
                             fmt::format("{} of {}", TextOf(job["members"]), TextOf(job["max_members"])),
                             TextOf(job["devices"]),
                             TextOf(job["since"]).substr(0, 19) + "Z",
                             TextOf(job["reason"])};
                   });
}

// "-" for a figure that is absent.
std::string Measured(const ordered_json& of, const char* name, double unit, const char* format) {
  const auto found = of.find(name);
  if (found == of.end() || !found->is_number()) return "-";
  return fmt::format(fmt::runtime(format), found->get<double>() * unit);
}

// A row for each device, with what it measured last.
int Devices(const JobsOptions& options) {
  const absl::StatusOr<std::vector<ordered_json>> nodes = ListAdmin(options.admin, "/admin/v1/nodes");
  if (const auto code = FailOrPrintJson(nodes, options.admin.json)) return *code;
  Table table({{"NODE"},
               {"DEVICE", true},
               {"KIND"},
               {"USE", true},
               {"MEMORY", true},
               {"POWER", true},
               {"TEMP", true},
               {"ENERGY", true},
               {"AS OF"},
               {"STATE"}});
  for (const ordered_json& node : *nodes) {
    for (const ordered_json& device : node["each"]) {
      std::vector<std::string> row = {TextOf(node["name"]), TextOf(device["device"]), TextOf(node["kind"])};
      std::string state = device["healthy"].get<bool>() ? "" : "broken";
      if (const auto found = device.find("measured"); found == device.end()) {
        row.insert(row.end(), {"-", "-", "-", "-", "-", "not measured"});
      } else {
        const ordered_json& of = *found;
        row.push_back(Measured(of, "utilization", 100, "{:.0f} %"));
        const std::string used = Measured(of, "memory_used_mib", 1.0 / 1024, "{:.1f}");
        row.push_back(used == "-" ? used
                                  : fmt::format("{} of {}", used,
                                                Measured(of, "memory_total_mib", 1.0 / 1024, "{:.1f} GiB")));
        row.push_back(Measured(of, "power_watts", 1, "{:.0f} W"));
        row.push_back(Measured(of, "temperature_celsius", 1, "{:.0f} °C"));
        row.push_back(of.value("energy_kwh", 0.0) < 1 ? Measured(of, "energy_kwh", 1000, "{:.1f} Wh")
                                                      : Measured(of, "energy_kwh", 1, "{:.1f} kWh"));
        row.push_back(TextOf(of["as_of"]).substr(0, 19) + "Z" + (of["old"].get<bool>() ? " (old)" : ""));
        for (const ordered_json& by : of["slowed_by"])
          state += fmt::format("{}slowed by {}", state.empty() ? "" : ", ", by.get<std::string>());
      }
      if (!device["reason"].is_null())
        state += fmt::format("{}{}", state.empty() ? "" : ": ", TextOf(device["reason"]));
      row.push_back(state.empty() ? "-" : state);
      table.Add(std::move(row));
    }
  }
  fmt::print("{}", table.Render());
  return kOk;
}

int Nodes(const JobsOptions& options) {
  return PrintList(
      options, "/admin/v1/nodes",
      {{"NODE"},
       {"HEALTH"},
       {"KIND"},
       {"DEVICES", true},
       {"FREE", true},
       {"POWER", true},
       {"HELD BY"},
       {"REASON"}},
      [](const ordered_json& node) -> std::vector<std::string> {
        std::string holders;
        std::string reasons = node["health_reason"].is_null() ? "" : TextOf(node["health_reason"]);
        for (const ordered_json& device : node["each"]) {
          for (const ordered_json& holder : device["held_by"])
            holders +=
                fmt::format("{}{}:{}", holders.empty() ? "" : " ", TextOf(device["device"]), TextOf(holder));
          const char* const word = !device["healthy"].get<bool>()   ? "broken"
                                   : device["cordoned"].get<bool>() ? "cordoned"
                                                                    : nullptr;
          if (word != nullptr)
            holders += fmt::format("{}{}:{}", holders.empty() ? "" : " ", TextOf(device["device"]), word);
          if (!device["reason"].is_null())
            reasons += fmt::format("{}device {}: {}", reasons.empty() ? "" : "; ", TextOf(device["device"]),
                                   TextOf(device["reason"]));
        }
        return {TextOf(node["name"]),
                TextOf(node["health"]),
                TextOf(node["kind"]),
                TextOf(node["devices"]),
                TextOf(node["free"]),
                Measured(node, "power_watts", 1, "{:.0f} W"),
                holders.empty() ? "-" : holders,
                reasons.empty() ? "-" : reasons};
      });
}

// Licences and the like.
int Resources(const JobsOptions& options) {
  return PrintList(options, "/admin/v1/resources",
                   {{"RESOURCE"}, {"COUNT", true}, {"FREE", true}, {"WAITING", true}, {"HELD BY"}},
                   [](const ordered_json& resource) -> std::vector<std::string> {
                     std::string holders;
                     for (const ordered_json& holder : resource["held_by"])
                       holders += (holders.empty() ? "" : " ") + TextOf(holder);
                     return {TextOf(resource["name"]), TextOf(resource["count"]), TextOf(resource["free"]),
                             TextOf(resource["waiting"]), holders.empty() ? "-" : holders};
                   });
}

int ChangeCordon(const JobsOptions& options, bool sets) {
  json body = json::object();
  if (options.device) body["device"] = *options.device;
  if (!options.reason.empty()) body["reason"] = options.reason;
  const absl::StatusOr<ordered_json> answer = AskAdmin(
      options.admin, "POST",
      fmt::format("/admin/v1/nodes/{}:{}", net::PercentEncode(options.id), sets ? "cordon" : "uncordon"),
      body);
  if (const auto code = FailOrPrintJson(answer, options.admin.json)) return *code;
  fmt::print("{}{} {}\n", options.device ? fmt::format("device {} of ", *options.device) : "", options.id,
             sets ? "gets no new work" : "takes new work again");
  return kOk;
}
int Cordon(const JobsOptions& options) {
  return ChangeCordon(options, true);
}
int Uncordon(const JobsOptions& options) {
  return ChangeCordon(options, false);
}

int ChangeDrain(const JobsOptions& options, bool begins) {
  json body = json::object();
  if (!options.reason.empty()) body["reason"] = options.reason;
  const absl::StatusOr<ordered_json> answer = AskAdmin(
      options.admin, "POST",
      fmt::format("/admin/v1/nodes/{}:{}", net::PercentEncode(options.id), begins ? "drain" : "undrain"),
      body);
  if (const auto code = FailOrPrintJson(answer, options.admin.json)) return *code;
  fmt::print("{} {}\n", options.id,
             begins ? "gets no new work; its running work moves elsewhere" : "takes new work again");
  return kOk;
}
int Drain(const JobsOptions& options) {
  return ChangeDrain(options, true);
}
int Undrain(const JobsOptions& options) {
  return ChangeDrain(options, false);
}

int Queues(const JobsOptions& options) {
  return PrintList(
      options, "/admin/v1/queues",
      {{"QUEUE"},
       {"PARENT"},
       {"DESERVED", true},
       {"USED", true},
       {"ASKED", true},
       {"RUNNING", true},
       {"WAITING", true},
       {"DEVICE-HOURS", true}},
      [](const ordered_json& queue) -> std::vector<std::string> {
        return {
            TextOf(queue["name"]),         TextOf(queue["parent"]),
            TextOf(queue["deserved"]),     TextOf(queue["used"]),
            TextOf(queue["asked"]),        TextOf(queue["jobs_running"]),
            TextOf(queue["jobs_waiting"]), fmt::format("{:.2f}", queue["usage_device_hours"].get<double>())};
      });
}

int Explain(const JobsOptions& options) {
  const absl::StatusOr<ordered_json> answer = AskAdmin(
      options.admin, "GET", fmt::format("/admin/v1/jobs/{}/explain", net::PercentEncode(options.id)));
  if (const auto code = FailOrPrintJson(answer, options.admin.json)) return *code;
  for (const ordered_json& sentence : (*answer)["text"]) fmt::print("{}\n", sentence.get<std::string>());
  return kOk;
}

// "lr=0.1 layers=4"
std::string ParametersIn(const ordered_json& job) {
  const ordered_json& parameters = job["parameters"];
  if (!parameters.is_array()) return "-";
  std::string text;
  for (const ordered_json& one : parameters)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", TextOf(one["name"]), TextOf(one["value"]));
  return text.empty() ? "-" : text;
}

int Compare(const JobsOptions& options) {
  std::string jobs;
  for (const std::string& id : options.ids) jobs += (jobs.empty() ? "" : ",") + id;
  const absl::StatusOr<ordered_json> answer =
      AskAdmin(options.admin, "GET", "/admin/v1/jobs:compare?jobs=" + net::PercentEncode(jobs));
  if (const auto code = FailOrPrintJson(answer, options.admin.json)) return *code;
  const std::string metric = (*answer)["metric"].is_null() ? "VALUE" : TextOf((*answer)["metric"]);
  Table table({{"ID"},
               {"STATE"},
               {"PARAMETERS"},
               {"STEP", true},
               {metric, true},
               {"BEST", true},
               {"DEVICE-HOURS", true},
               {"REMARK"}});
  for (const ordered_json& job : (*answer)["jobs"]) {
    std::string remark = job["id"] == (*answer)["leads"] ? "the best" : "";
    if (!job["stopped"].is_null())
      remark += fmt::format("{}stopped early: {}", remark.empty() ? "" : "; ", TextOf(job["stopped"]));
    if (!job["unread"].is_null())
      remark += fmt::format("{}{}", remark.empty() ? "" : "; ", TextOf(job["unread"]));
    table.Add({TextOf(job["id"]), TextOf(job["state"]), ParametersIn(job), TextOf(job["step"]),
               Measured(job, "value", 1, "{:.6g}"), Measured(job, "best", 1, "{:.6g}"),
               Measured(job, "device_hours", 1, "{:.3f}"), remark.empty() ? "-" : remark});
  }
  fmt::print("{}", table.Render());
  return kOk;
}

absl::StatusOr<ordered_json> AskLog(const JobsOptions& options, std::string_view more) {
  return AskAdmin(options.admin, "GET",
                  fmt::format("/admin/v1/jobs/{}/logs?rank={}&bytes={}{}{}", net::PercentEncode(options.id),
                              options.rank, options.bytes, options.before ? "&attempt=before" : "", more));
}

bool IsOver(const JobsOptions& options) {
  const absl::StatusOr<ordered_json> job =
      AskAdmin(options.admin, "GET", "/admin/v1/jobs/" + net::PercentEncode(options.id));
  return job.ok() && control::IsOver(TextOf((*job)["state"]));
}

// Prints new output of all attempts, until the job has ended.
int Follow(const JobsOptions& options) {
  uint64_t attempt = 0;  // the attempt whose output is printed; 0: none has begun
  uint64_t next = 0;
  while (true) {
    const auto from = [&] { return fmt::format("&from={}", next); };
    absl::StatusOr<ordered_json> log = AskLog(options, attempt == 0 ? "" : from());
    const bool not_begun = absl::IsFailedPrecondition(log.status()) && !IsOver(options);
    if (!log.ok() && !not_begun) return Fail(log.status());
    std::string text;
    if (!not_begun) {
      const uint64_t now = (*log)["attempt"].get<uint64_t>();
      const bool another = attempt != 0 && now != attempt;
      if (another && now == attempt + 1) {
        log = AskLog(options, "&attempt=before" + from());  // its last output
        if (!log.ok()) return Fail(log.status());
      }
      text = (*log)["text"].get<std::string>();
      next = another ? 0 : (*log)["next"].get<uint64_t>();
      attempt = now;
      if (const absl::Status printed = Print(text); !printed.ok()) return Fail(printed);
      if (another) continue;
      if (text.empty() && (*log)["over"].get<bool>()) return kOk;
    }
    if (text.empty()) std::this_thread::sleep_for(kLogInterval);
  }
}

int Logs(const JobsOptions& options) {
  if (options.follow) return Follow(options);
  const absl::StatusOr<ordered_json> answer = AskLog(options, "");
  if (const auto code = FailOrPrintJson(answer, options.admin.json)) return *code;
  const absl::Status printed = Print((*answer)["text"].get<std::string>());
  return printed.ok() ? kOk : Fail(printed);
}

int Change(const JobsOptions& options, std::string_view change) {
  const absl::StatusOr<ordered_json> answer = AskAdmin(
      options.admin, "POST", fmt::format("/admin/v1/jobs/{}:{}", net::PercentEncode(options.id), change));
  if (const auto code = FailOrPrintJson(answer, options.admin.json)) return *code;
  fmt::print("{} is {}\n", options.id, TextOf((*answer)["state"]));
  return kOk;
}
int Cancel(const JobsOptions& options) {
  return Change(options, "cancel");
}
int Suspend(const JobsOptions& options) {
  return Change(options, "suspend");
}
int Resume(const JobsOptions& options) {
  return Change(options, "resume");
}

int Rerun(const JobsOptions& options) {
  return PrintSubmitted(options,
                        AskAdmin(options.admin, "POST",
                                 fmt::format("/admin/v1/jobs/{}:rerun", net::PercentEncode(options.id))));
}

CLI::App* AddCommand(CLI::App& to, Run& run, const char* name, const char* what,
                     const JobsOptionsRef& options, int (*action)(const JobsOptions&)) {
  CLI::App* command = to.add_subcommand(name, what);
  AddAdminOptions(*command, options->admin);
  command->callback([options, action, &run] { run = [options, action] { return action(*options); }; });
  return command;
}

void AddChange(CLI::App& jobs, Run& run, const char* name, const char* what,
               int (*action)(const JobsOptions&)) {
  auto options = std::make_shared<JobsOptions>();
  CLI::App* command = AddCommand(jobs, run, name, what, options, action);
  command->add_option("id", options->id, "The job's id")->required();
  command->footer(fmt::format("Example:\n  tidegate jobs {} finetune-qwen-7", name));
}

}  // namespace

void AddJobs(CLI::App& app, Run& run) {
  CLI::App* jobs = app.add_subcommand("jobs", "Submit and manage training, batch jobs and notebooks");
  jobs->require_subcommand(1);
  jobs->footer(
      fmt::format("These commands ask a running gateway. They need an admin key in {} or --key-file.",
                  kAdminKeyVariable));

  auto options = std::make_shared<JobsOptions>();
  CLI::App* submit =
      AddCommand(*jobs, run, "submit", "Submit a job file and print the ids of its jobs", options, Submit);
  submit->add_option("file", options->file, "A job file, as in conf/jobs")->required();
  submit->add_flag("--check", options->check, "Only check the file; needs no gateway");
  submit->footer("Examples:\n  tidegate jobs submit train.yaml\n  tidegate jobs submit train.yaml --check");

  options = std::make_shared<JobsOptions>();
  CLI::App* list =
      AddCommand(*jobs, run, "list", "List jobs, in the order of their submission", options, List);
  list->add_flag("--all", options->all, "Also jobs that have ended");
  list->add_option("--state", options->state,
                   "Only jobs in this state: pending, starting, running, saving, stopping, suspended, done, "
                   "failed, cancelled");
  list->add_option("--queue", options->queue, "Only jobs of this queue");
  list->add_option("--tenant", options->tenant, "Only jobs of this tenant and the tenants below it");
  list->footer("Examples:\n  tidegate jobs list\n  tidegate jobs list --state failed --json");

  options = std::make_shared<JobsOptions>();
  CLI::App* explain =
      AddCommand(*jobs, run, "explain", "Explain the state of a job and why it waits", options, Explain);
  explain->add_option("id", options->id, "The job's id")->required();
  explain->footer("Example:\n  tidegate jobs explain finetune-qwen-7");

  options = std::make_shared<JobsOptions>();
  CLI::App* logs = AddCommand(*jobs, run, "logs", "Print the last output of a member", options, Logs);
  logs->add_option("id", options->id, "The job's id")->required();
  logs->add_option("--rank", options->rank, "The rank of the member")->capture_default_str();
  logs->add_option("--bytes", options->bytes, "How many bytes from the end, at most 262144")
      ->capture_default_str();
  CLI::Option* before = logs->add_flag("--before", options->before, "The output of the previous attempt");
  logs->add_flag("-f,--follow", options->follow, "Keep printing until the job has ended or ctrl-C")
      ->excludes(before);
  logs->footer(
      "Examples:\n  tidegate jobs logs finetune-qwen-7\n  tidegate jobs logs finetune-qwen-7 --rank 3 "
      "--before\n  tidegate jobs logs finetune-qwen-7 --follow");

  options = std::make_shared<JobsOptions>();
  CLI::App* compare =
      AddCommand(*jobs, run, "compare",
                 "Show jobs, or the elements of a sweep, side by side: parameters, last reports, "
                 "device-hours",
                 options, Compare);
  compare->add_option("jobs", options->ids, "Jobs, arrays and sweeps by their ids")->required();
  compare->footer(
      "Examples:\n  tidegate jobs compare tune-7\n  tidegate jobs compare finetune-4 finetune-9 --json");

  AddChange(*jobs, run, "cancel", "End a job for good, or an array with all its elements", Cancel);
  AddChange(*jobs, run, "suspend", "Suspend a job: it saves its work and releases its devices", Suspend);
  AddChange(*jobs, run, "resume", "Let a suspended job start again", Resume);
  AddChange(*jobs, run, "rerun",
            "Submit the file of a job, or of an array, again, and print the ids of the new jobs", Rerun);
}

void AddNodes(CLI::App& app, Run& run) {
  CLI::App* nodes = app.add_subcommand("nodes", "List the nodes, or set some aside for maintenance");
  auto listed = std::make_shared<JobsOptions>();
  AddAdminOptions(*nodes, listed->admin);
  nodes->add_flag(
      "--devices", listed->measured,
      "Print a row for each device with its last figures: use, memory, power, temperature and energy");
  nodes->add_flag("--resources", listed->resources,
                  "The countable resources of the cluster, such as licences, and what holds them");
  nodes->require_subcommand(0, 1);
  nodes->callback([listed, nodes, &run] {
    if (nodes->get_subcommands().empty())
      run = [listed] {
        return listed->resources ? Resources(*listed) : listed->measured ? Devices(*listed) : Nodes(*listed);
      };
  });
  nodes->footer(
      "Examples:\n  tidegate nodes\n  tidegate nodes --devices\n  tidegate nodes --resources\n  tidegate "
      "nodes --admin "
      "http://127.0.0.1:9090 --json");

  const auto add = [&](const char* name, const char* what, int (*action)(const JobsOptions&)) {
    auto options = std::make_shared<JobsOptions>();
    CLI::App* command = AddCommand(*nodes, run, name, what, options, action);
    command->add_option("node", options->id, "The node's name")->required();
    command->add_option("--device", options->device, "Only this device: its place on the node, from 0");
    return std::pair(command, options);
  };
  const auto [cordon, of_cordon] =
      add("cordon", "Give a node, or a device, no new work; running work continues", Cordon);
  cordon->add_option("--reason", of_cordon->reason, "For people");
  cordon->footer(
      "Examples:\n  tidegate nodes cordon node-7 --reason \"its fan is replaced\"\n"
      "  tidegate nodes cordon node-7 --device 3");
  const auto [uncordon, of_uncordon] =
      add("uncordon", "Give a cordoned node, or device, new work again", Uncordon);
  uncordon->footer(
      "Examples:\n  tidegate nodes uncordon node-7\n  tidegate nodes uncordon node-7 --device 3");

  const auto add_drain = [&](const char* name, const char* what, int (*action)(const JobsOptions&)) {
    auto options = std::make_shared<JobsOptions>();
    CLI::App* command = AddCommand(*nodes, run, name, what, options, action);
    command->add_option("node", options->id, "The node's name")->required();
    command->add_option("--reason", options->reason, "For people and the ledger");
    command->footer(fmt::format("Example:\n  tidegate nodes {} node-7 --reason \"new firmware\"", name));
  };
  add_drain("drain", "Empty a node: replicas are replaced elsewhere, preemptible jobs save and move", Drain);
  add_drain("undrain", "Give a drained node new work again", Undrain);
}

void AddQueues(CLI::App& app, Run& run) {
  AddCommand(app, run, "queues", "List the queues: what each deserves, uses and waits for",
             std::make_shared<JobsOptions>(), Queues)
      ->footer("Examples:\n  tidegate queues\n  tidegate queues --json");
}

}  // namespace gateway::cli
