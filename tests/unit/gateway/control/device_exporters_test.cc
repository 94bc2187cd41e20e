#include "gateway/control/devices/device_exporters.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/loop_test.h"

namespace gateway::control {
namespace {

TEST(DeviceExporters, WhereManyDoNotAnswerTheOthersStillHaveTheirTurn) {
  tests::RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    const std::vector<config::DeviceMetrics> configured = {{.url = "http://127.0.0.1:1/{node}", .tls = {}}};
    DeviceExporters exporters(loop, configured, [](const auto&, const auto&, const auto&) {});
    std::vector<std::string> nodes;
    for (size_t i = 0; i < 2 * DeviceExporters::kMaxAtOnce; ++i) nodes.push_back(fmt::format("n{}", i));
    conf::TimePoint now = conf::TimePoint(std::chrono::hours(1));
    exporters.Tick(nodes, now);
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return exporters.under_way() == 0; }));
    EXPECT_EQ(exporters.troubles().size(), DeviceExporters::kMaxAtOnce);
    now += configured.front().interval;  // all are due
    exporters.Tick(nodes, now);
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return exporters.under_way() == 0; }));
    EXPECT_EQ(exporters.troubles().size(), nodes.size());
    exporters.Close();
  });
}

}  // namespace
}  // namespace gateway::control
