// What the launcher and `tidegate-run`, the wrapper of a run, agree on: its arguments, its descriptors, the
// variables that name a run, and the layout of its result file. Plain values only: the wrapper links nothing
// but libc.
#pragma once

namespace plugins::launchers::wrapper {

// tidegate-run ID RESULT LOG LOG_BYTES CGROUP GRACE_MS OWNER USER LIMITS DIRECTORY PROGRAM ARGV0 [ARGV...]
//
// RESULT: the file, made beforehand with room for both of its blocks. LOG: the file that the wrapper's output
// is, LOG_BYTES "LIMIT:FLOOR": what is over its limit goes to LOG.1, in place of what was there; while less
// than FLOOR bytes of its disk are free, output beyond the first 64 KiB is lost, and the log says how much.
// CGROUP: the folder of the run's cgroup, or empty. GRACE_MS: what processes that outlive the run's first one
// are given between SIGTERM and SIGKILL. OWNER: "UID:GID" of the gateway, whom the wrapper becomes; USER:
// "UID:GID[,GROUP...]" whom the run becomes; both empty: everybody stays who they are. LIMITS:
// "PROCESSES:FILES:FILE_BYTES:OOM_SCORE", each may be empty. DIRECTORY: where the run's first process begins,
// or empty.
enum Argument : int {
  kId = 1,
  kResult,
  kLog,
  kLogBytes,
  kCgroup,
  kGrace,
  kOwner,
  kUser,
  kLimits,
  kDirectory,
  kProgram,
  kFirstWord
};

inline constexpr char kName[] = "tidegate-run";

// The run's environment, "NAME=value" each with a zero byte, is read from this descriptor: it may hold
// secrets, and a wrapper with rights must not be told by it how to load its libraries.
inline constexpr int kEnvironmentFd = 6;

// In the environment of the wrapper and, but for the last, of all that it starts.
inline constexpr char kIdVariable[] = "TIDEGATE_RUN_ID";
inline constexpr char kTokenVariable[] = "TIDEGATE_RUN_TOKEN";  // of the launcher's state directory
inline constexpr char kRecordVariable[] =
    "TIDEGATE_RUN_RECORD";  // as run.json, without what was not known yet

// RESULT holds two lines of JSON, each at the start of a block of its own, so that writing one never touches
// the other. Until a line is written its block holds zeros. While the wrapper runs it moves the file's time
// of change on, so that one that was killed leaves when it was last there.
//
//   {"run":ID,"child":PID,"child_ticks":N,"started":MICROSECONDS}
//   {"ended":MICROSECONDS,"exit_code":N or null,"signal":N or null,"killed":BOOL}
//
// `ended` is when the last process of the run was gone; exit code or signal are its first process's.
// `killed`: something of the run had to be ended by SIGKILL.
inline constexpr long kBlockBytes = 4096;  // NOLINT(google-runtime-int): an off_t, without its header

}  // namespace plugins::launchers::wrapper
