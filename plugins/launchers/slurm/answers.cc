#include "plugins/launchers/slurm/answers.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "conf/text.h"
#include "conf/words.h"
#include "plugins/launchers/slurm/hostlist.h"

namespace plugins::launchers::slurm {
namespace {

namespace dom = simdjson::dom;

constexpr conf::Word<JobState> kJobStates[] = {
    {"PENDING", JobState::kPending},     {"CONFIGURING", JobState::kPending},  // has nodes, which boot
    {"REQUEUED", JobState::kPending},    {"RUNNING", JobState::kRunning},
    {"SUSPENDED", JobState::kSuspended}, {"COMPLETING", JobState::kCompleting},
    {"COMPLETED", JobState::kCompleted}, {"FAILED", JobState::kFailed},
    {"CANCELLED", JobState::kCancelled}, {"TIMEOUT", JobState::kTimeout},
    {"NODE_FAIL", JobState::kNodeFail},  {"PREEMPTED", JobState::kPreempted},
    {"BOOT_FAIL", JobState::kBootFail},  {"OUT_OF_MEMORY", JobState::kOutOfMemory},
    {"DEADLINE", JobState::kDeadline},
};

// Reads members of one object and keeps the first problem.
class Members {
 public:
  Members(const dom::object& object, std::string where) : object_(object), where_(std::move(where)) {}

  std::string Text(std::string_view key) {
    std::string_view text;
    const auto found = object_.at_key(key);
    if (found.is_null()) return {};  // Slurm writes some empty texts so
    if (found.get(text) != simdjson::SUCCESS) Wrong(key, "text");
    return std::string(text);
  }
  // null is 0: "not set".
  int64_t Number(std::string_view key) {
    int64_t number = 0;
    const auto found = object_.at_key(key);
    if (found.is_null()) return 0;
    if (found.get(number) != simdjson::SUCCESS) Wrong(key, "a number");
    return number;
  }
  uint32_t Count(std::string_view key) {
    const int64_t number = Number(key);
    if (number < 0 || number > UINT32_MAX) Wrong(key, "a number of 32 bits");
    return static_cast<uint32_t>(number);
  }
  conf::TimePoint Time(std::string_view key) {
    constexpr int64_t kMicros = 1'000'000;
    return conf::FromUnixMicros(std::clamp(Number(key), -INT64_MAX / kMicros, INT64_MAX / kMicros) * kMicros);
  }
  std::vector<std::string> Texts(std::string_view key) {
    std::vector<std::string> texts;
    dom::array list;
    if (object_.at_key(key).get(list) != simdjson::SUCCESS) Wrong(key, "a list of texts");
    if (!ok()) return texts;
    texts.reserve(list.size());
    for (const dom::element element : list) {
      std::string_view text;
      if (element.get(text) != simdjson::SUCCESS) Wrong(key, "a list of texts");
      texts.emplace_back(text);
    }
    return texts;
  }
  void Wrong(std::string_view key, std::string_view expected) {
    if (ok()) wrong_ = fmt::format("{}/{}: expected {}", where_, key, expected);
  }
  // The value, if it could be read; otherwise the problem, with `key`.
  template <class T>
  T Take(std::string_view key, absl::StatusOr<T> value) {
    if (value.ok()) return *std::move(value);
    const absl::string_view why = value.status().message();
    if (ok()) wrong_ = fmt::format("{}/{}: {}", where_, key, std::string_view(why.data(), why.size()));
    return {};
  }
  bool ok() const { return wrong_.empty(); }
  absl::Status status() const { return absl::DataLossError(fmt::format("slurmrestd: {}", wrong_)); }

 private:
  const dom::object& object_;
  const std::string where_;
  std::string wrong_;
};

// "8"; or "800K", for GRES that are not counted in devices.
std::optional<uint32_t> AmountOf(std::string_view text) {
  constexpr std::string_view kUnits = "KMGTP";
  const size_t unit = text.empty() ? std::string_view::npos : kUnits.find(text.back());
  if (unit == std::string_view::npos) return conf::ReadNumber<uint32_t>(text);
  const std::optional<uint32_t> number = conf::ReadNumber<uint32_t>(text.substr(0, text.size() - 1));
  if (!number) return std::nullopt;
  uint64_t amount = *number;
  for (size_t i = 0; i <= unit && amount <= UINT32_MAX; ++i) amount *= 1024;
  return static_cast<uint32_t>(std::min<uint64_t>(amount, UINT32_MAX));
}

// "mem=1000M" of "cpu=2,mem=1000M,node=1"; 0 where it is missing.
int64_t MemoryOf(std::string_view tres) {
  const size_t at = tres.starts_with("mem=") ? 0 : tres.find(",mem=");
  if (at == std::string_view::npos) return 0;
  std::string_view value = tres.substr(tres.find('=', at) + 1);
  value = value.substr(0, value.find(','));
  double amount = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), amount);
  if (error != std::errc() || !(amount >= 0) || amount > 1e9) return 0;
  const char unit = end == value.data() + value.size() ? 'M' : *end;
  const double mib = unit == 'K' ? 1.0 / 1024 : unit == 'G' ? 1024 : unit == 'T' ? 1024.0 * 1024 : 1;
  return static_cast<int64_t>(amount * mib);
}

absl::StatusOr<Job> ReadJob(const dom::object& object, size_t index, int64_t& latest) {
  Members members(object, fmt::format("jobs/{}", index));
  Job job;
  job.id = members.Count("job_id");
  job.name = members.Text("name");
  job.user = members.Text("user_name");
  job.partition = members.Text("partition");
  job.qos = members.Text("qos");
  job.comment = members.Text("comment");
  job.state_word = members.Text("job_state");
  job.state = conf::ValueOf(kJobStates, job.state_word).value_or(JobState::kOther);
  job.reason = members.Text("state_reason");
  job.nodes = members.Take("nodes", ExpandHosts(members.Text("nodes")));
  job.cpus = members.Count("cpus");
  job.memory_mib = MemoryOf(members.Text("tres_alloc_str"));
  job.restarts = members.Count("restart_cnt");
  job.wait_status = static_cast<int32_t>(members.Count("exit_code"));
  job.submitted = members.Time("submit_time");
  job.started = members.Time("start_time");
  const conf::TimePoint end = members.Time("end_time");
  const bool limited = members.Number("time_limit") > 0;
  for (const std::string& text : members.Texts("gres_detail"))
    job.gres.push_back(members.Take("gres_detail", ReadGres(text)));
  if (!job.gres.empty() && job.gres.size() != job.nodes.size()) {
    members.Wrong("gres_detail", "an entry for each node");
  }
  if (!members.ok()) return members.status();
  latest = std::max(latest, members.Number("submit_time"));
  if (job.state != JobState::kPending) latest = std::max(latest, members.Number("start_time"));
  if (IsOver(job.state)) {
    job.ended = end;
    latest = std::max(latest, members.Number("end_time"));
  } else if (limited && HoldsDevices(job.state)) {
    job.ends = end;
  }
  return job;
}

absl::StatusOr<Node> ReadNode(const dom::object& object, size_t index) {
  Members members(object, fmt::format("nodes/{}", index));
  Node node;
  node.name = members.Text("name");
  node.address = members.Text("address");
  node.port = static_cast<uint16_t>(std::min<uint32_t>(members.Count("port"), UINT16_MAX));
  node.state = members.Text("state");
  node.flags = members.Texts("state_flags");
  node.reason = members.Text("reason");
  node.partitions = members.Texts("partitions");
  node.gres = members.Take("gres", ReadGres(members.Text("gres")));
  node.cpus = members.Count("cpus");
  node.memory_mib = members.Number("real_memory");
  if (node.name.empty()) members.Wrong("name", "a name");
  if (!members.ok()) return members.status();
  return node;
}

constexpr int64_t kUnknownJob = 2017;
constexpr int64_t kDenied = 2002;

// Slurm's errors that waiting does not mend: partition, account, QOS, node, size or devices are wrong.
bool IsFinal(int64_t code) {
  constexpr std::array kFinal = {2000, 2001, 2003, 2004, 2005, 2006, 2008, 2009, 2010, 2012,
                                 2014, 2018, 2025, 2029, 2041, 2044, 2045, 2048, 2050, 2051,
                                 2057, 2066, 2069, 2072, 2115, 2119, 2122, 2127, 9001};
  return std::find(kFinal.begin(), kFinal.end(), code) != kFinal.end();
}

// The job is over already, or completing.
bool IsDone(int64_t code) {
  return code == 2021 || code == 2084 || code == 2085 || code == 2086;
}

absl::Status ReadError(const dom::object& error, bool malformed) {
  int64_t code = -1;
  for (const char* key : {"error_number", "error_code", "errno"}) {
    if (error.at_key(key).get(code) == simdjson::SUCCESS) break;
  }
  std::string why;
  for (const char* key : {"error", "description"}) {
    std::string_view text;
    if (error.at_key(key).get(text) != simdjson::SUCCESS || text.empty()) continue;
    why += fmt::format("{}{}", why.empty() ? "" : ": ", text.substr(0, 300));
  }
  const std::string message = fmt::format("Slurm says {} ({})", why.empty() ? "nothing" : why, code);
  if (malformed || IsFinal(code)) return absl::InvalidArgumentError(message);
  if (code == kUnknownJob) return absl::NotFoundError(message);
  if (code == kDenied) return absl::PermissionDeniedError(message);
  if (IsDone(code)) return absl::FailedPreconditionError(message);
  return absl::UnavailableError(message);
}

absl::Status NoAnswer() {
  return absl::DataLossError("slurmrestd: not an answer of openapi v0.0.38");
}

absl::Status ErrorsIn(const dom::object& root) {
  dom::array errors;
  if (root.at_key("errors").get(errors) != simdjson::SUCCESS) return NoAnswer();
  bool malformed = false;  // the body was refused before anything was done
  for (const dom::element element : errors) {
    int64_t code = 0;
    malformed |= element.at_key("error_code").get(code) == simdjson::SUCCESS && code == 9001;
  }
  for (const dom::element element : errors) {
    dom::object error;
    return element.get(error) == simdjson::SUCCESS ? ReadError(error, malformed) : NoAnswer();
  }
  return absl::OkStatus();
}

// The list under `key`, of an answer that reports no error.
absl::StatusOr<dom::array> ListIn(const simdjson::simdjson_result<dom::element>& parsed, const char* key) {
  dom::object root;
  if (parsed.get(root) != simdjson::SUCCESS) return NoAnswer();
  if (absl::Status reported = ErrorsIn(root); !reported.ok()) return reported;
  dom::array list;
  if (root.at_key(key).get(list) != simdjson::SUCCESS) return NoAnswer();
  return list;
}

}  // namespace

bool HoldsDevices(JobState state) {
  return state == JobState::kRunning || state == JobState::kSuspended || state == JobState::kCompleting ||
         state == JobState::kOther;
}

bool IsOver(JobState state) {
  return state != JobState::kPending && !HoldsDevices(state);
}

absl::StatusOr<JobList> ReadJobs(std::string_view body) {
  dom::parser parser;
  const auto parsed = parser.parse(body.data(), body.size());
  const absl::StatusOr<dom::array> list = ListIn(parsed, "jobs");
  if (!list.ok()) return list.status();
  JobList result;
  size_t hosts = 0;
  result.jobs.reserve(list->size());
  for (const dom::element element : *list) {
    dom::object object;
    if (element.get(object) != simdjson::SUCCESS) return NoAnswer();
    absl::StatusOr<Job> job = ReadJob(object, result.jobs.size(), result.latest);
    if (!job.ok()) return job.status();
    hosts += job->nodes.size();
    if (hosts > kMaxHostsOfJobs) {
      return absl::DataLossError(fmt::format("slurmrestd: jobs on more than {} hosts", kMaxHostsOfJobs));
    }
    result.jobs.push_back(*std::move(job));
  }
  return result;
}

absl::StatusOr<std::vector<Node>> ReadNodes(std::string_view body) {
  dom::parser parser;
  const auto parsed = parser.parse(body.data(), body.size());
  const absl::StatusOr<dom::array> list = ListIn(parsed, "nodes");
  if (!list.ok()) return list.status();
  std::vector<Node> nodes;
  nodes.reserve(list->size());
  for (const dom::element element : *list) {
    dom::object object;
    if (element.get(object) != simdjson::SUCCESS) return NoAnswer();
    absl::StatusOr<Node> node = ReadNode(object, nodes.size());
    if (!node.ok()) return node.status();
    nodes.push_back(*std::move(node));
  }
  return nodes;
}

absl::StatusOr<uint32_t> ReadSubmitted(std::string_view body) {
  dom::parser parser;
  dom::object root;
  if (parser.parse(body.data(), body.size()).get(root) != simdjson::SUCCESS) return NoAnswer();
  if (absl::Status reported = ErrorsIn(root); !reported.ok()) return reported;
  uint64_t id = 0;
  if (root.at_key("job_id").get(id) != simdjson::SUCCESS || id == 0 || id > UINT32_MAX) return NoAnswer();
  return static_cast<uint32_t>(id);
}

absl::Status ErrorOf(std::string_view body) {
  dom::parser parser;
  dom::object root;
  if (parser.parse(body.data(), body.size()).get(root) != simdjson::SUCCESS) return NoAnswer();
  return ErrorsIn(root);
}

absl::StatusOr<std::vector<Gres>> ReadGres(std::string_view text) {
  std::vector<Gres> all;
  const auto malformed = [text] {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\" is not devices such as gpu:h100:8", text.substr(0, 80)));
  };
  if (text == "(null)") return all;
  while (!text.empty()) {
    // A comma inside parentheses separates places.
    const size_t paren = std::min(text.find('('), text.find(','));
    size_t end = paren;
    Gres gres;
    if (paren != std::string_view::npos && text[paren] == '(') {
      const size_t close = text.find(')', paren);
      if (close == std::string_view::npos) return malformed();
      std::string_view inside = text.substr(paren + 1, close - paren - 1);
      if (inside.starts_with("IDX:") && inside != "IDX:N/A") {
        auto places = ExpandPlaces(inside.substr(4));
        if (!places.ok()) return places.status();
        gres.places = *std::move(places);
      }
      end = close + 1;
    }
    const std::string_view head = text.substr(0, paren);
    const size_t first = head.find(':');
    const size_t last = head.rfind(':');
    const std::optional<uint32_t> count =
        last == std::string_view::npos ? std::nullopt : AmountOf(head.substr(last + 1));
    if (!count || first == 0) return malformed();
    gres.name = head.substr(0, first);
    if (last > first) gres.type = head.substr(first + 1, last - first - 1);
    gres.count = *count;
    all.push_back(std::move(gres));
    if (end == std::string_view::npos || end == text.size()) break;
    if (text[end] != ',') return malformed();
    text.remove_prefix(end + 1);
  }
  return all;
}

}  // namespace plugins::launchers::slurm
