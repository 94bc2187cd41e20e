// The tools of a Responses request in chat form. Only for this folder.
//
// Chat has functions and nothing else. A custom tool becomes a function whose only argument is its text, the
// tools of a namespace become functions whose names begin with the namespace's, and a tool search that the
// client runs becomes a function. `ChatRequest::tools` says what each was, so that calls find their way back.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/api/json.h"
#include "gateway/api/responses.h"

namespace gateway::api {

class ResponsesTools {
 public:
  // Lives for one request, which it does not own; methods return false after the first fault.
  ResponsesTools(ChatRequest& request, Faults& faults) : request_(request), faults_(faults), json_(text_) {}

  // Adds a list of tools. One that was added before, as clients do that load tools as they go, changes
  // nothing.
  bool Add(Json list, const Path& path);
  // The names for the engine of the tools that the last list held, one behind the other.
  const std::string& listed() const { return listed_; }
  bool Has(const std::string& called) const { return known_.contains(called); }
  // Offers of the added tools only these, by their names for the engine.
  void OfferOnly(const absl::flat_hash_set<std::string>& called);
  // Writes the member `tools` of the chat request, unless there are none.
  void Write();

  bool empty() const { return text_.empty(); }
  // Whether a tool was left out because nobody here can run it.
  bool left_out() const { return left_out_; }

 private:
  struct Space {
    std::string_view name;
    std::string_view about;  // said once, in front of its first tool
  };

  bool List(JsonArray list, const Path& path, Space space);
  bool Tool(JsonObject tool, const Path& path, Space& space);
  bool Namespace(JsonObject tool, const Path& path);
  bool Function(JsonObject tool, const Path& path, Space& space);
  bool Custom(JsonObject tool, const Path& path, Space& space);
  // Whether the tool is to be written; false, too, after a fault.
  bool Enter(CalledTool tool, const Path& path);
  void Begin(const CalledTool& tool, std::string_view description, Space& space);

  ChatRequest& request_;
  Faults& faults_;
  std::string text_;
  JsonWriter json_;
  std::vector<std::pair<std::string, size_t>>
      begins_;  // of the tools in `text_`, by the names for the engine
  absl::flat_hash_map<std::string, CalledTool> known_;  // by the name for the engine
  std::string listed_;
  bool left_out_ = false;
};

// The name by which an engine knows a tool of a namespace, or of none.
std::string NameForEngine(std::string_view space, std::string_view name);

// Tool searches have no name of their own.
inline constexpr std::string_view kToolSearch = "tool_search";

}  // namespace gateway::api
