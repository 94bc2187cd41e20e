// Server-sent events taken apart for the tests of streams: each is checked to be framed as the SDKs need it.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "conf/json_parse.h"

namespace gateway::api {

struct SseEvent {
  std::string name;
  nlohmann::json data;
};

inline std::vector<SseEvent> ParseEvents(std::string_view text) {
  std::vector<SseEvent> events;
  while (!text.empty()) {
    const size_t end = text.find("\n\n");
    if (end == std::string_view::npos) {
      ADD_FAILURE() << "event without its end: " << text;
      return events;
    }
    std::string_view event = text.substr(0, end);
    text.remove_prefix(end + 2);
    SseEvent parsed;
    if (event.starts_with("event: ")) {
      const size_t line = event.find('\n');
      parsed.name = event.substr(7, line - 7);
      event.remove_prefix(line + 1);
    }
    EXPECT_TRUE(event.starts_with("data: ")) << event;
    parsed.data = conf::ParseJson(event.substr(6));
    EXPECT_FALSE(parsed.data.is_discarded()) << event;
    if (!parsed.name.empty() && parsed.data.is_object())
      EXPECT_EQ(parsed.name, parsed.data.value("type", ""));
    events.push_back(std::move(parsed));
  }
  return events;
}

}  // namespace gateway::api
