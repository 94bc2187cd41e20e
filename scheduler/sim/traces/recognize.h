// The format of a trace, by its first lines. Pure.
#pragma once

#include <string_view>

namespace scheduler::sim {

// What a file can be. `name` is the word of --format; of a list of nodes, and of one that is not read, it is empty.
struct TraceFormat {
  enum class Of : unsigned char { kJobs, kRequests, kNodes, kUnread };
  std::string_view name;
  std::string_view what;  // "CSV of timestamp,duration,num_gpus,gpu_time,cluster"
  Of of = Of::kJobs;
  std::string_view convert = {};  // of one that is recognised but not read: how to make one that is read
};

// Null: none is recognised, or the text has no line with anything but a comment.
const TraceFormat* RecognizeTrace(std::string_view text);

// By its word; null: there is none.
const TraceFormat* FindTraceFormat(std::string_view name);

// Whether there is a line with anything on it but a comment of `#`.
bool HasRows(std::string_view text);

}  // namespace scheduler::sim
