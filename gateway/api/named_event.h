// One server-sent event with a name: begins with its type, and ends with its scope. Only for this folder.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "gateway/api/json.h"

namespace gateway::api {

class NamedEvent {
 public:
  NamedEvent(std::string& out, std::string_view type) : out_(out), json_(out) {
    out_ += fmt::format("event: {}\ndata: ", type);
    json_.Open('{').Key("type").String(type);
  }
  ~NamedEvent() { out_ += "}\n\n"; }
  NamedEvent(const NamedEvent&) = delete;
  NamedEvent& operator=(const NamedEvent&) = delete;

  JsonWriter& json() { return json_; }

 private:
  std::string& out_;
  JsonWriter json_;
};

}  // namespace gateway::api
