#include "gateway/discovery/endpoint_slice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gateway::discovery {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

config::Discovery ServiceAt(std::string port = "8000") {
  return {.kubernetes = config::KubernetesSource{.service = "vllm", .port = std::move(port)},
          .scheme = "http"};
}

json Pod(const std::string& address, json conditions, const std::string& name = {}) {
  return {{"addresses", {address}},
          {"conditions", std::move(conditions)},
          {"targetRef", {{"kind", "Pod"}, {"namespace", "models"}, {"name", name.empty() ? address : name}}},
          {"zone", "a"}};
}

json Slice(std::vector<json> endpoints, const std::string& type = "IPv4") {
  return {{"addressType", type},
          {"ports", {{{"name", "http"}, {"port", 8000}, {"protocol", "TCP"}}}},
          {"endpoints", std::move(endpoints)}};
}

ServiceTargets Of(const std::vector<json>& objects, const config::Discovery& discovery) {
  std::map<std::string, EndpointSlice> slices;
  for (const json& object : objects) {
    auto slice = ParseEndpointSlice(object);
    EXPECT_TRUE(slice.ok()) << slice.status();
    if (slice.ok()) slices.emplace(std::to_string(slices.size()), *std::move(slice));
  }
  return TargetsOf(slices, discovery);
}

std::vector<std::string> HostsOf(const ServiceTargets& found) {
  std::vector<std::string> out;
  for (const config::Target& target : found.targets) out.push_back(target.url.authority());
  return out;
}

TEST(EndpointSlices, TakeReadyEndpointsThatDoNotTerminate) {
  const ServiceTargets found =
      Of({Slice({Pod("10.0.0.1", {{"ready", true}, {"serving", true}, {"terminating", false}}),
                 Pod("10.0.0.2", {{"ready", false}, {"serving", true}, {"terminating", true}}),
                 Pod("10.0.0.3", {{"ready", false}, {"serving", false}, {"terminating", false}}),
                 Pod("10.0.0.4", {{"ready", true}, {"terminating", true}})})},
         ServiceAt());
  EXPECT_THAT(HostsOf(found), ElementsAre("10.0.0.1:8000"));
  EXPECT_EQ(found.not_ready, 1U);
  EXPECT_EQ(found.terminating, 2U);
  EXPECT_EQ(found.targets.front().pod, "models/10.0.0.1");
  EXPECT_EQ(found.targets.front().zone, "a");
}

TEST(EndpointSlices, AConditionThatIsNotGivenMeansReady) {
  EXPECT_THAT(HostsOf(Of({Slice({Pod("10.0.0.1", json::object()), Pod("10.0.0.2", nullptr)})}, ServiceAt())),
              ElementsAre("10.0.0.1:8000", "10.0.0.2:8000"));
}

TEST(EndpointSlices, ThePortIsFoundByNumberByNameOrAsTheOnlyOne) {
  const std::vector<json> objects = {Slice({Pod("10.0.0.1", json::object())})};
  EXPECT_THAT(HostsOf(Of(objects, ServiceAt("8000"))), ElementsAre("10.0.0.1:8000"));
  EXPECT_THAT(HostsOf(Of(objects, ServiceAt("http"))), ElementsAre("10.0.0.1:8000"));
  EXPECT_THAT(HostsOf(Of(objects, ServiceAt(""))), ElementsAre("10.0.0.1:8000"));
  const ServiceTargets wrong = Of(objects, ServiceAt("9000"));
  EXPECT_THAT(wrong.targets, IsEmpty());
  EXPECT_THAT(wrong.trouble, HasSubstr("no port 9000; its pods listen on http (8000)"));
}

TEST(EndpointSlices, APodOfBothFamiliesIsOneReplica) {
  EXPECT_THAT(
      HostsOf(Of({Slice({Pod("fd00::1", json::object(), "a"), Pod("fd00::2", json::object(), "b")}, "IPv6"),
                  Slice({Pod("10.0.0.1", json::object(), "a")})},
                 ServiceAt())),
      ElementsAre("10.0.0.1:8000", "[fd00::2]:8000"));
}

TEST(EndpointSlices, AnEndpointInTwoSlicesIsOneReplica) {
  EXPECT_THAT(HostsOf(Of({Slice({Pod("10.0.0.1", json::object())}), Slice({Pod("10.0.0.1", json::object())})},
                         ServiceAt())),
              ElementsAre("10.0.0.1:8000"));
}

TEST(EndpointSlices, TheOlderVersionHasItsZoneInTheTopology) {
  json endpoint = {{"addresses", {"10.0.0.1"}},
                   {"conditions", {{"ready", true}}},
                   {"topology", {{"topology.kubernetes.io/zone", "b"}, {"kubernetes.io/hostname", "n1"}}}};
  const ServiceTargets found = Of({Slice({std::move(endpoint)})}, ServiceAt());
  ASSERT_EQ(found.targets.size(), 1U);
  EXPECT_EQ(found.targets.front().zone, "b");
  EXPECT_EQ(found.targets.front().pod, "");
}

TEST(EndpointSlices, StrangeObjectsAreErrorsOrLeftOut) {
  EXPECT_FALSE(ParseEndpointSlice({{"addressType", "FQDN"}}).ok());
  EXPECT_FALSE(ParseEndpointSlice(json::array()).ok());
  EXPECT_FALSE(ParseEndpointSlice(nullptr).ok());
  const auto odd =
      ParseEndpointSlice({{"addressType", "IPv4"},
                          {"ports", {{{"port", 70000}}, 5, {{"port", -1}}}},
                          {"endpoints", {5, {{"addresses", 5}}, {{"addresses", json::array()}}}}});
  ASSERT_TRUE(odd.ok());
  EXPECT_THAT(odd->endpoints, IsEmpty());
}

}  // namespace
}  // namespace gateway::discovery
