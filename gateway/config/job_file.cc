#include "gateway/config/job_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "conf/json_parse.h"
#include "conf/placeholders.h"
#include "conf/reader.h"
#include "conf/shown.h"
#include "conf/text.h"
#include "gateway/config/command_text.h"
#include "gateway/config/device_need.h"
#include "gateway/config/gang.h"
#include "gateway/config/types.h"
#include "plugins/launchers/mps.h"
#include "plugins/launchers/visible_devices.h"
#include "scheduler/io/jobs_jsonl.h"
#include "scheduler/io/units.h"

namespace gateway::config {
namespace {

using scheduler::WorkClass;

constexpr size_t kMostOfName = 36;  // characters: a run's id is the name with numbers behind it
constexpr uint32_t kMostMembers = 4096;
constexpr uint32_t kMostRestarts = 1000;

constexpr conf::Word<WorkClass> kWork[] = {
    {"training", WorkClass::kTraining}, {"batch", WorkClass::kBatch}, {"notebook", WorkClass::kNotebook}};

// The ranks of conf/policies/scaling.
constexpr conf::Word<int32_t> kPriorities[] = {
    {"batch", 0}, {"normal", 100}, {"production", 1'000}, {"critical", 10'000}};

constexpr conf::Word<int> kSignals[] = {
    {"USR1", SIGUSR1},    {"USR2", SIGUSR2},    {"HUP", SIGHUP},    {"INT", SIGINT},    {"TERM", SIGTERM},
    {"SIGUSR1", SIGUSR1}, {"SIGUSR2", SIGUSR2}, {"SIGHUP", SIGHUP}, {"SIGINT", SIGINT}, {"SIGTERM", SIGTERM}};

// Variables that Tidegate and its launchers set for each member.
bool IsReserved(std::string_view name) {
  static constexpr std::array<std::string_view, 3> kDevices = {
      "CUDA_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"};
  return name.starts_with("TIDEGATE_") || IsGangVariable(name) ||
         std::ranges::find(kDevices, name) != kDevices.end();
}

struct JobName {
  std::string operator()(std::string_view name) const {
    const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; };
    const bool fits = !name.empty() && name.size() <= kMostOfName && std::ranges::all_of(name, allowed) &&
                      name.front() != '-' && name.back() != '-';
    return fits ? ""
                : fmt::format(
                      "must be 1 to {} lower-case letters, digits and '-', and neither begin nor end "
                      "with '-'",
                      kMostOfName);
  }
};

// `members: 4`, or `{min: 2, max: 4}` of a job that runs with fewer, too.
struct Members {
  scheduler::Role* role;
};
struct MemberRange {
  scheduler::Role* role;
};

void Bind(conf::Object& o, MemberRange& range) {
  o.Required("min", range.role->min_count, conf::Range{1U, kMostMembers});
  o.Required("max", range.role->count, conf::Range{1U, kMostMembers});
  if (range.role->min_count > range.role->count)
    o.Error(fmt::format("is {}; must be at most max, {}", range.role->min_count, range.role->count), "min");
}

void Read(const conf::Value& value, Members& members) {
  if (value.kind() == conf::Kind::kMapping) {
    MemberRange range{members.role};
    return conf::Read(value, range);
  }
  uint32_t count = 1;
  conf::Read(value, count);
  if (count == 0 || count > kMostMembers)
    return value.Error(fmt::format("must be from 1 to {}, or {{min: 2, max: 4}}", kMostMembers));
  members.role->count = members.role->min_count = count;
}

void Write(conf::Writer& writer, const Members& members) {
  if (members.role->min_count == members.role->count) return conf::Write(writer, members.role->count);
  conf::Write(writer, MemberRange{members.role});
}

struct Saving {
  JobCheckpoint* by;
  scheduler::Checkpoint* contract;
};

void Bind(conf::Object& o, Saving& saving) {
  JobCheckpoint& by = *saving.by;
  by.given = true;
  by.signal = SIGUSR1;
  saving.contract->save = std::chrono::seconds(30);
  o.Optional("signal", conf::Choice(by.signal, "signal", kSignals));
  o.Optional("grace", by.grace, UpToADay());
  o.Required("interval", saving.contract->interval, AnyLength());
  o.Optional("save", saving.contract->save, UpToADay());
  o.Optional("restart", saving.contract->restart, UpToADay());
  o.Optional("saved", by.saved, conf::NotEmpty());
  CommandWords resume{&by.resume};
  o.Optional("resume", resume, conf::NotEmpty());
  if (o.Has("save") && saving.contract->save > by.grace) {
    o.Error(fmt::format("takes {}, longer than grace, {}: it would be cut off",
                        conf::InWords(saving.contract->save), conf::InWords(by.grace)),
            "save");
  }
  saving.contract->save = std::min(saving.contract->save, by.grace);
}

struct NoneTwice {
  std::string operator()(const std::vector<std::string>& ids) const {
    for (auto id = ids.begin(); id != ids.end(); ++id) {
      if (id->empty()) return "must name jobs";
      if (std::find(std::next(id), ids.end(), *id) != ids.end()) return fmt::format("names {} twice", *id);
    }
    return "";
  }
};

struct Notebook {
  JobFile* job;
};

void Bind(conf::Object& o, Notebook& notebook) {
  o.Required("idle_timeout", notebook.job->job.idle_timeout, AnyLength());
  o.Optional("activity", notebook.job->activity, conf::NotEmpty());
}

struct Array {
  JobFile* job;
};

void Bind(conf::Object& o, Array& array) {
  o.Required("count", array.job->elements, conf::Range{1U, kMostElements});
  o.Optional("max_running", array.job->job.max_running, conf::Range{1U, kMostElements});
}

bool IsVariable(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && letter(name.front()) &&
         std::ranges::all_of(name, [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

void CheckEnvironment(conf::Object& o, const JobFile& job) {
  const auto check = [&](const auto& variables, std::string_view key) {
    for (const auto& [name, value] : variables) {
      if (!IsVariable(name)) {
        o.Error(fmt::format("\"{}\" is not the name of a variable", name), key);
      } else if (IsReserved(name)) {
        o.Error(fmt::format("{} is set by Tidegate for each member; remove it", name), key);
      }
    }
  };
  check(job.env, "env");
  check(job.secret_env, "secret_env");
  for (const auto& [name, value] : job.secret_env) {
    if (job.env.contains(name))
      o.Error(fmt::format("{} is in secret_env too; keep one of them", name), "env");
  }
}

void CheckTogether(conf::Object& o, const JobFile& job) {
  const scheduler::Role& role = job.job.roles.front();
  if (job.job.work == WorkClass::kNotebook) {
    if (role.count != 1) o.Error("must be 1 for a notebook", "members");
    if (job.elements > 0) o.Error("has no effect on a notebook; remove it", "array");
    if (o.Has("sweep")) o.Error("has no effect on a notebook; remove it", "sweep");
  } else if (o.Has("notebook")) {
    o.Error("has an effect on notebooks only; set work: notebook, or remove it", "notebook");
  }
  if (role.min_count < role.count && !job.checkpoint.given) {
    o.Error(
        "is a range: members restart when their number changes; give checkpoint, so that they keep their "
        "work",
        "members");
  }
  if (!job.command.empty() && job.command.front().empty()) o.Error("must begin with a program", "command");
  if (o.Has("sweep") && o.Has("array"))
    o.Error("cannot be given together with sweep, whose sets of parameters are its elements; remove it",
            "array");
  if (job.placing.isolation == scheduler::Isolation::kTenant && job.job.tenant.empty())
    o.Error("is tenant, which needs a tenant; give tenant, or isolation: node", "isolation");
  for (auto name = job.data.begin(); name != job.data.end(); ++name) {
    if (std::find(std::next(name), job.data.end(), *name) != job.data.end())
      o.Error(fmt::format("names {} twice", *name), "data");
  }
}

// The most devices that one element holds, whichever of its alternatives it gets. A partition counts as a whole one.
int64_t MostMilli(const scheduler::Role& role) {
  int64_t most = 0;
  for (const scheduler::DeviceAsk& ask : role.ask.devices) {
    const int64_t milli = ask.profile.empty() ? scheduler::DeviceMilli(ask) : scheduler::kWholeDevice;
    most = std::max(most, milli);
  }
  return most * role.count;
}

// Elements at a time are such that they never hold more than their budget, whichever they are.
void ShareBudget(conf::Object& o, JobFile& job) {
  Sweep& sweep = *job.sweep;
  job.elements = static_cast<uint32_t>(sweep.elements.size());
  job.job.max_running = sweep.parallel;
  if (sweep.max_devices == 0) return;
  const int64_t each = MostMilli(job.job.roles.front());
  if (each == 0)
    return o.Error("max_devices has no effect on a job without devices; give parallel instead", "sweep");
  const int64_t fit = int64_t{sweep.max_devices} * scheduler::kWholeDevice / each;
  if (fit == 0) {
    return o.Error(fmt::format("max_devices is {}, and one element takes {}; give at least as many",
                               sweep.max_devices, scheduler::io::FormatMilli(each)),
                   "sweep");
  }
  const auto most = static_cast<uint32_t>(std::min<int64_t>(fit, kMostElements));
  job.job.max_running = sweep.parallel == 0 ? most : std::min(sweep.parallel, most);
}

void CheckPlaceholders(conf::Object& o, const JobFile& job) {
  static const ParameterSet kNone;
  const ParameterSet& known = ParametersOf(job, 0);
  const auto check = [&](const std::string& text, std::string_view key) {
    const std::string unknown = UnknownParameter(text, job.sweep ? known : kNone);
    if (!unknown.empty()) {
      o.Error(fmt::format("names {{sweep.{}}}, and {}", unknown,
                          job.sweep ? "the sweep has no parameter of that name" : "the job has no sweep"),
              key);
    }
  };
  for (const std::string& word : job.command) check(word, "command");
  for (const std::string& word : job.checkpoint.resume) check(word, "checkpoint");
  for (const auto& [name, value] : job.env) check(value, "env");
}

// What a launcher would refuse when the job starts. Only new jobs are refused for it: those that a gateway kept
// have to be read.
std::vector<std::pair<std::string, std::string>> FindStartDefects(const JobFile& job) {
  std::vector<std::pair<std::string, std::string>> defects;
  const auto check = [&](const std::string& pointer, const std::string& text) {
    if (conf::UsesPlaceholder(text, "port"))
      defects.emplace_back(
          pointer,
          "names {port}, and a job is given no port; write a number, or {{port}} for the text {port}");
    if (std::string problem = UnevenBraces(text); !problem.empty())
      defects.emplace_back(pointer, std::move(problem));
  };
  for (size_t i = 0; i < job.command.size(); ++i) check(fmt::format("/command/{}", i), job.command[i]);
  for (size_t i = 0; i < job.checkpoint.resume.size(); ++i)
    check(fmt::format("/checkpoint/resume/{}", i), job.checkpoint.resume[i]);
  const auto check_name = [&](std::string_view section, const std::string& name) {
    if (plugins::launchers::IsVisibilityVariable(name) || plugins::launchers::IsMpsVariable(name)) {
      defects.emplace_back(fmt::format("/{}/{}", section, name),
                           "is set by Tidegate, from the devices of each member; remove it");
    }
  };
  for (const auto& [name, value] : job.env) {
    check_name("env", name);
    if (std::string problem = UnevenBraces(value); !problem.empty())
      defects.emplace_back(fmt::format("/env/{}", name), std::move(problem));
  }
  for (const auto& [name, secret] : job.secret_env) check_name("secret_env", name);
  return defects;
}

}  // namespace

// A job file, with the text of the file of parameters that it may name.
struct JobText {
  JobFile* job;
  std::string_view parameters;
};

static void Bind(conf::Object& o, JobText& text) {
  JobFile& job = *text.job;
  scheduler::Job& ask = job.job;
  scheduler::Role& role = ask.roles.emplace_back();
  role.name = "member";
  ask.priority = 100;
  Members members{&role};
  CommandWords command{&job.command};
  VariableValues env{&job.env};
  std::vector<DeviceNeed> devices;
  o.Required("name", job.name, JobName());
  o.Optional("work", conf::Choice(ask.work, "kind of work", kWork));
  o.Optional("image", job.image, conf::NotEmpty());
  o.Optional("pod", job.pod);
  o.Required("command", command, conf::NotEmpty());
  o.Optional("tenant", ask.tenant, ValidName());
  o.Optional("queue", ask.queue, conf::NotEmpty());
  o.Optional("priority", conf::Choice(ask.priority, "priority", kPriorities));
  o.Optional("members", members);
  o.Optional("devices", devices, conf::NotEmpty());
  o.Optional("cpu", scheduler::io::Cores(role.ask.cpu_milli));
  o.Optional("memory", scheduler::io::Mebibytes(role.ask.memory_mib));
  o.Optional("estimate", ask.estimate, AnyLength());
  o.Optional("limit", ask.limit, AnyLength());
  o.Optional("after", ask.after, NoneTwice());
  o.Optional("restarts", ask.restart_budget, conf::Range{0U, kMostRestarts});
  o.Optional("preemptible", ask.preemptible);
  o.Optional("env", env);
  o.Optional("secret_env", job.secret_env);
  o.Optional("directory", job.directory, conf::NotEmpty());
  o.Optional("topology", Nearness{&ask.topology});
  o.Optional("checkpoint", Saving{&job.checkpoint, &ask.checkpoint});
  o.Optional("notebook", Notebook{&job});
  o.Optional("array", Array{&job});
  Sweep sweep;
  o.Optional("sweep", SweepSection{&sweep, text.parameters});
  if (o.Has("sweep")) job.sweep = std::move(sweep);
  o.Optional("seed", job.seed);
  o.Optional("data", conf::OneOrMany(job.data), conf::NotEmpty());
  BindPlacing(o, job.placing);
  o.Optional("start_timeout", job.start_timeout, UpToADay());
  o.Optional("stop_grace", job.stop_grace, UpToADay());
  role.ask.devices.reserve(devices.size());
  for (DeviceNeed& device : devices) role.ask.devices.push_back(std::move(device.ask));
  Apply(job.placing, ask);
  CheckEnvironment(o, job);
  CheckTogether(o, job);
  if (job.sweep && !job.sweep->elements.empty()) ShareBudget(o, job);
  if (!job.sweep || !job.sweep->elements.empty()) CheckPlaceholders(o, job);
}

const ParameterSet& ParametersOf(const JobFile& job, uint32_t element) {
  static const auto* const none = new ParameterSet();
  return job.sweep && element < job.sweep->elements.size() ? job.sweep->elements[element] : *none;
}

const conf::Sources& ReferencesOnly() {
  static const auto* const sources = new conf::Sources([] {
    conf::Sources references;
    references.environment = [](const std::string&) { return std::optional<std::string>("-"); };
    references.file = [](const std::string&) { return absl::StatusOr<std::string>("-"); };
    return references;
  }());
  return *sources;
}

scheduler::io::Loaded<JobFile> ReadJobFile(std::string_view text, const std::string& file,
                                           const conf::Sources& sources, std::string_view parameters) {
  conf::Document document(text, file, sources);
  JobFile read;
  if (document.parsed()) {
    JobText whole{&read, parameters};
    conf::Read(document.root(), whole);
  }
  if (document.problem_count() == 0) {
    scheduler::Job whole = read.job;
    whole.id = read.name;
    if (const std::string defect = scheduler::io::FirstDefect(whole); !defect.empty())
      document.AddAt("", "", defect);
  }
  scheduler::io::Loaded<JobFile> out;
  out.problems = document.TakeProblems();
  if (!out.problems.empty()) return out;
  read.file = file;
  out.value = std::move(read);
  return out;
}

std::string ParameterFileOf(std::string_view text) {
  conf::Document document(text, "job", ReferencesOnly());
  if (!document.parsed() || document.root().kind() != conf::Kind::kMapping) return {};
  const std::optional<conf::Value> sweep = document.root().Find("sweep");
  if (!sweep || sweep->kind() != conf::Kind::kMapping) return {};
  const std::optional<conf::Value> file = sweep->Find("file");
  return file && file->kind() == conf::Kind::kScalar ? file->text() : "";
}

std::vector<PodDefect> FindPodDefects(const JobFile& job, const Pods& pods) {
  std::vector<PodDefect> defects;
  if (job.image.empty())
    defects.push_back({"/image", "is required with launcher: kubernetes, which runs the job in pods"});
  if (job.checkpoint.given && job.checkpoint.signal != SIGTERM)
    defects.push_back({"/checkpoint/signal", "must be TERM with launcher: kubernetes, which sends no other"});
  if (job.sweep && job.sweep->metric) {
    defects.push_back(
        {"/sweep/metric",
         "has no effect with launcher: kubernetes: the gateway cannot read the files of pods; remove "
         "metric and halving"});
  }
  const std::vector<scheduler::DeviceAsk>& devices = job.job.roles.front().ask.devices;
  for (size_t i = 0; i < devices.size(); ++i) {
    if (devices[i].milli > 0)
      defects.push_back(
          {fmt::format("/devices/{}", i), "asks for a share of a device, which Kubernetes cannot give"});
  }
  if (job.pod.empty() || job.job.tenant.empty() || pods.tenant_pods == TenantPods::kAny) return defects;
  const nlohmann::json piece = conf::ParseJson(job.pod.json);
  if (auto unsafe = plugins::launchers::kubernetes::UnsafePiece(piece))
    defects.push_back({"/pod" + unsafe->pointer, std::move(unsafe->why)});
  return defects;
}

std::vector<conf::Problem> CheckJob(const JobFile& job, const scheduler::Cluster& cluster,
                                    const std::vector<scheduler::Queue>& queues) {
  std::vector<conf::Problem> problems;
  const auto check = [&](std::string pointer, const std::string& name, std::string_view noun,
                         const std::vector<std::string_view>& known) {
    if (name.empty() || std::ranges::find(known, name) != known.end()) return;
    std::string hint = conf::DidYouMean(name, known);
    if (hint.empty())
      hint = known.empty() ? ", there is none" : fmt::format("; there are {}", fmt::join(known, ", "));
    problems.push_back({.file = job.file,
                        .pointer = std::move(pointer),
                        .line = 0,
                        .value = name,
                        .message = fmt::format("unknown {} \"{}\"{}", noun, name, hint)});
  };
  std::set<std::string_view> inner;
  std::vector<std::string_view> leaves;
  std::vector<std::string_view> kinds;
  const std::vector<std::string_view> levels = LevelsOf(cluster);
  for (const scheduler::Queue& queue : queues) inner.insert(queue.parent);
  for (const scheduler::Queue& queue : queues) {
    if (!inner.contains(queue.name)) leaves.push_back(queue.name);
  }
  kinds.reserve(cluster.kinds.size());
  for (const scheduler::DeviceKind& kind : cluster.kinds) kinds.push_back(kind.name);
  check("/queue", job.job.queue, "queue that takes work", leaves);
  check("/topology/level", job.job.topology.level, "level", levels);
  const std::vector<scheduler::DeviceAsk>& devices = job.job.roles.front().ask.devices;
  for (size_t i = 0; i < devices.size(); ++i) {
    for (const std::string& kind : devices[i].kinds)
      check(fmt::format("/devices/{}/kind", i), kind, "kind of device", kinds);
  }
  for (auto& [pointer, message] : FindStartDefects(job)) {
    problems.push_back({.file = job.file,
                        .pointer = std::move(pointer),
                        .line = 0,
                        .value = "",
                        .message = std::move(message)});
  }
  for (PlacingDefect& defect : CheckPlacing(job.placing, cluster)) {
    problems.push_back({.file = job.file,
                        .pointer = std::move(defect.pointer),
                        .line = 0,
                        .value = std::move(defect.value),
                        .message = std::move(defect.message)});
  }
  return problems;
}

}  // namespace gateway::config
