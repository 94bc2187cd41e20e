// The format of a trace, by its first lines. Pure.
#pragma once

#include <string_view>

namespace scheduler::sim {

// A format of a file. `name` is the word of --format; it is empty for a list of nodes.
struct TraceFormat {
  enum class Of : unsigned char { kJobs, kRequests, kNodes };
  std::string_view name;
  std::string_view what;  // "CSV of timestamp,duration,num_gpus,gpu_time,cluster"
  Of of = Of::kJobs;
};

// Null: none is recognised, or the text has no line with anything but a comment.
const TraceFormat* RecognizeTrace(std::string_view text);

// The format of that name; null: there is none.
const TraceFormat* FindTraceFormat(std::string_view name);

// Whether there is a line with anything on it but a comment of `#`.
bool HasRows(std::string_view text);

}  // namespace scheduler::sim
