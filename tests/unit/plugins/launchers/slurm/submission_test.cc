#include "plugins/launchers/slurm/submission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace plugins::launchers::slurm {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

RunSpec Spec() {
  RunSpec run;
  run.id = "chat-small.r1";
  run.owner = "chat-small";
  run.tenant = "demo";
  run.grant = {.node = "node2", .kind = "h100", .devices = {0, 1}};
  run.command = {"vllm", "serve", "Qwen/Qwen3-8B", "--port", "{port}", "--name", "{id}@{node}", "it's {x}"};
  run.env = {{"HF_HOME", "/data/{id}"}};
  run.directory = "/work";
  run.limit = std::chrono::seconds(61);
  return run;
}

TEST(SlurmSubmission, IsOneBatchJobOnItsNodeThatBecomesTheCommand) {
  Submission submission{.run = Spec(), .partition = "main", .qos = "high", .gres = "gpu:h100:2"};
  submission.mark = {"s1", "chat-small", "demo", 21'003};
  submission.cpus = 16;
  submission.memory_mib = 128'000;
  submission.log = "/logs/chat-small.r1.log";
  EXPECT_EQ(Json::parse(RenderBody(submission)), Json::parse(R"json({
    "script": "#!/bin/sh\nexec 'vllm' 'serve' 'Qwen/Qwen3-8B' '--port' '21003' '--name' 'chat-small.r1@node2' 'it'\\''s {x}'\n",
    "job": {
      "name": "chat-small.r1",
      "comment": "{\"owner\":\"chat-small\",\"port\":21003,\"state\":\"s1\",\"tenant\":\"demo\",\"tidegate\":1}",
      "dependency": "singleton", "no_requeue": true,
      "nodelist": "node2", "nodes": 1, "tasks": 1, "cpus_per_task": 16, "memory_per_node": 128000,
      "gres": "gpu:h100:2", "partition": "main", "qos": "high", "time_limit": 2,
      "environment": {"PATH": "/usr/local/bin:/usr/bin:/bin", "HF_HOME": "/data/chat-small.r1"},
      "current_working_directory": "/work", "open_mode": "append",
      "standard_output": "/logs/chat-small.r1.log", "standard_error": "/logs/chat-small.r1.log"}})json"));
}

TEST(SlurmSubmission, MarkReadsBackAsItWasWritten) {
  const Mark mark{"state \"1\"", "größer", "", 0};
  EXPECT_EQ(ReadMark(Render(mark)), mark);
  for (const char* comment :
       {"", "hello", "{", "[]", "{}", R"({"tidegate":2,"state":"s","owner":"o","tenant":"t","port":1})",
        R"({"tidegate":1,"state":7,"owner":"o","tenant":"t","port":1})",
        R"({"tidegate":1,"state":"s","owner":"o","tenant":"t","port":70000})",
        R"({"tidegate":1,"state":"s","owner":"o","tenant":"t","port":-1})"}) {
    EXPECT_EQ(ReadMark(comment), std::nullopt) << comment;
  }
}

TEST(SlurmSubmission, NamesTheReasonForImpossibleRuns) {
  EXPECT_EQ(FirstDefect(Spec()), "");
  struct Case {
    void (*spoil)(RunSpec&);
    const char* why;
  };
  for (const Case& c : {Case{[](RunSpec& r) { r.id = "Chat"; }, "lower-case"},
                        Case{[](RunSpec& r) { r.id = std::string(64, 'a'); }, "1 to 63"},
                        Case{[](RunSpec& r) { r.command.clear(); }, "no command"},
                        Case{[](RunSpec& r) { r.command.push_back(std::string(1, '\0')); }, "NUL"},
                        Case{[](RunSpec& r) { r.command.push_back(std::string(2 << 20, 'x')); }, "1 MiB"},
                        Case{[](RunSpec& r) { r.env.emplace_back("A=B", "c"); }, "environment"},
                        Case{[](RunSpec& r) { r.grant.node.clear(); }, "no node"},
                        Case{[](RunSpec& r) { r.grant.milli = 500; }, "share of a device"},
                        Case{[](RunSpec& r) { r.grant.partition = "1g.10gb"; }, "a partition of a device"}}) {
    RunSpec run = Spec();
    c.spoil(run);
    EXPECT_THAT(FirstDefect(run), HasSubstr(c.why));
  }
}

}  // namespace
}  // namespace plugins::launchers::slurm
