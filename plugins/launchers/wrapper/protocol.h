// What the launcher and `tidegate-run`, the wrapper of a run, agree on: its arguments, the variables that
// name a run, and the layout of its result file. Plain values only: the wrapper links nothing but libc.
#pragma once

namespace plugins::launchers::wrapper {

// tidegate-run ID RESULT CGROUP GRACE_MS PROGRAM ARGV0 [ARGV...]
//
// RESULT: the file, made beforehand with room for both of its blocks. CGROUP: the folder of the run's cgroup,
// or empty. GRACE_MS: what processes that outlive the run's first one are given between SIGTERM and SIGKILL.
enum Argument : int { kId = 1, kResult, kCgroup, kGrace, kProgram, kFirstWord };

inline constexpr char kName[] = "tidegate-run";

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
