#include "scheduler/io/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "scheduler/io/bounds.h"

namespace scheduler::io {
namespace {

constexpr uint64_t kMib = 1 << 20;

bool AllDigits(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

std::optional<int64_t> MilliOf(const conf::Value& value) {
  return value.kind() == conf::Kind::kScalar && !value.quoted() ? ParseMilli(value.text()) : std::nullopt;
}

// Whole numbers stay whole, so that what is written reads as it was given.
nlohmann::json Decimal(int64_t milli) {
  if (milli % 1000 == 0) return milli / 1000;
  return static_cast<double>(milli) / 1000;
}

}  // namespace

std::optional<int64_t> ParseMilli(std::string_view text) {
  const size_t point = text.find('.');
  const std::string_view whole = text.substr(0, point);
  const std::string_view fraction = point == std::string_view::npos ? "" : text.substr(point + 1);
  if (whole.empty() || !AllDigits(whole) || !AllDigits(fraction) || fraction.size() > 3) return std::nullopt;
  if (point != std::string_view::npos && fraction.empty()) return std::nullopt;
  int64_t number = 0;
  if (std::from_chars(whole.data(), whole.data() + whole.size(), number).ec != std::errc{})
    return std::nullopt;
  if (number >= kMostAmount / 1000) return std::nullopt;
  int64_t milli = 0;
  for (size_t i = 0; i < 3; ++i) milli = milli * 10 + (i < fraction.size() ? fraction[i] - '0' : 0);
  return number * 1000 + milli;
}

std::string FormatMilli(int64_t milli) {
  if (milli % 1000 == 0) return fmt::format("{}", milli / 1000);
  std::string text = fmt::format("{}.{:03}", milli / 1000, milli % 1000);
  text.erase(text.find_last_not_of('0') + 1);
  return text;
}

void Read(const conf::Value& value, const Cores& field) {
  if (const auto milli = MilliOf(value)) {
    *field.milli = *milli;
  } else {
    value.ErrorExpected("a number of cores from 0 to 10^9, such as 128 or 0.5");
  }
}

void Write(conf::Writer& writer, const Cores& field) {
  writer.json() = Decimal(*field.milli);
}

void Read(const conf::Value& value, const Mebibytes& field) {
  const std::optional<uint64_t> bytes =
      value.kind() == conf::Kind::kScalar ? conf::ParseSize(value.text()) : std::nullopt;
  if (bytes && *bytes % kMib == 0 && *bytes / kMib <= static_cast<uint64_t>(kMostAmount)) {
    *field.mib = static_cast<int64_t>(*bytes / kMib);
  } else {
    value.ErrorExpected("a whole number of MiB, GiB or TiB, such as 80GiB");
  }
}

void Write(conf::Writer& writer, const Mebibytes& field) {
  writer.json() = fmt::format("{}MiB", *field.mib);
}

void ReadQuota(const conf::Value& value, DeviceQuota& out) {
  if (value.kind() != conf::Kind::kMapping) {
    value.ErrorExpected("a mapping from a device kind, or \"*\" for all together, to a number of devices");
    return;
  }
  out.clear();
  for (const auto& [kind, item] : value.Fields()) {
    if (const auto milli = MilliOf(item)) {
      out[kind] = *milli;
    } else {
      item.ErrorExpected("a number of devices from 0 to 10^9, such as 64 or 0.5");
    }
  }
}

void WriteQuota(conf::Writer& writer, const DeviceQuota& in) {
  writer.BeginMapping();
  for (const auto& [kind, milli] : in) writer.Field(kind).json() = Decimal(milli);
}

const conf::Sources& NoSources() {
  static const conf::Sources sources{
      .environment = [](const std::string&) { return std::optional<std::string>(); },
      .file = [](const std::string&) -> absl::StatusOr<std::string> {
        return absl::FailedPreconditionError("files are not read from here");
      }};
  return sources;
}

}  // namespace scheduler::io
