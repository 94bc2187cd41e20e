#include "scheduler/sim/traces/recognize.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "scheduler/sim/traces/trace.h"

namespace scheduler::sim {
namespace {

using Of = TraceFormat::Of;

constexpr TraceFormat kFormats[] = {
    {"jsonl", "JSON lines of jobs, each with id, roles and run", Of::kJobs},
    {"philly", "CSV of timestamp,duration,num_gpus,gpu_time,cluster", Of::kJobs},
    {"openb", "CSV of name,cpu_milli,memory_mib,num_gpu,gpu_milli", Of::kJobs},
    {"swf", "the Standard Workload Format, 18 numbers a line", Of::kJobs},
    {"azure", "CSV of TIMESTAMP,ContextTokens,GeneratedTokens", Of::kRequests},
    {"mooncake", "JSON lines of requests, each with input_length and hash_ids", Of::kRequests}};
constexpr TraceFormat kNodeList = {"", "a list of nodes, CSV of sn,cpu_milli,memory_mib,gpu,model",
                                   Of::kNodes};
constexpr TraceFormat kHelios = {
    "", "the job log of Helios, CSV of job_id,user,vc,gpu_num,...,submit_time,...", Of::kUnread,
    "convert it to the format philly, CSV of timestamp,duration,num_gpus,gpu_time,cluster: these are its "
    "submit_time, "
    "duration, gpu_num, gpu_num times duration, and vc; leave out rows whose gpu_num is 0"};
constexpr TraceFormat kPaiTasks = {
    "", "the tasks of Alibaba PAI (pai_task_table), CSV of job_name,task_name,inst_num,...,plan_gpu,gpu_type",
    Of::kUnread,
    "convert it to the format jsonl: a line for each job_name, submitted at its first start_time, whose run "
    "lasts to its last "
    "end_time, with a role for each task_name, of inst_num members that each ask for plan_gpu / 100 devices"};
constexpr TraceFormat kPaiJobs = {
    "", "the jobs of Alibaba PAI (pai_job_table), CSV of job_name,inst_id,user,status,start_time,end_time",
    Of::kUnread, "it does not say which devices jobs had; convert pai_task_table to the format jsonl"};
constexpr size_t kFieldsOfSwf = 18;

std::string_view FirstRow(std::string_view text) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t begin = line.find_first_not_of(" \t\r\xEF\xBB\xBF");
    if (begin == std::string_view::npos || line[begin] == '#') continue;
    line.remove_prefix(begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }
  return {};
}

bool IsSwf(std::string_view row) {
  if (row.starts_with(';')) return true;
  std::vector<std::string_view> fields;
  SplitAtBlanks(row, fields);
  return fields.size() == kFieldsOfSwf &&
         std::ranges::all_of(fields, [](std::string_view field) { return ParseReal(field).has_value(); });
}

// Tables of Alibaba PAI have no header; their fourth column is a state.
const TraceFormat* PublicTable(const std::vector<std::string_view>& fields) {
  const auto has = [&](std::string_view column) { return std::ranges::find(fields, column) != fields.end(); };
  if (has("job_id") && has("gpu_num") && has("submit_time") && has("vc")) return &kHelios;
  if (has("job_name") && has("plan_gpu")) return &kPaiTasks;
  if (has("job_name") && has("inst_id") && has("user")) return &kPaiJobs;
  constexpr std::string_view kStates[] = {"Terminated", "Failed", "Running", "Waiting"};
  if (fields.size() < 6 || std::ranges::find(kStates, fields[3]) == std::end(kStates)) return nullptr;
  if (fields.size() == 10 && ParseReal(fields[2])) return &kPaiTasks;
  return fields.size() == 6 ? &kPaiJobs : nullptr;
}

// By the header; without one, rows of Philly and Azure begin with a time, those of openb with a name and three numbers.
std::string_view CsvFormat(std::string_view row) {
  std::vector<std::string_view> fields;
  SplitAtCommas(row, fields);
  const auto has = [&](std::string_view column) { return std::ranges::find(fields, column) != fields.end(); };
  if (fields[0] == "TIMESTAMP") return "azure";
  if (has("timestamp") && has("duration") && has("num_gpus")) return "philly";
  if (has("name") && has("num_gpu") && has("gpu_milli")) return "openb";
  const auto number = [&](size_t i) { return ParseReal(fields[i]).has_value(); };
  const bool dated = fields[0].size() >= 19 && fields[0][4] == '-' && fields[0][10] == ' ';
  if (dated && fields.size() == 5 && number(1)) return "philly";
  if (dated && fields.size() == 3) return "azure";
  if ((fields.size() == 11 || fields.size() == 5) && number(1) && number(2) && number(3) && !number(0))
    return "openb";
  return "none";
}

}  // namespace

const TraceFormat* FindTraceFormat(std::string_view name) {
  const auto found = std::ranges::find(kFormats, name, &TraceFormat::name);
  return found == std::end(kFormats) || name.empty() ? nullptr : found;
}

bool HasRows(std::string_view text) {
  return !FirstRow(text).empty();
}

const TraceFormat* RecognizeTrace(std::string_view text) {
  const std::string_view row = FirstRow(text);
  if (row.empty()) return nullptr;
  if (row.starts_with('{')) {
    const bool request = row.find("\"input_length\"") != std::string_view::npos ||
                         row.find("\"hash_ids\"") != std::string_view::npos;
    return FindTraceFormat(request ? "mooncake" : "jsonl");
  }
  if (IsSwf(row)) return FindTraceFormat("swf");
  if (row.starts_with("sn,")) return &kNodeList;
  std::vector<std::string_view> fields;
  SplitAtCommas(row, fields);
  if (const TraceFormat* const table = PublicTable(fields)) return table;
  return FindTraceFormat(CsvFormat(row));
}

}  // namespace scheduler::sim
