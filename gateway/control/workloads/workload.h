// Workload: one piece of work that Tidegate runs, a replica or a job, from its request until none of it is
// left. It is a gang of one or more members, each a run of a launcher on one node.
//
//   pending ─▶ placed ─▶ starting ─▶ running ─▶ saving ─▶ draining ─▶ stopped
//      ▲                  ▲  │          │         │          ▲ │
//      │                  │  └──────────┴─────────┼──────────┘ │
//      │                  └── asleep ◀────────────┘ (replicas) │
//      └──────────────── (preempted, resized, tried again) ────┘
//
// A replica that sleeps keeps its processes and some host memory; its devices are free for others, until it
// gets the same ones again and wakes.
//
// Members start together or not at all: when one ends, the others are ended, too. The StepRunner carries out
// what a state requires, one step at a time; the flags say how far it has come. The differences between
// replicas and jobs are in workload_kind.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "conf/words.h"
#include "gateway/config/job_file.h"
#include "gateway/config/model.h"
#include "gateway/control/workloads/crash_loop.h"
#include "gateway/control/workloads/start_phases.h"
#include "plugins/launchers/launcher.h"
#include "router/load/replica_load.h"
#include "scheduler/plan.h"

namespace gateway::control {

enum class Kind : uint8_t {
  kReplica,
  kJob,     // training, batch, array, notebook
  kOrphan,  // a run without a record: it is ended, and holds its devices until then
};

enum class State : uint8_t {
  kPending,   // for devices, for other workloads, or for its next try
  kPlaced,    // has devices; not recorded yet
  kStarting,  // recorded; its members are being started, until all run and a replica answers
  kRunning,
  kAsleep,    // a replica: its processes are there, others may use its devices
  kSaving,    // its work is being saved: members save, or a replica's last requests end
  kDraining,  // its members are being ended
  kStopped,   // holds nothing; its outcome says why
};
std::string_view Name(State state);
std::optional<State> ParseState(std::string_view name);

// What happens to a workload when its members have ended. The later one wins.
enum class Afterwards : uint8_t {
  kSleeps,   // a replica that is not needed now: it falls asleep, and its members do not end
  kResizes,  // starts again at once, with the members in `next`
  kWaits,    // made room: waits for its next start
  kRetries,  // waits for its next start after a failure, within its restarts
  kSuspends,
  kEnds,  // is done, or no longer wanted
  kFails,
  kCancels,
};
std::string_view Name(Afterwards afterwards);
// The ledger's words for the end of a job's attempt.
inline constexpr std::string_view kJobMoveAction = "job.move";
inline constexpr conf::Word<Afterwards> kJobEndActions[] = {
    {"job.resize", Afterwards::kResizes}, {"job.preempt", Afterwards::kWaits},
    {"job.retry", Afterwards::kRetries},  {"job.suspend", Afterwards::kSuspends},
    {"job.stop", Afterwards::kFails},     {"job.stop", Afterwards::kEnds},
    {"job.cancel", Afterwards::kCancels}, {kJobMoveAction, Afterwards::kResizes}};
std::optional<Afterwards> ParseAfterwards(std::string_view name);

// The result of a stopped workload.
enum class Outcome : uint8_t {
  kNone,
  kSuspended,  // until it is resumed
  kDone,
  kFailed,
  kCancelled,
};
std::string_view Name(Outcome outcome);
std::optional<Outcome> ParseOutcome(std::string_view name);

// What it takes to run a job again, beside its file: as it was at the submission.
struct Provenance {
  std::string version{};        // of Tidegate
  std::string configuration{};  // SHA-256 of the gateway's configuration
  std::string file{};           // SHA-256 of the job's file and the file of its parameters
  std::string command{};        // SHA-256 of the command's words
  std::string image{};
  uint64_t seed = 0;                                        // that its members were given
  std::vector<std::pair<std::string, std::string>> data{};  // name and digest of its data sets
  std::string rerun_of{};                                   // the job whose file it was; empty: none
};

// What an element of a sweep has reported.
struct SweepProgress {
  std::optional<uint64_t> step{};
  double value = 0;             // at `step`
  double best = 0;              // of all so far
  std::vector<double> rungs{};  // its value at each rung that it has reached
  std::string stopped{};        // why it was stopped early; empty: it was not
  std::string unread{};         // why its file could not be read last; empty: it could. Of this process.
  uint64_t read_to = 0;         // of this process: bytes of its file that were read
  uint64_t file_id = 0;         // of this process: the file to which `read_to` belongs
};

// One submitted job file; its elements share it.
struct Submission {
  std::string id;
  uint64_t number = 0;  // the id ends with it; never used again
  std::string text;
  std::string parameters;  // the text of the file of parameters that its sweep names
  config::JobFile file;
  std::string user;  // that submitted it: an admin key's id
  conf::TimePoint at{};
  Provenance provenance{};
};

struct Member {
  scheduler::MemberAt at;
  std::optional<scheduler::MemberAt> home{};  // asleep: the place that it had, and wakes at
  std::string run;

  bool asked = false;    // the launcher was called to start it
  bool started = false;  // the launcher has accepted it
  bool running = false;
  bool told = false;       // it got the signal that the state requires: to save, or to end
  bool signalled = false;  // it got one of these signals, in any state
  bool ended = false;
  conf::TimePoint told_at{};
  std::optional<conf::TimePoint> missing{};  // since when the launcher does not report it
  std::optional<int> exit_code{};
  std::optional<int> signal{};  // that ended it
  std::string why{};            // the reason of its end, or why it does not start
  std::string log{};
  std::string user{};  // of the machine; empty: the gateway's, or not known
  std::string host{};  // where it listens, if it serves
  uint16_t port = 0;
  std::optional<conf::TimePoint> began{};    // it held its devices from then
  std::optional<conf::TimePoint> alive{};    // and then; its end may not be known yet
  std::optional<conf::TimePoint> gone{};     // until then
  std::optional<conf::TimePoint> noticed{};  // that it has ended, by this process

  bool ended_well() const { return ended && exit_code == 0; }
};

// What only this process knows of a replica.
struct Serving {
  std::shared_ptr<const config::Endpoint> endpoint{};  // once its leader runs
  std::shared_ptr<router::ReplicaState> load{};        // likewise
  conf::TimePoint next_probe{};
  conf::TimePoint unpublished{};  // kSaving: when it was removed from the routes
  bool idle = false;              // kSaving, to sleep: its last request has ended
  std::string makes_room_for{};   // kSaving: a model, which gets its devices: it is not taken back
  bool called = false;            // its engine is being asked to sleep or to wake
  bool woken = false;             // this start of it was a wake
  conf::TimePoint wake_asked{};   // kAsleep, wants to wake: since when
  bool needed_now = false;        // likewise: others make room for it
  conf::TimePoint busy_at{};      // kRunning: it or its model's queue had a request
  bool probing = false;
  bool reading = false;        // its log is being read (StartReports)
  bool weights_known = false;  // nothing more is to be read in it
  conf::TimePoint next_read{};
  WeightsArrival arrival{};  // of its present start, where its policy has weights
  StartPhases phases{};      // of its cold start, once it is ready; zeros: not of this process
  // Requests go on while it is probed again after another gateway has led, or while it is recorded that it is for
  // batches alone, or no longer.
  bool continues = false;
  // Its node is not trusted: another replica starts in its place, and this one is not ended.
  bool set_aside = false;
};

struct Workload {
  std::string id;
  Kind kind = Kind::kJob;
  std::string model{};                     // of a replica
  std::string model_version{};             // of a replica: by which of the policy's templates it is started
  bool keyed = false;                      // of a replica: its engine demands a key (ReplicaKeys)
  bool for_batches = false;                // of a replica: it runs for lines of batches alone (BatchReplicas)
  bool wakes = false;                      // kStarting: it slept, and its engine is still to be woken
  bool wants_to_wake = false;              // kAsleep: it waits for its devices
  conf::TimePoint held_from{};             // of a replica that slept: it has its devices again
  std::shared_ptr<const Submission> of{};  // of a job
  uint32_t element = 0;                    // of an array or a sweep
  SweepProgress progress{};                // of a sweep's element
  uint32_t number = 0;                     // unique in this process, for the autoscaler; never used again

  State state = State::kPending;
  Outcome outcome = Outcome::kNone;
  conf::TimePoint since{};    // when the state began
  conf::TimePoint wanted{};   // when it was requested
  conf::TimePoint started{};  // when the attempt got its devices
  std::string why;            // the reason of the state
  std::string actor;          // who caused it: "control", or an admin key's id
  Afterwards afterwards = Afterwards::kWaits;
  uint32_t attempt = 0;
  uint32_t restarts = 0;                    // after failures
  bool blameless = false;                   // the attempt ends by the node's fault, and uses no restart
  bool resumes = false;                     // its next start resumes from the checkpoint
  conf::Duration done{};                    // saved run time of earlier attempts
  double device_seconds = 0;                // of the members of a job's earlier attempts
  std::vector<Member> members{};            // of this attempt, or the last one; by rank
  std::vector<Member> before{};             // of the attempt before
  std::vector<scheduler::MemberAt> next{};  // kResizes
  std::string replaces{};   // of a replica: the replica that ends when this one serves (ReplicaMoves)
  conf::TimePoint moved{};  // the last time that it moved, or began to
  std::string gain{};       // of that move

  // Known to this process only.
  uint64_t version = 0;   // rises with every change to be stored
  bool recorded = false;  // the ledger has what the state requires
  bool saved = false;     // the store has the present state
  bool busy = false;      // a step is under way
  bool adopted = false;   // it ran before this process began
  bool held = false;      // pending, not given to the planner yet: for others, or after a failure
  CrashLoop crashes{};
  conf::TimePoint next_step{};
  conf::TimePoint ran_from{};  // when all members of this attempt ran; zero: not yet
  conf::TimePoint checkpointed{};
  std::string unplaced{};  // why the last planning cycle gave it no devices
  bool withheld = false;   // pending: not given to the planner; `unplaced` says why
  Serving serving{};

  const config::JobFile& file() const { return of->file; }
  bool holds() const { return state >= State::kPlaced && state <= State::kDraining; }
  bool ends() const { return state == State::kSaving || state == State::kDraining; }
  // It ends in order to continue at other places, with as many members.
  bool moves() const {
    return ends() && afterwards == Afterwards::kResizes && next.size() == members.size() && !gain.empty();
  }
  bool over() const { return state == State::kStopped && outcome > Outcome::kSuspended; }
  bool suspended() const { return state == State::kStopped && outcome == Outcome::kSuspended; }
  bool asked() const;  // the launcher was called for one of its members
  bool all_ended() const;
  uint64_t devices() const;  // held by its members
  // For how long its members have held devices, in all attempts, up to then.
  double DeviceSeconds(const scheduler::Cluster& cluster, conf::TimePoint until) const;
  conf::Duration kept() const;  // run time that stays saved if this attempt ends now
  uint32_t in_flight() const;   // requests
};

// "exited with 3", "was ended by signal 9", and the launcher's remarks.
std::string HowEnded(const Member& member);

// "starting", "running", "stopping" or "ended".
std::string_view MemberStateOf(const Member& member);

// The state of a job in words for people; for a stopped job, its outcome.
std::string_view JobStateOf(const Workload& job);
bool IsJobState(std::string_view word);
bool IsOver(std::string_view job_state);

// "j-finetune-7.3-2-0": for a job's attempt; "r-chat-6411f3a0" and "r-chat-6411f3a0-1": for a replica.
std::string RunId(const Workload& workload, uint32_t rank);
// "r-chat-small-6411f3a0c2b": `stamp` makes it unique.
std::string ReplicaId(std::string_view model, int64_t stamp);
bool IsReplicaRun(std::string_view run);
bool IsJobRun(std::string_view run);

}  // namespace gateway::control
