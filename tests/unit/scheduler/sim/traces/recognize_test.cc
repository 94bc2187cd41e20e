#include "scheduler/sim/traces/recognize.h"

#include <gtest/gtest.h>

namespace scheduler::sim {
namespace {

TEST(RecognizeTrace, TellsFormatsByTheirFirstRow) {
  const struct {
    std::string_view text, name;
  } kTexts[] = {
      {"# a comment\n\n{\"id\":\"a\",\"roles\":[]}\n", "jsonl"},
      {"{\"timestamp\":0,\"input_length\":7,\"output_length\":1,\"hash_ids\":[0]}\n", "mooncake"},
      {"timestamp,duration,num_gpus,gpu_time,cluster\r\n", "philly"},
      {"2017-10-09 07:01:55,66.0,1,66.0,11cb48\n", "philly"},
      {"\xEF\xBB\xBFname,cpu_milli,memory_mib,num_gpu,gpu_milli\n", "openb"},
      {"openb-pod-0000,12000,16384,1,1000,,LS,Running,0,12537496,0\n", "openb"},
      {"\"timestamp\",\"duration\",\"num_gpus\",\"gpu_time\",\"cluster\"\n", "philly"},
      {",qos,gpu_milli,num_gpu,memory_mib,cpu_milli,name\n", "openb"},
      {"; Version: 2.2\n", "swf"},
      {"1 0 5 100 4 -1 -1 4 200 -1 1 3 1 1 1 -1 -1 -1\n", "swf"},
      {"TIMESTAMP,ContextTokens,GeneratedTokens\n", "azure"},
      {"2023-11-16 18:15:46.6805900,374,44\n", "azure"},
  };
  for (const auto& [text, name] : kTexts) {
    const TraceFormat* const found = RecognizeTrace(text);
    ASSERT_NE(found, nullptr) << text;
    EXPECT_EQ(found->name, name) << text;
  }
  EXPECT_EQ(RecognizeTrace("sn,cpu_milli,memory_mib,gpu,model\n")->of, TraceFormat::Of::kNodes);
}

TEST(RecognizeTrace, SaysHowToConvertPublicTracesThatAreNotRead) {
  const struct {
    std::string_view text, what, convert;
  } kTexts[] = {
      {"job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n",
       "Helios", "submit_time"},
      {"job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n",
       "pai_task_table", "plan_gpu / 100"},
      {"0cb3,tensorflow,1.0,Terminated,494591.0,496842.0,600.0,29.3,50.0,T4\n", "pai_task_table",
       "plan_gpu / 100"},
      {"5b4c,worker,2.0,Running,494591.0,,600.0,29.3,100.0,MISC\n", "pai_task_table", "plan_gpu / 100"},
      {"b3f0,d9b1,u7,Failed,2739500.0,2739548.0\n", "pai_job_table", "pai_task_table"},
  };
  for (const auto& [text, what, convert] : kTexts) {
    const TraceFormat* const found = RecognizeTrace(text);
    ASSERT_NE(found, nullptr) << text;
    EXPECT_EQ(found->of, TraceFormat::Of::kUnread) << text;
    EXPECT_NE(found->what.find(what), std::string_view::npos) << found->what;
    EXPECT_NE(found->convert.find(convert), std::string_view::npos) << found->convert;
  }
}

TEST(RecognizeTrace, SaysNothingOfAnythingElse) {
  for (const std::string_view text :
       {"", "\n \n", "# only a comment", "Dear reader,", ",,,,", "a,b", "1 2 3"})
    EXPECT_EQ(RecognizeTrace(text), nullptr) << text;
  EXPECT_FALSE(HasRows("# only a comment\n\n"));
  EXPECT_TRUE(HasRows("Dear reader,"));
  EXPECT_EQ(FindTraceFormat(""), nullptr);
}

}  // namespace
}  // namespace scheduler::sim
