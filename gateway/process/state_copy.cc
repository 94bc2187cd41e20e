#include "gateway/process/state_copy.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "conf/hex.h"
#include "gateway/store/gateway_view.h"
#include "plugins/auth/digest.h"

namespace gateway {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr char kFormat[] = "tidegate_state";
constexpr int kFormatVersion = 1;
constexpr char kSum[] = "sha256";

std::string SumOf(std::string_view text) {
  return conf::Hex(plugins::auth::Sha256(std::string(text)));
}

std::string HexOfText(std::string_view text) {
  return conf::Hex({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

// Text as it is; bytes that are no UTF-8 in hexadecimal digits, under another name.
void PutText(ordered_json& line, const std::string& name, const std::string& text) {
  line[name] = text;
  try {
    static_cast<void>(line.dump());
  } catch (const json::exception&) {
    line.erase(name);
    line[name + "_hex"] = HexOfText(text);
  }
}

std::string TakeText(const json& line, const std::string& name) {
  if (const auto plain = line.find(name); plain != line.end()) return plain->get<std::string>();
  const std::string hex = line.at(name + "_hex").get<std::string>();
  std::string text(hex.size() / 2, '\0');
  if (!conf::ParseHex(hex, {reinterpret_cast<uint8_t*>(text.data()), text.size()}))
    throw std::invalid_argument(name + "_hex has other characters than hexadecimal digits");
  return text;
}

std::string TargetId(const store::Object& object, const std::string& gateway, bool shared) {
  if (!store::IsOfGateway(object.kind)) return object.id;
  if (shared) {
    return object.id.find('@') == std::string::npos ? store::IdOfGateway(object.id, gateway) : object.id;
  }
  return store::WithoutGateway(object.id, gateway).value_or(object.id);
}

}  // namespace

std::string WriteStateCopy(const StateCopy& copy) {
  std::string text = ordered_json{{kFormat, kFormatVersion},
                                  {"version", TIDEGATE_VERSION},
                                  {"number", copy.number},
                                  {"objects", copy.objects.size()}}
                         .dump() +
                     "\n";
  for (const store::Object& object : copy.objects) {
    ordered_json line = {{"kind", object.kind}};
    PutText(line, "id", object.id);
    line["version"] = object.version;
    PutText(line, "body", object.body);
    text += line.dump() + "\n";
  }
  text += ordered_json{{kSum, SumOf(text)}}.dump() + "\n";
  return text;
}

absl::StatusOr<StateCopy> ReadStateCopy(std::string_view text) {
  StateCopy copy;
  std::optional<uint64_t> expected;
  size_t line_number = 0;
  size_t at = 0;
  try {
    while (at < text.size()) {
      ++line_number;
      const size_t end = text.find('\n', at);
      if (end == std::string_view::npos) break;
      const json line = json::parse(text.substr(at, end - at));
      if (!expected) {
        if (!line.is_object() || line.value(kFormat, 0) != kFormatVersion) {
          return absl::InvalidArgumentError(
              "the first line is not that of a file that this version's tidegate state export makes");
        }
        copy.number = line.at("number");
        expected = line.at("objects").get<uint64_t>();
      } else if (line.contains(kSum)) {
        if (line[kSum] != SumOf(text.substr(0, at)))
          return absl::DataLossError("its checksum does not match: it was changed since it was exported");
        if (end + 1 != text.size() || copy.objects.size() != *expected)
          return absl::DataLossError("it has more or fewer lines than were exported");
        return copy;
      } else {
        copy.objects.push_back(
            {line.at("kind"), TakeText(line, "id"), line.at("version"), TakeText(line, "body")});
      }
      at = end + 1;
    }
  } catch (const std::exception& wrong) {
    return expected ? absl::DataLossError(fmt::format("line {}: {}", line_number, wrong.what()))
                    : absl::InvalidArgumentError("it is not a file that tidegate state export made");
  }
  return absl::DataLossError("its end is missing");
}

std::vector<store::Write> WritesOf(const StateCopy& copy, const std::vector<store::Object>& stored,
                                   const std::string& gateway, bool shared) {
  std::map<std::pair<std::string, std::string>, uint64_t> there;
  for (const store::Object& object : stored) there[{object.kind, object.id}] = object.version;
  std::vector<store::Write> writes;
  for (const store::Object& object : copy.objects) {
    const std::string id = TargetId(object, gateway, shared);
    const auto old = there.find({object.kind, id});
    writes.push_back({object.kind, id, old == there.end() ? 0 : old->second, object.body});
    if (old != there.end()) there.erase(old);
  }
  for (const auto& [key, version] : there) writes.push_back({key.first, key.second, version, std::nullopt});
  return writes;
}

}  // namespace gateway
