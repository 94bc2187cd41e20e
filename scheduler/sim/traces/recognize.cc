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
    {"mooncake", "JSON lines of requests, each with input_length and hash_ids", Of::kRequests},
    {"", "a list of nodes, CSV of sn,cpu_milli,memory_mib,gpu,model", Of::kNodes}};
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

// The format by the header. Without a header, rows of Philly and Azure begin with a time, rows of openb with a name and
// three numbers.
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
  if (row.starts_with("sn,")) return std::end(kFormats) - 1;
  return FindTraceFormat(CsvFormat(row));
}

}  // namespace scheduler::sim
