#include "gateway/api/responses_tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gateway/api/chat_request.h"

namespace gateway::api {
namespace {

// Tools that OpenAI runs and coding agents offer whether or not they are needed. A model that does not know
// of them does not call them. Others are refused: who names one counts on it.
bool IsOfferedUnasked(std::string_view type) {
  return type == "web_search" || type.starts_with("web_search_") || type == "image_generation";
}

constexpr std::string_view kTextParameters =
    R"({"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false})";

}  // namespace

std::string NameForEngine(std::string_view space, std::string_view name) {
  if (space.empty()) return std::string(name);
  return fmt::format("{}{}{}", space, space.ends_with("__") ? "" : "__", name);
}

bool ResponsesTools::Add(Json list, const Path& path) {
  listed_.clear();
  JsonArray tools;
  return Read(list, path, faults_, tools) && List(tools, path, {});
}

void ResponsesTools::OfferOnly(const absl::flat_hash_set<std::string>& called) {
  std::string offered;
  JsonWriter json(offered);
  for (size_t i = 0; i < begins_.size(); ++i) {
    if (!called.contains(begins_[i].first)) continue;
    const size_t end = i + 1 < begins_.size() ? begins_[i + 1].second : text_.size();
    std::string_view tool = std::string_view(text_).substr(begins_[i].second, end - begins_[i].second);
    if (tool.starts_with(',')) tool.remove_prefix(1);
    json.Raw(tool);
  }
  text_ = std::move(offered);
}

void ResponsesTools::Write() {
  if (empty()) return;
  JsonWriter(request_.body).Key("tools").Open('[').Raw(text_).Close(']');
  request_.text_bytes += text_.size();
  for (auto& [name, tool] : known_) {
    if (tool.kind != CalledTool::Kind::kFunction || !tool.space.empty())
      request_.tools.push_back(std::move(tool));
  }
  std::sort(request_.tools.begin(), request_.tools.end(),
            [](const CalledTool& a, const CalledTool& b) { return a.called < b.called; });
}

bool ResponsesTools::List(JsonArray list, const Path& path, Space space) {
  size_t i = 0;
  for (const Json element : list) {
    const Path at = path[i++];
    JsonObject tool;
    if (!Read(element, at, faults_, tool) || !Tool(tool, at, space)) return false;
  }
  return true;
}

bool ResponsesTools::Tool(JsonObject tool, const Path& path, Space& space) {
  std::string_view type;
  if (!Require(tool, "type", path, faults_, type)) return false;
  if (type == "function") return Function(tool, path, space);
  if (type == "custom") return Custom(tool, path, space);
  if (space.name.empty()) {
    if (type == "namespace") return Namespace(tool, path);
    if (type == kToolSearch && StringOr(tool, "execution") == "client") return Function(tool, path, space);
    // A search that OpenAI runs finds tools of this list, which are all offered at once.
    if (type == kToolSearch || IsOfferedUnasked(type)) {
      left_out_ = true;
      return true;
    }
  }
  return faults_.Unsupported(
      path / "type",
      fmt::format("has the value \"{}\"; only \"function\", \"custom\" and \"namespace\" tools "
                  "are supported for this model",
                  type));
}

bool ResponsesTools::Namespace(JsonObject tool, const Path& path) {
  Space space;
  if (!Require(tool, "name", path, faults_, space.name)) return false;
  space.about = StringOr(tool, "description");
  const auto tools = Find(tool, "tools");
  if (!tools) return faults_.Missing(path / "tools");
  const Path at = path / "tools";
  JsonArray list;
  return Read(*tools, at, faults_, list) && List(list, at, space);
}

bool ResponsesTools::Function(JsonObject tool, const Path& path, Space& space) {
  CalledTool called;
  std::string_view name = kToolSearch;
  if (StringOr(tool, "type") == kToolSearch) {
    called.kind = CalledTool::Kind::kSearch;
  } else if (!Require(tool, "name", path, faults_, name)) {
    return false;
  }
  called.name = name;
  called.space = space.name;
  called.called = NameForEngine(space.name, name);
  if (!Enter(called, path)) return !faults_.first;
  Begin(called, StringOr(tool, "description"), space);
  for (const std::string_view key : {"parameters", "strict"}) {
    if (const auto member = Find(tool, key)) json_.Key(key).Raw(Minified(*member));
  }
  json_.Close('}').Close('}');
  return true;
}

bool ResponsesTools::Custom(JsonObject tool, const Path& path, Space& space) {
  CalledTool called;
  std::string_view name;
  if (!Require(tool, "name", path, faults_, name)) return false;
  called.kind = CalledTool::Kind::kCustom;
  called.name = name;
  called.space = space.name;
  called.called = NameForEngine(space.name, name);
  std::string about(StringOr(tool, "description"));
  about += about.empty() ? "" : "\n\n";
  about += "Call it with one argument, \"input\": the text for the tool, as it is.";
  if (const auto value = Find(tool, "format")) {
    const Path at = path / "format";
    JsonObject format;
    std::string_view type;
    if (!Read(*value, at, faults_, format) || !Require(format, "type", at, faults_, type)) return false;
    std::string_view definition;
    if (type == "grammar") {
      if (!Require(format, "definition", at, faults_, definition)) return false;
      about += fmt::format(" The text must match this grammar ({}):\n{}", StringOr(format, "syntax", "lark"),
                           definition);
    } else if (type != "text") {
      return faults_.Unsupported(at / "type",
                                 fmt::format("must be \"text\" or \"grammar\", not \"{}\"", type));
    }
  }
  if (!Enter(called, path)) return !faults_.first;
  Begin(called, about, space);
  json_.Key("parameters").Raw(kTextParameters).Close('}').Close('}');
  return true;
}

bool ResponsesTools::Enter(CalledTool tool, const Path& path) {
  if (!listed_.empty()) listed_ += ", ";
  listed_ += tool.called;
  const auto [found, fresh] = known_.try_emplace(tool.called, tool);
  if (fresh) return true;
  const CalledTool& known = found->second;
  if (known.kind == tool.kind && known.space == tool.space) return false;
  return faults_.Add(Code::kInvalidValue, path,
                     fmt::format("'{}' is another tool of the name \"{}\", as the model is told it.",
                                 path.Text(), tool.called));
}

void ResponsesTools::Begin(const CalledTool& tool, std::string_view description, Space& space) {
  begins_.emplace_back(tool.called, text_.size());
  json_.Open('{').Key("type").String("function").Key("function").Open('{').Key("name").String(tool.called);
  if (!space.about.empty() && !description.empty()) {
    json_.Key("description").String(fmt::format("{}\n\n{}", space.about, description));
  } else if (!description.empty() || !space.about.empty()) {
    json_.Key("description").String(description.empty() ? space.about : description);
  }
  space.about = {};
}

}  // namespace gateway::api
