// The files of conf/ as they ship, and the hash that names a configuration.
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <absl/strings/strip.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "tests/support/shipped.h"
#include "tests/unit/gateway/config/config_fixture.h"

namespace gateway {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using tests::ConfDirectory;
using tests::ReadShipped;

// Blocks of options that are off: runs of lines with a `#` in the same column, the first followed by no
// space, the others by no space or by two and more. A `#` with one space begins a sentence.
struct Block {
  size_t line = 0;  // from 0
  size_t lines = 1;
  size_t column = 0;
  std::string first;
};

std::vector<std::string> LinesOf(const std::string& text) {
  return absl::StrSplit(absl::StripSuffix(text, "\n"), '\n');
}

std::vector<Block> BlocksOf(const std::vector<std::string>& lines) {
  const auto column_of = [&](size_t i) {
    const size_t at = lines[i].find_first_not_of(' ');
    return at != std::string::npos && lines[i][at] == '#' ? std::optional(at) : std::nullopt;
  };
  const auto begins = [&](size_t i, size_t at) {
    return at + 1 < lines[i].size() && lines[i][at + 1] != ' ';
  };
  const auto goes_on = [&](size_t i, size_t at) { return lines[i].compare(at, 3, "#  ") == 0; };
  std::vector<Block> blocks;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::optional<size_t> at = column_of(i);
    if (!at) continue;
    if (goes_on(i, *at)) {
      if (!blocks.empty() && blocks.back().line + blocks.back().lines == i && blocks.back().column == *at) {
        ++blocks.back().lines;
      } else {
        ADD_FAILURE() << "line " << i + 1 << " belongs to no block: " << lines[i];
      }
    } else if (begins(i, *at)) {
      blocks.push_back({.line = i, .column = *at, .first = lines[i].substr(*at + 1)});
    }
  }
  return blocks;
}

// What an operator does to turn a block on: removes the first `#` of each of its lines.
void TurnOn(const Block& block, std::vector<std::string>& lines) {
  for (size_t i = block.line; i < block.line + block.lines; ++i) lines[i].erase(block.column, 1);
}

// All blocks but `state:`, which the reference's launcher cannot have: several gateways share it.
std::string Uncommented(const std::string& text) {
  std::vector<std::string> lines = LinesOf(text);
  for (const Block& block : BlocksOf(lines)) {
    if (block.first != "state:") TurnOn(block, lines);
  }
  return absl::StrJoin(lines, "\n");
}

// That block alone.
std::string WithState(const std::string& text) {
  std::vector<std::string> lines = LinesOf(text);
  for (const Block& block : BlocksOf(lines)) {
    if (block.first == "state:") TurnOn(block, lines);
  }
  return absl::StrJoin(lines, "\n");
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
                                          "examples/kubernetes-service.yaml",
                                          "examples/kubernetes.yaml",
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
  const std::map<std::string, size_t> entries = {{"/tenants/N", 3},
                                                 {"/tenants/N/limits", 3},
                                                 {"/tenants/N/budget", 2},
                                                 {"/tenants/N/budget/N", 2},
                                                 {"/models/N", 3},
                                                 {"/models/N/routing/shadows/N", 2},
                                                 {"/models/N/endpoints/N", 7},
                                                 {"/models/N/price", 3},
                                                 {"/people/providers/N/roles/N", 2},
                                                 {"/scaling/data_sets/N", 5}};
  for (const auto& [pointer, count] : missing) {
    if (pointer.starts_with("/ledger/sinks/N/")) continue;
    if (pointer == "/state") continue;               // below
    if (pointer == "/scaling/slurm") continue;       // of another launcher; examples/slurm.yaml shows it
    if (pointer == "/scaling/kubernetes") continue;  // likewise; examples/kubernetes.yaml shows it
    if (pointer == "/scaling/weights/image" || pointer == "/scaling/weights/claim") continue;  // there, too
    const auto several = entries.find(pointer.substr(0, pointer.rfind('/')));
    EXPECT_TRUE(several != entries.end() && count < several->second)
        << "not in conf/tidegate.yaml: " << pointer;
  }
}

TEST(ShippedConfig, TheReferenceShowsEveryOptionOfASharedState) {
  const LoadResult result = ParseOnAMachine(WithState(ReadShipped("tidegate.yaml")));
  for (const conf::Problem& problem : result.problems) ADD_FAILURE() << conf::ToString(problem);
  for (const std::string& pointer : result.defaulted)
    EXPECT_FALSE(pointer.starts_with("/state")) << "not in conf/tidegate.yaml: " << pointer;
}

TEST(ShippedConfig, EachBlockOfTheReferenceTurnsOnByItself) {
  const std::vector<std::string> lines = LinesOf(ReadShipped("tidegate.yaml"));
  // Blocks that mean nothing without others, by how they begin.
  const std::vector<std::pair<std::string, std::string>> needs = {{"- device_hours:", "scaling:"},
                                                                  {"batches:", "files:"},
                                                                  {"console:", "console_tls:"},
                                                                  {"console_tls:", "console:"},
                                                                  {"people:", "console:"},
                                                                  {"people:", "console_tls:"},
                                                                  {"zone:", "zone:"},
                                                                  {"track:", "canaries:"},
                                                                  {"canaries:", "track:"},
                                                                  {"shadows:", "track:"},
                                                                  {"role:", "- {url:"},
                                                                  {"- {url:", "role:"},
                                                                  {"bootstrap_port:", "role:"},
                                                                  {"bootstrap_port:", "- {url:"},
                                                                  {"disaggregation:", "role:"},
                                                                  {"disaggregation:", "- {url:"}};
  const std::vector<Block> blocks = BlocksOf(lines);
  ASSERT_GT(blocks.size(), 40U);
  for (const Block& block : blocks) {
    std::vector<std::string> changed = lines;
    for (const Block& other : blocks) {
      const bool needed = std::ranges::any_of(needs, [&](const auto& need) {
        return block.first.starts_with(need.first) && other.first.starts_with(need.second);
      });
      if (needed || other.line == block.line) TurnOn(other, changed);
    }
    for (const conf::Problem& problem : ParseOnAMachine(absl::StrJoin(changed, "\n")).problems) {
      ADD_FAILURE() << "line " << block.line + 1 << " alone: " << conf::ToString(problem);
    }
  }
}

TEST(ShippedConfig, NoLineIsLongerThan100Characters) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(ConfDirectory())) {
    if (entry.path().extension() != ".yaml") continue;
    const std::vector<std::string> lines = LinesOf(ReadShipped(entry.path()));
    for (size_t i = 0; i < lines.size(); ++i)
      EXPECT_LE(lines[i].size(), 100U) << entry.path() << ":" << i + 1 << ": " << lines[i];
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

TEST(ConfigHash, ShowsSecretsByReferenceOnly) {
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
