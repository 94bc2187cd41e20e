#include "gateway/api/models.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace gateway::api {
namespace {

using nlohmann::json;

const std::vector<ModelCard> kModels = {
    {.id = "chat-small", .created = conf::FromUnixMicros(1'700'000'000'500'000)},
    {.id = "a\"b", .owned_by = "acme", .created = conf::FromUnixMicros(0)},
};

TEST(RenderModels, SpeaksOpenAi) {
  EXPECT_EQ(json::parse(RenderModels(Protocol::kOpenAi, kModels)), json::parse(R"({"object":"list","data":[
      {"id":"chat-small","object":"model","created":1700000000,"owned_by":"tidegate","root":"chat-small","parent":null},
      {"id":"a\"b","object":"model","created":0,"owned_by":"acme","root":"a\"b","parent":null}]})"));
  EXPECT_EQ(RenderModels(Protocol::kOpenAi, {}), R"({"object":"list","data":[]})");
}

TEST(RenderModels, SpeaksAnthropic) {
  EXPECT_EQ(json::parse(RenderModels(Protocol::kAnthropic, kModels)), json::parse(R"({"data":[
      {"type":"model","id":"chat-small","display_name":"chat-small","created_at":"2023-11-14T22:13:20.500000Z"},
      {"type":"model","id":"a\"b","display_name":"a\"b","created_at":"1970-01-01T00:00:00.000000Z"}],
      "has_more":false,"first_id":"chat-small","last_id":"a\"b"})"));
  EXPECT_TRUE(json::parse(RenderModels(Protocol::kAnthropic, {}))["first_id"].is_null());
}

TEST(RenderModel, IsAnElementOfTheList) {
  for (const Protocol protocol : {Protocol::kOpenAi, Protocol::kAnthropic}) {
    EXPECT_EQ(json::parse(RenderModel(protocol, kModels[1])),
              json::parse(RenderModels(protocol, kModels))["data"][1]);
  }
}

}  // namespace
}  // namespace gateway::api
