#include "tests/support/engine_process.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace tests {

void EngineProcess::Start() {
  std::vector<std::string> words{TIDEGATE_ENGINE_BINARY, "--model", "chat-small", "--port",
                                 std::to_string(port())};
  bool preset = false;
  for (const std::string& flag : flags_) {
    preset = preset || flag == "--preset";
    words.push_back(flag);
  }
  if (!preset) words.insert(words.end(), {"--preset", "instant"});
  process_ = std::make_unique<ChildProcess>(std::move(words), folder_ / "engine.log");
  const std::string line = process_->WaitForLine("listening on ", RawClient::kPatience);
  ASSERT_FALSE(line.empty()) << "the engine did not start: " << process_->Output();
  ASSERT_TRUE(
      Within(RawClient::kPatience, [&] { return RawClient(port()).Ask(Get("/health")).status == 200; }));
}

void EngineProcess::Kill() {
  process_->Signal(SIGKILL);
  process_->Wait(RawClient::kPatience);
}

// An engine with the fault `refuse` refuses these connections, too.
Answer EngineProcess::Ask(const std::string& request) const {
  Answer answer;
  EXPECT_TRUE(Within(RawClient::kPatience, [&] {
    answer = RawClient(port()).Ask(request);
    return answer.whole;
  })) << request;
  return answer;
}

Json EngineProcess::Stats() const {
  return Ask(Get("/engine/stats")).json();
}

uint64_t EngineProcess::Stat(const char* pointer) const {
  const Json stats = Stats();
  const Json::json_pointer at(pointer);
  return stats.contains(at) ? stats[at].get<uint64_t>() : 0;
}

void EngineProcess::Fault(const Json& fault) const {
  const Answer answer = Ask(Post("/engine/fault", fault.dump()));
  ASSERT_LT(answer.status, 300) << answer.body;
}

void EngineProcess::ClearFaults() const {
  const Answer answer = Ask("DELETE /engine/fault HTTP/1.1\r\nHost: engine\r\n\r\n");
  ASSERT_LT(answer.status, 300) << answer.body;
}

}  // namespace tests
