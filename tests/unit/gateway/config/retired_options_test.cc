#include "gateway/config/retired_options.h"

#include <gtest/gtest.h>

#include <string>

#include "gateway/config/load.h"

namespace {

TEST(RetiredOptions, AreFoundByThePointerOfAProblem) {
  const gateway::config::RetiredOption* const found =
      gateway::config::FindRetiredOption("/ledger/sinks/3/format");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->option, "ledger.sinks[].format");
  EXPECT_EQ(gateway::config::FindRetiredOption("/ledger/sinks/3/path"), nullptr);
  EXPECT_EQ(gateway::config::FindRetiredOption(""), nullptr);
}

TEST(VersionHeader, IsOffUnlessItIsAskedFor) {
  const auto with = [](const std::string& option) {
    const gateway::LoadResult loaded = gateway::ParseConfig(
        "server: {listen: 127.0.0.1:8080" + option +
            "}\ntenants: [{name: default, models: [\"*\"]}]\n"
            "models: [{name: m, endpoints: [{url: http://127.0.0.1:8000, engine: vllm}]}]\n",
        "t.yaml");
    return loaded.config && loaded.config->server.version_header;
  };
  EXPECT_FALSE(with(""));
  EXPECT_TRUE(with(", version_header: true"));
}

}  // namespace
