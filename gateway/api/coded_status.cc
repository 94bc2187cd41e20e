#include "gateway/api/coded_status.h"

#include <absl/strings/cord.h>

#include <algorithm>
#include <string>

#include "conf/text.h"

namespace gateway::api {
namespace {

constexpr char kCodeUrl[] = "tidegate/code";

}  // namespace

absl::Status WithCode(absl::Status status, Code code) {
  if (!status.ok()) status.SetPayload(kCodeUrl, absl::Cord(conf::Abseil(Info(code).name)));
  return status;
}

std::optional<Code> CodeOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kCodeUrl);
  if (!payload) return std::nullopt;
  const std::string name(*payload);
  const std::span<const CodeInfo> all = AllCodes();
  const auto row =
      std::find_if(all.begin(), all.end(), [&](const CodeInfo& info) { return info.name == name; });
  return row == all.end() ? std::nullopt : std::optional(row->code);
}

}  // namespace gateway::api
