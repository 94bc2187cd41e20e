// The protocol between the launcher and `tidegate-run`, the wrapper of a run: its arguments, its descriptors, the
// variables that name a run, and the layout of its result file. Plain values only: the wrapper links libc alone.
#pragma once

namespace plugins::launchers::wrapper {

// tidegate-run ID RESULT LOG LOG_BYTES CGROUP GRACE_MS OWNER USER LIMITS DIRECTORY PROGRAM ARGV0 [ARGV...]
//
// RESULT: a file that exists, with room for both of its blocks. LOG: the file of the output. LOG_BYTES: "LIMIT:FLOOR":
// a log beyond LIMIT is moved to LOG.1, which it replaces; while less than FLOOR bytes of the disk are free, output
// beyond the first 64 KiB is lost, and the log says how much. CGROUP: the folder of the run's cgroup, or empty.
// GRACE_MS: the time between SIGTERM and SIGKILL for processes that outlive the run's first one. OWNER: "UID:GID" of
// the gateway, the user of the wrapper. USER: "UID:GID[,GROUP...]", the user of the run; both empty: no process changes
// its user. LIMITS: "PROCESSES:FILES:FILE_BYTES:OOM_SCORE", each may be empty. DIRECTORY: the working directory of the
// run's first process, or empty.
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

// The run's environment, each "NAME=value" with a zero byte, is read from this descriptor: it may contain secrets, and
// it must not influence how a wrapper with rights loads its libraries.
inline constexpr int kEnvironmentFd = 6;

// Variables of the wrapper and, except the last, of every process that it starts.
inline constexpr char kIdVariable[] = "TIDEGATE_RUN_ID";
inline constexpr char kTokenVariable[] = "TIDEGATE_RUN_TOKEN";  // of the launcher's state directory
inline constexpr char kRecordVariable[] =
    "TIDEGATE_RUN_RECORD";  // run.json, without the fields that were not known yet

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
