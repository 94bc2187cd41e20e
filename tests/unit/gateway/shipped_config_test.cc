// The files of conf/ as they ship, and the hash that names a configuration.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "tests/support/shipped.h"
#include "tests/unit/gateway/config_fixture.h"

namespace gateway {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using tests::ConfDirectory;
using tests::ReadShipped;

// Turns the options that the reference file has behind `#` (without a space) on.
std::string Uncommented(const std::string& text) {
  std::string out;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    const size_t first = line.find_first_not_of(' ');
    if (first != std::string::npos && line[first] == '#' && first + 1 < line.size() &&
        line[first + 1] != ' ') {
      line.erase(first, 1);
    }
    out += line + "\n";
    begin = end + 1;
  }
  return out;
}

TEST(ShippedConfig, EveryFileIsValid) {
  const std::vector<std::string> files = {"tidegate.yaml",
                                          "minimal.yaml",
                                          "demo.yaml",
                                          "examples/single-vllm.yaml",
                                          "examples/several-models.yaml",
                                          "examples/external-provider.yaml",
                                          "examples/lora.yaml",
                                          "examples/tls.yaml",
                                          "examples/redis.yaml",
                                          "examples/disaggregated.yaml",
                                          "examples/slurm.yaml",
                                          "examples/autoscaled.yaml"};
  for (const std::string& file : files) {
    for (const conf::Problem& problem : Parse(ReadShipped(file)).problems) {
      ADD_FAILURE() << file << ": " << conf::ToString(problem);
    }
  }
  size_t shipped = 0;
  for (const auto& entry : std::filesystem::directory_iterator(ConfDirectory() / "examples")) {
    shipped += entry.path().extension() == ".yaml" ? 1 : 0;
  }
  EXPECT_EQ(shipped, files.size() - 3) << "an example is not in this test";
}

// The reference says `cluster: probe`: on a machine with an h100.
LoadResult ParseOnAMachine(std::string_view text) {
  return ParseConfig(text, "t.yaml", FakeSources(), []() -> absl::StatusOr<plugins::devices::MachineCluster> {
    plugins::devices::MachineCluster machine;
    machine.cluster.fabric = scheduler::FlatFabric();
    machine.cluster.kinds.emplace_back().name = "h100";
    machine.cluster.types.emplace_back().devices = 1;
    machine.cluster.nodes.emplace_back().name = "local";
    return machine;
  });
}

TEST(ShippedConfig, TheReferenceShowsEveryOption) {
  const LoadResult result = ParseOnAMachine(Uncommented(ReadShipped("tidegate.yaml")));
  for (const conf::Problem& problem : result.problems) ADD_FAILURE() << conf::ToString(problem);
  // An option is shown when one entry of its list gives it.
  const std::regex index("/[0-9]+");
  std::map<std::string, size_t> missing;
  for (const std::string& pointer : result.defaulted) ++missing[std::regex_replace(pointer, index, "/N")];
  const std::map<std::string, size_t> entries = {
      {"/tenants/N", 3},           {"/tenants/N/limits", 3}, {"/tenants/N/budget", 2},
      {"/tenants/N/budget/N", 2},  {"/models/N", 3},         {"/models/N/routing/shadows/N", 2},
      {"/models/N/endpoints/N", 4}};
  for (const auto& [pointer, count] : missing) {
    if (pointer.starts_with("/ledger/sinks/N/")) continue;
    if (pointer == "/scaling/slurm") continue;  // of another launcher; examples/slurm.yaml shows it
    const auto several = entries.find(pointer.substr(0, pointer.rfind('/')));
    EXPECT_TRUE(several != entries.end() && count < several->second)
        << "not in conf/tidegate.yaml: " << pointer;
  }
}

TEST(ShippedConfig, TheReferenceShowsTheDefaults) {
  const nlohmann::json shown = ToJson(*Parse(ReadShipped("tidegate.yaml")).config);
  const nlohmann::json defaults = ToJson(*Parse(ReadShipped("minimal.yaml")).config);
  for (const char* section : {"auth", "ledger", "telemetry"})
    EXPECT_EQ(shown[section], defaults[section]) << section;
  for (const auto& [key, value] : defaults["server"].items()) EXPECT_EQ(shown["server"][key], value) << key;
  for (const char* key : {"routing", "timeouts", "retries", "breaker", "health", "translate"}) {
    EXPECT_EQ(shown["models"][0][key], defaults["models"][0][key]) << key;
  }
}

TEST(ShippedConfig, TheFullReferenceReadsBackFromItsJson) {
  const LoadResult full = ParseOnAMachine(Uncommented(ReadShipped("tidegate.yaml")));
  ASSERT_TRUE(full.config.has_value());
  const nlohmann::json written = ToJson(*full.config);
  const LoadResult again = ParseOnAMachine(written.dump());
  for (const conf::Problem& problem : again.problems) ADD_FAILURE() << conf::ToString(problem);
  ASSERT_TRUE(again.config.has_value());
  EXPECT_EQ(ToJson(*again.config), written);
  EXPECT_EQ(Hash(*again.config), Hash(*full.config));
}

// The hash.

TEST(ConfigHash, DependsOnMeaningAndNotOnForm) {
  const std::string base = Hash(*Parse(With({})).config);
  EXPECT_EQ(base.size(), 64U);
  EXPECT_EQ(base, Hash(*Parse("# a comment\n" + With({{"auth", "{keys: true}"}})).config));
  EXPECT_EQ(base, Hash(*Parse(OneServer("listen: [localhost:8080], shutdown_grace: 30000ms")).config));
  EXPECT_NE(base, Hash(*Parse(OneServer("listen: 127.0.0.1:8081")).config));
  EXPECT_NE(base, Hash(*Parse(OneModel("translate: false")).config));
}

TEST(ConfigHash, AndJsonShowSecretsByReferenceOnly) {
  const std::string text = OneEndpoint("url: http://h, api_key: env:UPSTREAM, secret_headers: {x-a: env:B}");
  const Config config = *Parse(text).config;
  ASSERT_EQ(config.models[0].endpoints[0].api_key.Reveal(), kSecret);
  const std::string json = ToJson(config).dump();
  EXPECT_THAT(json, Not(HasSubstr(std::string(kSecret))));
  EXPECT_THAT(json, HasSubstr(R"("api_key":"env:UPSTREAM")"));
  EXPECT_THAT(json, HasSubstr(R"("secret_headers":{"x-a":"env:B"})"));

  conf::Sources rotated = FakeSources();
  rotated.environment = [](const std::string&) { return std::optional<std::string>("another"); };
  EXPECT_EQ(Hash(config), Hash(*ParseConfig(text, "t.yaml", rotated).config));
}

}  // namespace
}  // namespace gateway
