#include "plugins/engines/start_times.h"

#include <gtest/gtest.h>

namespace plugins::engines {
namespace {

using std::chrono::milliseconds;

TEST(EngineStartTimes, OfVllm) {
  const StartTimes times = ReadStartTimes(
      "INFO 11-20 10:00:01 [default_loader.py:262] Loading weights took 4.24 seconds\n"
      "(Worker_TP0 pid=8) INFO [gpu_model_runner.py:2007] Model loading took 14.9889 GiB and 5.112 seconds\n"
      "(Worker_TP1 pid=9) INFO [gpu_model_runner.py:2007] Model loading took 14.9889 GiB and 5.500 seconds\n"
      "INFO [monitor.py:34] torch.compile takes 33.25 s in total\n"
      "INFO [gpu_model_runner.py:2600] Graph capturing finished in 21 secs, took 0.55 GiB\n");
  EXPECT_EQ(times.loaded, milliseconds(5500));
  EXPECT_EQ(times.compiled, milliseconds(54'250));
}

TEST(EngineStartTimes, OfSglang) {
  const StartTimes times = ReadStartTimes(
      "[2026-11-20 10:00:07 TP0] Load weight end. elapsed=12.34 s, type=LlamaForCausalLM, "
      "dtype=torch.bfloat16\n"
      "[2026-11-20 10:00:20 TP0] Capture cuda graph end. Time elapsed: 5.32 s. mem usage=0.89 GB.\n");
  EXPECT_EQ(times.loaded, milliseconds(12'340));
  EXPECT_EQ(times.compiled, milliseconds(5320));
}

TEST(EngineStartTimes, AreAbsentWhereTheEngineIsSilent) {
  const StartTimes times = ReadStartTimes("Loading weights took a while\nLoad weight end. type=X\n");
  EXPECT_FALSE(times.loaded);
  EXPECT_FALSE(times.compiled);
}

}  // namespace
}  // namespace plugins::engines
