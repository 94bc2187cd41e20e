#include "gateway/config/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "conf/json_text.h"
#include "conf/reader.h"
#include "gateway/config/types.h"
#include "router/facts/json_index.h"

namespace gateway::config {
namespace {

// The gateway reads or writes these itself; to limit them there are other options.
constexpr std::array<std::string_view, 4> kOwn = {"model", "stream", "stream_options", "messages"};

bool IsOwn(std::string_view name) {
  return std::find(kOwn.begin(), kOwn.end(), name) != kOwn.end();
}

bool Has(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

static void Read(const conf::Value& value, std::vector<ForcedParameter>& out) {
  if (value.kind() != conf::Kind::kMapping) return value.ErrorExpected("a mapping of parameters to values");
  out.clear();
  for (const auto& [name, field] : value.Fields()) {
    if (IsOwn(name)) {
      value.ErrorAtKey(name, "cannot be forced; the gateway reads it from the request");
      continue;
    }
    if (field.kind() != conf::Kind::kScalar) {
      field.ErrorExpected("text, a number, true or false");
      continue;
    }
    const std::string& text = field.text();
    const bool plain = !field.quoted() && (router::IsJsonNumber(text) || text == "true" || text == "false");
    out.push_back({name, plain ? text : conf::Quoted(text)});
  }
}

static void Write(conf::Writer& writer, const std::vector<ForcedParameter>& in) {
  writer.BeginMapping();
  for (const ForcedParameter& one : in) writer.Field(one.name).json() = nlohmann::json::parse(one.json);
}

bool Parameters::Allows(std::string_view name) const {
  if (Has(deny, name)) return false;
  return !allow || IsOwn(name) || Has(*allow, name);
}

bool Parameters::AllowsMediaOf(std::string_view host) const {
  if (!media_hosts) return true;
  return std::ranges::any_of(*media_hosts,
                             [&](const std::string& pattern) { return GlobMatches(pattern, host); });
}

bool Parameters::AllowsTool(std::string_view type) const {
  return !tools ||
         std::ranges::any_of(*tools, [&](const std::string& pattern) { return GlobMatches(pattern, type); });
}

void Bind(conf::Object& o, Parameters& parameters) {
  o.Optional("allow", parameters.allow);
  o.Optional("deny", parameters.deny);
  o.Optional("force", parameters.force);
  o.Optional("media_hosts", parameters.media_hosts);
  o.Optional("tools", parameters.tools);
  if (!o.reading()) return;
  for (const std::string& name : parameters.deny) {
    if (name == "model") o.Error("model cannot be denied; every request has one", "deny");
    if (parameters.allow && Has(*parameters.allow, name))
      o.Error(fmt::format("\"{}\" is allowed and denied; remove one", name), "deny");
  }
}

}  // namespace gateway::config
