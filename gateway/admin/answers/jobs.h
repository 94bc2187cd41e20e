// Answers of the admin API about jobs, and of the nodes and queues that they share with the replicas.
#pragma once

#include "gateway/admin/answers/answer_fields.h"

namespace gateway::admin::answers {

struct JobSubmission {
  static constexpr std::string_view kSchema = "JobSubmission";

  std::string object = "job.submission";
  std::vector<std::string> jobs = {};  // their ids
  std::vector<std::string> differences =
      {};  // of a job that is run again: what cannot be the same, in sentences
};

template <class O>
constexpr void Bind(O& o, JobSubmission& submission) {
  o.Required("object", submission.object);
  o.Required("jobs", submission.jobs);
  o.Optional("differences", submission.differences);
}

struct Job {
  static constexpr std::string_view kSchema = "Job";

  std::string id = {};
  std::string name = {};
  std::string_view work = {};
  std::string_view state = {};
  Time since = {};
  std::string reason = {};
  std::string queue = {};
  std::optional<std::string> tenant = {};
  std::string user = {};
  int64_t priority = 0;
  Time submitted = {};
  uint64_t members = 0;
  uint64_t min_members = 0;
  uint64_t max_members = 0;
  uint64_t devices = 0;
  uint64_t attempt = 0;
  uint64_t restarts = 0;
  std::optional<Time> moved = {};  // the last time
  std::optional<std::string> gain = {};
};

template <class O>
constexpr void Bind(O& o, Job& job) {
  o.Required("id", job.id);
  o.Required("name", job.name);
  o.Required("work", job.work);
  o.Required("state", job.state);
  o.Required("since", job.since);
  o.Required("reason", job.reason);
  o.Required("queue", job.queue);
  o.Required("tenant", job.tenant);
  o.Required("user", job.user);
  o.Required("priority", job.priority);
  o.Required("submitted", job.submitted);
  o.Required("members", job.members);
  o.Required("min_members", job.min_members);
  o.Required("max_members", job.max_members);
  o.Required("devices", job.devices);
  o.Required("attempt", job.attempt);
  o.Required("restarts", job.restarts);
  o.Required("moved", job.moved);
  o.Required("gain", job.gain);
}

struct JobMember {
  static constexpr std::string_view kSchema = "JobMember";

  uint64_t rank = 0;
  std::string run = {};
  std::string node = {};
  std::optional<std::string> kind = {};
  std::vector<uint32_t> devices = {};
  std::string state = {};
  std::optional<int64_t> exit_code = {};
  std::optional<std::string> why = {};
};

template <class O>
constexpr void Bind(O& o, JobMember& member) {
  o.Required("rank", member.rank);
  o.Required("run", member.run);
  o.Required("node", member.node);
  o.Required("kind", member.kind);
  o.Required("devices", member.devices);
  o.Required("state", member.state);
  o.Required("exit_code", member.exit_code);
  o.Required("why", member.why);
}

struct NamedValue {
  static constexpr std::string_view kSchema = "NamedValue";

  std::string name = {};
  std::string value = {};
};

template <class O>
constexpr void Bind(O& o, NamedValue& of) {
  o.Required("name", of.name);
  o.Required("value", of.value);
}

// What it takes to run a job again, as it was at the submission.
struct JobProvenance {
  static constexpr std::string_view kSchema = "JobProvenance";

  std::string version = {};  // of Tidegate; empty: an early version recorded nothing more
  std::string configuration_sha256 = {};
  std::string file_sha256 = {};
  std::string command_sha256 = {};
  std::optional<std::string> image = {};
  uint64_t seed = 0;
  std::vector<NamedValue> data = {};  // data sets and their digests
  std::optional<std::string> rerun_of = {};
};

template <class O>
constexpr void Bind(O& o, JobProvenance& of) {
  o.Required("version", of.version);
  o.Required("configuration_sha256", of.configuration_sha256);
  o.Required("file_sha256", of.file_sha256);
  o.Required("command_sha256", of.command_sha256);
  o.Required("image", of.image);
  o.Required("seed", of.seed);
  o.Required("data", of.data);
  o.Required("rerun_of", of.rerun_of);
}

struct ComparedJob {
  static constexpr std::string_view kSchema = "ComparedJob";

  std::string id = {};
  std::string_view state = {};
  std::optional<std::vector<NamedValue>> parameters = {};  // null for those who may not see its file
  uint64_t seed = 0;
  std::optional<uint64_t> step = {};  // of its last report
  std::optional<double> value = {};   // likewise
  std::optional<double> best = {};
  uint64_t rungs = 0;                       // of successive halving that it has reached
  std::optional<std::string> stopped = {};  // why it was stopped early
  std::optional<std::string> unread = {};   // why its reports cannot be read
  double device_hours = 0;                  // of all its attempts
  std::vector<std::string> devices = {};    // kinds that its members hold, or held last
  uint64_t attempt = 0;
};

template <class O>
constexpr void Bind(O& o, ComparedJob& of) {
  o.Required("id", of.id);
  o.Required("state", of.state);
  o.Required("parameters", of.parameters);
  o.Required("seed", of.seed);
  o.Required("step", of.step);
  o.Required("value", of.value);
  o.Required("best", of.best);
  o.Required("rungs", of.rungs);
  o.Required("stopped", of.stopped);
  o.Required("unread", of.unread);
  o.Required("device_hours", of.device_hours);
  o.Required("devices", of.devices);
  o.Required("attempt", of.attempt);
}

struct JobComparison {
  static constexpr std::string_view kSchema = "JobComparison";

  std::optional<std::string> metric = {};  // null: none, or the jobs have several
  bool maximize = false;                   // of the metric
  std::optional<std::string> leads = {};   // the job with the best value
  double device_hours = 0;                 // of all of them
  std::vector<ComparedJob> jobs = {};
};

template <class O>
constexpr void Bind(O& o, JobComparison& of) {
  o.Required("metric", of.metric);
  o.Required("maximize", of.maximize);
  o.Required("leads", of.leads);
  o.Required("device_hours", of.device_hours);
  o.Required("jobs", of.jobs);
}

struct JobDetail {
  static constexpr std::string_view kSchema = "JobDetail";

  Job job = {};
  std::vector<JobMember> runs = {};
  std::optional<std::string> file = {};                    // null for those who may not see its variables
  std::optional<std::vector<NamedValue>> parameters = {};  // of a sweep's element; null likewise
  JobProvenance provenance = {};
};

template <class O>
constexpr void Bind(O& o, JobDetail& detail) {
  o.Inline(detail.job);
  o.Required("runs", detail.runs);
  o.Required("file", detail.file);
  o.Required("parameters", detail.parameters);
  o.Required("provenance", detail.provenance);
}

struct JobExplanation {
  static constexpr std::string_view kSchema = "JobExplanation";

  std::string id = {};
  std::string_view state = {};
  std::vector<std::string> text = {};  // sentences
};

template <class O>
constexpr void Bind(O& o, JobExplanation& explanation) {
  o.Required("id", explanation.id);
  o.Required("state", explanation.state);
  o.Required("text", explanation.text);
}

struct JobLog {
  static constexpr std::string_view kSchema = "JobLog";

  std::string id = {};
  uint64_t rank = 0;
  uint64_t attempt = 0;
  bool over = false;
  bool cut = false;
  uint64_t next = 0;  // the byte after the last that is shown
  std::string text = {};
};

template <class O>
constexpr void Bind(O& o, JobLog& log) {
  o.Required("id", log.id);
  o.Required("rank", log.rank);
  o.Required("attempt", log.attempt);
  o.Required("over", log.over);
  o.Required("cut", log.cut);
  o.Required("next", log.next);
  o.Required("text", log.text);
}

struct DeviceProcess {
  static constexpr std::string_view kSchema = "DeviceProcess";

  uint64_t pid = 0;
  std::optional<int64_t> memory_mib = {};
};

template <class O>
constexpr void Bind(O& o, DeviceProcess& process) {
  o.Required("pid", process.pid);
  o.Optional("memory_mib", process.memory_mib);
}

// What a device measured last. A figure that its tool does not give is absent.
struct DeviceMeasures {
  static constexpr std::string_view kSchema = "DeviceMeasures";

  Time as_of = {};
  bool old = false;  // so old that it says nothing of now
  std::string source = {};
  bool lost = false;
  std::optional<double> utilization = {};  // 0 to 1
  std::optional<int64_t> memory_used_mib = {};
  std::optional<int64_t> memory_total_mib = {};
  std::optional<double> power_watts = {};
  std::optional<double> power_limit_watts = {};
  std::optional<double> temperature_celsius = {};
  std::optional<uint64_t> clock_mhz = {};
  std::optional<uint64_t> memory_clock_mhz = {};
  std::vector<std::string> slowed_by = {};  // power_cap, heat, power_brake, hardware
  std::optional<uint64_t> ecc_corrected = {};
  std::optional<uint64_t> ecc_uncorrected = {};
  std::optional<uint64_t> link_errors = {};
  double energy_kwh = 0;          // since the gateway has measured it
  uint64_t energy_resets = 0;     // of the device's energy counter
  double energy_gap_seconds = 0;  // in which no energy could be measured
  std::vector<DeviceProcess> processes = {};
  std::vector<std::string> errors = {};  // figures that should be there and are not
};

template <class O>
constexpr void Bind(O& o, DeviceMeasures& of) {
  o.Required("as_of", of.as_of);
  o.Required("old", of.old);
  o.Required("source", of.source);
  o.Required("lost", of.lost);
  o.Optional("utilization", of.utilization);
  o.Optional("memory_used_mib", of.memory_used_mib);
  o.Optional("memory_total_mib", of.memory_total_mib);
  o.Optional("power_watts", of.power_watts);
  o.Optional("power_limit_watts", of.power_limit_watts);
  o.Optional("temperature_celsius", of.temperature_celsius);
  o.Optional("clock_mhz", of.clock_mhz);
  o.Optional("memory_clock_mhz", of.memory_clock_mhz);
  o.Required("slowed_by", of.slowed_by);
  o.Optional("ecc_corrected", of.ecc_corrected);
  o.Optional("ecc_uncorrected", of.ecc_uncorrected);
  o.Optional("link_errors", of.link_errors);
  o.Required("energy_kwh", of.energy_kwh);
  o.Required("energy_resets", of.energy_resets);
  o.Required("energy_gap_seconds", of.energy_gap_seconds);
  o.Required("processes", of.processes);
  o.Required("errors", of.errors);
}

struct Device {
  static constexpr std::string_view kSchema = "Device";

  uint64_t device = 0;  // its place on the node
  bool healthy = true;
  bool cordoned = false;
  std::optional<std::string> reason = {};
  double free = 0;
  std::vector<std::string> held_by = {};
  std::optional<DeviceMeasures> measured = {};
};

template <class O>
constexpr void Bind(O& o, Device& device) {
  o.Required("device", device.device);
  o.Required("healthy", device.healthy);
  o.Required("cordoned", device.cordoned);
  o.Required("reason", device.reason);
  o.Required("free", device.free);
  o.Required("held_by", device.held_by);
  o.Optional("measured", device.measured);
}

struct Node {
  static constexpr std::string_view kSchema = "Node";

  std::string name = {};
  std::string_view health = {};
  std::optional<std::string> health_reason = {};
  std::optional<std::string> kind = {};
  uint64_t devices = 0;
  double free = 0;  // devices and shares of devices
  std::vector<Device> each = {};
  std::optional<double> power_watts = {};           // of its devices that were measured just now
  std::optional<double> power_headroom_watts = {};  // that may be drawn here, by the power budgets
};

template <class O>
constexpr void Bind(O& o, Node& node) {
  o.Required("name", node.name);
  o.Required("health", node.health);
  o.Required("health_reason", node.health_reason);
  o.Required("kind", node.kind);
  o.Required("devices", node.devices);
  o.Required("free", node.free);
  o.Required("each", node.each);
  o.Optional("power_watts", node.power_watts);
  o.Optional("power_headroom_watts", node.power_headroom_watts);
}

// A countable resource of the cluster, such as licences.
struct Resource {
  static constexpr std::string_view kSchema = "Resource";

  std::string name = {};
  uint64_t count = 0;
  uint64_t held = 0;
  uint64_t free = 0;
  std::vector<std::string> held_by = {};  // jobs and replicas, the first 64
  uint64_t waiting = 0;                   // jobs and replicas that wait and ask for some
};

template <class O>
constexpr void Bind(O& o, Resource& resource) {
  o.Required("name", resource.name);
  o.Required("count", resource.count);
  o.Required("held", resource.held);
  o.Required("free", resource.free);
  o.Required("held_by", resource.held_by);
  o.Required("waiting", resource.waiting);
}

struct JobQueue {
  static constexpr std::string_view kSchema = "JobQueue";

  std::string name = {};
  std::optional<std::string> parent = {};
  double deserved = 0;  // devices, as the next five
  double share = 0;     // fair, by what all queues ask for
  double used = 0;
  double asked = 0;
  double borrowed = 0;  // used above what it deserves
  double lent = 0;      // deserved, and used by its neighbours
  uint64_t jobs_running = 0;
  uint64_t jobs_waiting = 0;
  double usage_device_hours = 0;
  std::optional<int64_t> oldest_wait_ms = {};  // of what waits now
  uint64_t started = 0;                        // jobs whose first starts the next two are of
  std::optional<int64_t> wait_p50_ms = {};     // from submission to the first start
  std::optional<int64_t> wait_p90_ms = {};
};

template <class O>
constexpr void Bind(O& o, JobQueue& queue) {
  o.Required("name", queue.name);
  o.Required("parent", queue.parent);
  o.Required("deserved", queue.deserved);
  o.Required("share", queue.share);
  o.Required("used", queue.used);
  o.Required("asked", queue.asked);
  o.Required("borrowed", queue.borrowed);
  o.Required("lent", queue.lent);
  o.Required("jobs_running", queue.jobs_running);
  o.Required("jobs_waiting", queue.jobs_waiting);
  o.Required("usage_device_hours", queue.usage_device_hours);
  o.Required("oldest_wait_ms", queue.oldest_wait_ms);
  o.Required("started", queue.started);
  o.Required("wait_p50_ms", queue.wait_p50_ms);
  o.Required("wait_p90_ms", queue.wait_p90_ms);
}

}  // namespace gateway::admin::answers
