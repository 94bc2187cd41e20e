// Files that the gateway has mapped, and that fail under it: it ends, and says which file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/engine_process.h"
#include "tests/support/gateway_process.h"

namespace tests {
namespace {

using testing::HasSubstr;

TEST(MappedFiles, AJournalThatIsCutEndsTheGatewayWithAMessageThatNamesIt) {
  const EngineProcess engine;
  GatewayProcess gateway({.replicas = {engine.port()}, .threads = 1});
  ASSERT_EQ(gateway.Ask(Chat({{"max_tokens", 1}})).status, 200);
  ASSERT_TRUE(gateway.Settles());
  const std::string journal = gateway.ledger_dir() + "/journal-0";
  gateway.process().Expect(SIGBUS);
  ASSERT_EQ(truncate(journal.c_str(), 0), 0);
  (void)gateway.Ask(Chat({{"max_tokens", 1}}));
  const std::optional<int> status = gateway.process().Wait(RawClient::kPatience);
  ASSERT_TRUE(status);
  EXPECT_TRUE(WIFSIGNALED(*status));
  EXPECT_THAT(gateway.process().Output(), HasSubstr("tidegate: " + journal + " cannot be read or written"));
  // The next one goes on with what is in segments.
  gateway.Start();
  EXPECT_EQ(gateway.Ask(Chat({{"max_tokens", 1}})).status, 200);
  EXPECT_TRUE(gateway.Settles());
  EXPECT_TRUE(gateway.Verify().ok());
}

}  // namespace
}  // namespace tests
