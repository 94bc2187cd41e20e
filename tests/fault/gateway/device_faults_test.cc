// Devices that get a fault while the real gateway gives them away, as a made-up NVML tells of them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/fault/gateway/scaling.h"
#include "tests/support/run_cli.h"

namespace tests {
namespace {

using testing::HasSubstr;

constexpr milliseconds kLong{60'000};  // devices are looked at every 15 s

TEST(DeviceFaults, AFaultyDeviceIsGivenToNobodyNewAndWhatRunsOnALostOneStartsElsewhere) {
  const TempDir folder;
  std::filesystem::create_symlink(TIDEGATE_FAKE_NVML, folder / "libnvidia-ml.so.1");
  setenv("LD_LIBRARY_PATH", folder.path().c_str(), 1);
  setenv("FAKE_NVML_FAULTS", (folder / "faults").c_str(), 1);
  ScaledModel model;
  model.replicas = "{min: 1, max: 1}";
  model.more = "placement: {devices: [{kind: h100, count: 1}]}\n";
  const Scaled scaled(model, "cluster: probe");
  ASSERT_TRUE(scaled.Becomes(1, "ready", kLong)) << scaled.Replicas();
  const Json before = scaled.Replicas()[0];
  const int device = std::stoi(before["devices"][0].get<std::string>());
  const auto seen = [&] {
    const Json nodes = scaled.Admin("/admin/v1/nodes")["data"];
    for (const Json& node : nodes) {
      if (node["name"] == before["node"]) return node["each"][static_cast<size_t>(device)];
    }
    return Json();
  };
  EXPECT_EQ(seen()["healthy"], true);

  std::ofstream(folder / "faults") << fmt::format("remap-pending {0}\npages {0}\n", device);  // as it can
  ASSERT_TRUE(Within(kLong, [&] { return seen()["healthy"] == false; })) << seen();
  EXPECT_THAT(seen()["reason"].get<std::string>(), HasSubstr("of its memory wait to be"));
  EXPECT_EQ(scaled.Names("device.quarantine"), 1);
  EXPECT_EQ(scaled.gateway.Metric("tidegate_devices_faulty"), 1);
  EXPECT_EQ(scaled.Replicas()[0]["id"], before["id"]) << "it answers";
  std::ofstream(folder / "key") << kScalingAdminKey;
  const CliResult listed =
      RunCli({"nodes", "--admin", fmt::format("http://127.0.0.1:{}", scaled.gateway.admin_port()),
              "--key-file", folder / "key"});
  EXPECT_THAT(listed.out, HasSubstr(fmt::format("device {}: ", device)));

  std::ofstream(folder / "faults") << "lost " << device << "\n";
  ASSERT_TRUE(Within(kLong, [&] {
    const Json now = scaled.Replicas();
    return now.size() == 1 && now[0]["id"] != before["id"] && now[0]["state"] == "ready";
  })) << scaled.Replicas();
  EXPECT_NE(scaled.Replicas()[0]["devices"][0], before["devices"][0]);
  EXPECT_EQ(scaled.Scaling()["failed_starts"], 0) << "no fault of the model";

  std::ofstream(folder / "faults") << "";
  EXPECT_TRUE(Within(kLong, [&] { return seen()["healthy"] == true; })) << seen();
  EXPECT_EQ(scaled.Names("device.trust"), 1);
  unsetenv("LD_LIBRARY_PATH");
  unsetenv("FAKE_NVML_FAULTS");
}

}  // namespace
}  // namespace tests
