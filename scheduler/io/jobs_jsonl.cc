#include "scheduler/io/jobs_jsonl.h"

#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>

#include <algorithm>

#include "conf/shown.h"
#include "scheduler/io/bounds.h"
#include "scheduler/io/lines.h"
#include "scheduler/io/work_json.h"

namespace scheduler::io {

template <class O>
constexpr void Bind(O& o, TimedJob& t) {
  o.Inline(t.job);
  o.Optional("run", t.run);
  o.NotWritten(t.line);
}

namespace {

std::string DefectOf(const DeviceAsk& ask) {
  const int ways = (ask.count > 0) + (ask.milli > 0) + !ask.profile.empty();
  if (ways > 1) return "gives more than one of count, milli and profile";
  if (ask.milli >= kWholeDevice) {
    return fmt::format("milli {} is not below {}; ask for whole devices with count", ask.milli, kWholeDevice);
  }
  if (ask.count > kMaxDevices) {
    return fmt::format("{} devices on one node, at most {} fit; give the role more members", ask.count,
                       kMaxDevices);
  }
  if (ask.memory_mib < 0 || ask.memory_mib > INT32_MAX) {
    return fmt::format("memory_mib {} of a device is not between 0 and {}", ask.memory_mib, INT32_MAX);
  }
  return {};
}

std::string DefectOf(const Role& role) {
  if (role.count == 0) return "count is 0, at least one member is needed";
  if (role.min_count == 0 || role.min_count > role.count) {
    return fmt::format("min_count {} is not between 1 and count, {}", role.min_count, role.count);
  }
  for (const auto& [name, amount] :
       {std::pair("cpu_milli", role.ask.cpu_milli), std::pair("memory_mib", role.ask.memory_mib)}) {
    if (amount < 0) return fmt::format("{} {} is negative", name, amount);
    if (amount > kMostAmount) return fmt::format("{} {} is above {}", name, amount, kMostAmount);
  }
  for (size_t i = 0; i < role.ask.devices.size(); ++i) {
    const std::string defect = DefectOf(role.ask.devices[i]);
    if (!defect.empty()) return fmt::format("devices/{}: {}", i, defect);
  }
  return {};
}

std::string DefectOfTime(std::string_view name, std::optional<conf::TimePoint> at) {
  if (!at || (*at >= kEarliest && *at <= kLatest)) return {};
  return fmt::format("{} {} is not between 1970 and 2100", name, conf::FormatTime(*at));
}

std::string DefectOfLength(std::string_view name, std::optional<conf::Duration> length) {
  if (!length || (*length >= conf::Duration::zero() && *length <= kLongest)) return {};
  return fmt::format("{} {} is not between 0s and {}", name, conf::InWords(*length), kLongestInWords);
}

std::string DefectOfTimes(const Job& job) {
  for (const auto& [name, at] :
       {std::pair("submitted", std::optional(job.submitted)), std::pair("not_before", job.not_before)}) {
    if (std::string defect = DefectOfTime(name, at); !defect.empty()) return defect;
  }
  const Checkpoint& contract = job.checkpoint;
  for (const auto& [name, length] :
       std::initializer_list<std::pair<const char*, std::optional<conf::Duration>>>{
           {"estimate", job.estimate},
           {"limit", job.limit},
           {"idle_timeout", job.idle_timeout},
           {"topology/wait", job.topology.wait},
           {"checkpoint/interval", contract.interval},
           {"checkpoint/save", contract.save},
           {"checkpoint/restart", contract.restart}}) {
    if (std::string defect = DefectOfLength(name, length); !defect.empty()) return defect;
  }
  if (contract.interval > conf::Duration::zero() && contract.interval < kShortestInterval) {
    return fmt::format("checkpoint/interval {} is shorter than {}", conf::InWords(contract.interval),
                       conf::InWords(kShortestInterval));
  }
  return {};
}

class JobLines {
 public:
  explicit JobLines(std::string file) : file_(std::move(file)) {}

  void Read(std::string_view line, int number) {
    ++out_.report.lines;
    conf::JsonFaults faults;
    TimedJob job;
    if (const std::optional<conf::Json> json = conf::ParseJson(line, faults))
      conf::ReadJson(*json, job, faults);
    if (faults.count() == 0) Check(job, faults);
    if (faults.count() == 0) {
      first_line_.emplace(job.job.id, number);
      job.line = number;
      out_.jobs.push_back(std::move(job));
      return;
    }
    ++out_.report.left_out;
    for (const conf::JsonFaults::Fault& fault : faults.faults()) {
      out_.report.Add({file_, fault.pointer, number, fault.value, fault.message});
    }
  }

  Jobs Take() { return std::move(out_); }

 private:
  void Check(const TimedJob& job, conf::JsonFaults& faults) const {
    if (std::string defect = FirstDefect(job.job); !defect.empty()) faults.Add(std::move(defect));
    if (!job.job.pinned.empty()) faults.Add("pinned names places of a snapshot's cluster; remove it");
    if (std::string defect = DefectOfLength("run", job.run); !defect.empty()) faults.Add(std::move(defect));
    if (const auto at = first_line_.find(job.job.id); at != first_line_.end()) {
      faults.Add(fmt::format("job \"{}\" is given twice, first on line {}", job.job.id, at->second));
    }
  }

  std::string file_;
  Jobs out_;
  absl::flat_hash_map<std::string, int> first_line_;
};

}  // namespace

std::string FirstDefect(const Job& job) {
  if (job.id.empty()) return "id must not be empty";
  if (job.roles.empty()) return "roles must not be empty: they say what the job needs";
  if (job.roles.size() > UINT16_MAX)
    return fmt::format("{} roles, at most {} fit", job.roles.size(), UINT16_MAX);
  for (size_t i = 0; i < job.roles.size(); ++i) {
    const std::string defect = DefectOf(job.roles[i]);
    if (!defect.empty()) return fmt::format("roles/{}: {}", i, defect);
  }
  uint64_t members = 0;
  for (const Role& role : job.roles) members += role.count;
  if (members > kMostMembers) return fmt::format("{} members, at most {} fit", members, kMostMembers);
  if (std::string defect = DefectOfTimes(job); !defect.empty()) return defect;
  if (std::ranges::find(job.after, job.id) != job.after.end()) return "after names the job itself";
  if (job.topology.level.empty()) {
    if (job.topology.required) return "topology: required needs a level";
    if (job.topology.wait > conf::Duration::zero()) return "topology: wait needs a level";
  }
  if (!job.spread && !job.spread_over.empty()) return "spread_over needs spread: true";
  for (size_t i = 0; i < job.resources.size(); ++i) {
    const ResourceAsk& ask = job.resources[i];
    if (ask.name.empty()) return fmt::format("resources/{}: name must not be empty", i);
    if (ask.count == 0 || ask.count > kMostOfResource)
      return fmt::format("resources/{}: count is {}; must be from 1 to {}", i, ask.count, kMostOfResource);
    for (size_t other = 0; other < i; ++other) {
      if (job.resources[other].name == ask.name)
        return fmt::format("resources/{}: {} is given twice; give it once, with the sum", i, ask.name);
    }
  }
  return {};
}

Jobs ReadJobs(std::string_view text, const std::string& file) {
  JobLines lines(file);
  ForEachLine(text, [&](std::string_view line, int number) {
    const size_t first = line.find_first_not_of(" \t");
    if (first == std::string_view::npos || line[first] == '#') return;
    lines.Read(line, number);
  });
  return lines.Take();
}

void WriteJob(const TimedJob& job, std::string& out) {
  conf::JsonWriter writer(out);
  conf::WriteJson(writer, job);
  out += '\n';
}

}  // namespace scheduler::io
