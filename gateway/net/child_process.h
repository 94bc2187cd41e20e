// HeldChild: a process that exists but does not run its program yet, so that its maker can record its pid
// first.
//
// Make() gives it its pid, session, files and signals; Release() lets it run. If its maker is killed in
// between, it ends without having run anything. It shares the maker's memory until it runs its program, as
// with vfork, so that a large process of many threads is neither copied nor stopped; only a thread of the
// object's own waits for it. It gets no descriptor but 0 (/dev/null), 1 and 2 (`output`) and, if asked, the
// pipe for its reports and the one that it is given; no ignored or blocked signal; and it leads a session and
// process group of its own.
//
// Blocks for the time of a fork, and in Release() of an exec; call it off the loop. One thread at a time.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/net/process_handle.h"

namespace gateway::net {

struct ChildSpec {
  std::string program{};            // the file to run
  std::vector<std::string> argv{};  // including argv[0]
  std::vector<std::string> env{};   // "NAME=value": the whole environment
  std::string directory{};          // empty: the maker's; with `reports`, the program goes there by itself
  // Kept until it runs its program, so that a lock of its maker is not free while it may still run.
  int until_run = -1;
  int output = -1;  // receives its stdout and stderr; stays the caller's
  int given = -1;   // the program finds it as kGivenFd; stays the caller's
  // The program starts another one and reports over kChildReportFd (child_report.h); Release() waits until it
  // closes that. `wraps` names the other program in messages.
  bool reports = false;
  std::string wraps{};
};

// The file that a shell would run for `name`. A name with a slash is a path, relative to `directory`; any other name is
// looked up in the folders of `search_path`. InvalidArgument, in words for the author of the command: there is no such
// file, or it cannot be executed.
absl::StatusOr<std::string> FindProgram(std::string_view name, std::string_view search_path,
                                        std::string_view directory);

inline constexpr int kGivenFd = 6;

class HeldChild {
 public:
  // The exit code of a child that was not released; not 0, since its work was not done.
  static constexpr int kNeverRan = 125;

  // Unavailable when the system lacks the resources.
  static absl::StatusOr<std::unique_ptr<HeldChild>> Make(const ChildSpec& spec);
  // A child that was not released ends, and is reaped.
  ~HeldChild();
  HeldChild(const HeldChild&) = delete;
  HeldChild& operator=(const HeldChild&) = delete;

  pid_t pid() const;
  // Returns when the program runs, and the wrapped one, too. InvalidArgument when either cannot be run; the
  // process has ended then.
  absl::StatusOr<ProcessHandle> Release();

 private:
  struct Core;
  explicit HeldChild(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace gateway::net
