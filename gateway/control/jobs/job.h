// Job: one piece of work that Tidegate runs beside its replicas, from its submission until it is forgotten.
//
//   pending -> starting -> running -> done
//      ^           |          |
//      |           v          v
//      +------- stopping <- saving          (preempted, resized, retried)
//                  |
//                  +-> suspended, failed, cancelled
//
// Members start together or not at all: one that does not start, or fails, stops the others. What a state
// asks for is done by Jobs, step by step; the flags say how far that has come.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "gateway/config/job_file.h"
#include "gateway/control/crash_loop.h"
#include "scheduler/plan.h"

namespace gateway::control {

enum class JobState : uint8_t {
  kPending,   // for a place
  kStarting,  // has devices; its members are being started
  kRunning,
  kSaving,     // its members were told to save
  kStopping,   // they were told to end
  kSuspended,  // holds nothing until somebody resumes it
  kDone,
  kFailed,
  kCancelled,
};
inline constexpr size_t kJobStates = 9;
std::string_view Name(JobState state);
std::optional<JobState> ParseJobState(std::string_view name);
inline bool IsOver(JobState state) {
  return state >= JobState::kDone;
}

// What becomes of a job when its members have ended. The later one wins.
enum class Afterwards : uint8_t {
  kResizes,  // starts again at once, with the members in `next`
  kWaits,    // to make room: waits for its next start
  kRetries,  // after a failure: likewise, as often as its restarts allow
  kSuspends,
  kEnds,  // all members have done their work
  kFails,
  kCancels,
};
inline constexpr size_t kAfterwards = 7;
std::string_view Name(Afterwards afterwards);
std::optional<Afterwards> ParseAfterwards(std::string_view name);

// One job file that was handed in; its elements share it.
struct Submission {
  std::string id;
  std::string text;
  config::JobFile file;
  std::string user;  // who handed it in: an admin key's id
  conf::TimePoint at{};
};

struct JobMember {
  scheduler::MemberAt at;
  std::string run;

  bool asked = false;    // the launcher, to start it
  bool started = false;  // it has said that it will
  bool running = false;
  bool told = false;  // to save, or to end: what the state asks for
  bool ended = false;
  std::optional<conf::TimePoint> missing{};  // since when the launcher does not know it
  std::optional<int> exit_code{};
  std::string why{};  // it ended, or does not start
  std::string log{};

  bool ended_well() const { return ended && exit_code == 0; }
};

struct Job {
  std::string id;
  std::shared_ptr<const Submission> of;
  uint32_t element = 0;  // of an array
  JobState state = JobState::kPending;
  conf::TimePoint since{};    // of the state
  conf::TimePoint started{};  // the attempt: since then it holds its devices
  std::string why;            // it is in this state
  std::string actor;          // who made it so: "control", or an admin key's id
  Afterwards afterwards = Afterwards::kWaits;
  uint32_t attempt = 0;
  uint32_t restarts = 0;                    // after failures
  bool blameless = false;                   // the attempt that ends: its node's fault, and no restart is used
  bool resumes = false;                     // its next start goes on from what was saved
  std::vector<JobMember> members{};         // of this attempt, or the last one; by rank
  std::vector<JobMember> before{};          // of the attempt before
  std::vector<scheduler::MemberAt> next{};  // kResizes

  // Of this process only.
  uint64_t version = 0;   // rises with every change that is worth keeping
  bool recorded = false;  // what the state asks for is in the ledger
  bool saved = false;     // as it stands here it is in the journal
  bool busy = false;      // a step is under way
  bool held = false;      // pending, and the planner is not asked yet: for others to end, or after a failure
  CrashLoop crashes{};
  conf::TimePoint next_step{};
  conf::TimePoint ran_from{};  // this attempt, all members; not set: it has not come so far
  conf::TimePoint checkpointed{};
  std::string unplaced{};  // why the last cycle gave it nothing
  bool withheld = false;   // kPending: the planner is not asked; `unplaced` says why

  const config::JobFile& file() const { return of->file; }
  bool holds() const { return state >= JobState::kStarting && state <= JobState::kStopping; }
  bool all_ended() const;
  uint64_t devices() const;  // that its members hold
};

// As the planner is asked for it.
scheduler::Job AskOf(const Job& job);

// "finetune-7.3-2-0": of a job's attempt, by rank.
std::string RunId(const Job& job, uint32_t rank);
bool IsJobRun(std::string_view run);

}  // namespace gateway::control
