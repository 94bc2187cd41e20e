#include "gateway/cli/output.h"

#include <absl/strings/cord.h>
#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <system_error>

#include "conf/shown.h"
#include "conf/text.h"
#include "gateway/cli/commands.h"

namespace gateway::cli {
namespace {

constexpr char kOfOutput[] = "tidegate/output";
int output_error = 0;  // the first one of standard output; 0: none

bool Noted(bool written) {
  if (!written && output_error == 0) output_error = errno == 0 ? EIO : errno;
  return written;
}

size_t Characters(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(),
                                           [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

// The user who runs this command, also behind sudo.
uid_t ActingUser() {
  const uid_t uid = getuid();
  const char* const by = uid == 0 ? std::getenv("SUDO_UID") : nullptr;
  return by == nullptr ? uid : conf::ReadNumber<uid_t>(by).value_or(uid);
}

}  // namespace

void Table::Add(std::vector<std::string> row) {
  for (std::string& cell : row) cell = conf::Visible(cell);
  rows_.push_back(std::move(row));
}

std::string Table::Render() const {
  std::vector<size_t> widths;
  for (size_t i = 0; i < columns_.size(); ++i) {
    size_t width = Characters(columns_[i].title);
    for (const auto& row : rows_) width = std::max(width, Characters(row[i]));
    widths.push_back(width);
  }
  std::string out;
  const auto add_cell = [&](size_t i, std::string_view text) {
    const std::string padding(widths[i] - Characters(text), ' ');
    if (i > 0) out += "  ";
    if (columns_[i].number) out += padding;
    out += text;
    if (!columns_[i].number && i + 1 < columns_.size()) out += padding;
  };
  for (size_t i = 0; i < columns_.size(); ++i) add_cell(i, columns_[i].title);
  out += '\n';
  for (const auto& row : rows_) {
    for (size_t i = 0; i < columns_.size(); ++i) add_cell(i, row[i]);
    out += '\n';
  }
  return out;
}

std::string TextOf(const nlohmann::ordered_json& value) {
  if (value.is_null()) return "-";
  if (value.is_number_float()) return fmt::format("{:g}", value.get<double>());
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string AsText(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string WordsOf(const nlohmann::ordered_json& value) {
  std::string words = TextOf(value);
  std::ranges::replace(words, '_', ' ');
  return words;
}

std::string Actor() {
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 4096> buffer{};
  const uid_t uid = ActingUser();
  if (getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) {
    return fmt::format("cli:{}", found->pw_name);
  }
  return fmt::format("cli:{}", uid);
}

std::string VisibleLines(std::string_view text) {
  std::string out;
  for (bool more = true; more;) {
    const size_t end = text.find('\n');
    more = end != std::string_view::npos;
    out.append(conf::Visible(text.substr(0, end))).append(more ? "\n" : "");
    if (more) text.remove_prefix(end + 1);
  }
  return out;
}

int Fail(const absl::Status& status) {
  if (status.GetPayload(kOfOutput)) return kFailed;
  fmt::print(stderr, "tidegate: {}\n", VisibleLines(conf::Std(status.message())));
  return absl::IsInvalidArgument(status) || absl::IsNotFound(status) ? kUsage : kFailed;
}

std::optional<int> FailOrPrintJson(const absl::StatusOr<nlohmann::ordered_json>& answer, bool json) {
  if (!answer.ok()) return Fail(answer.status());
  if (!json) return std::nullopt;
  fmt::print("{}\n", answer->dump());
  return kOk;
}

std::optional<int> FailOrPrintJson(const absl::StatusOr<std::vector<nlohmann::ordered_json>>& rows,
                                   bool json) {
  if (!rows.ok()) return Fail(rows.status());
  if (!json) return std::nullopt;
  fmt::print("{}\n", nlohmann::ordered_json(*rows).dump());
  return kOk;
}

bool WriteOutput(std::string_view text) {
  errno = 0;
  return Noted(std::fwrite(text.data(), 1, text.size(), stdout) == text.size());
}

bool OutputWritten() {
  errno = 0;
  return Noted(std::fflush(stdout) == 0 && std::ferror(stdout) == 0);
}

absl::Status OutputError() {
  absl::Status status = absl::UnavailableError("the output cannot be written");
  status.SetPayload(kOfOutput, absl::Cord());
  return status;
}

int OutputFailed(int error) {
  const std::string why = std::generic_category().message(error == 0 ? output_error : error);
  std::fputs(fmt::format("tidegate: the output cannot be written: {}\n", why).c_str(), stderr);
  output_error = 0;
  return kFailed;
}

int CheckOutput(int code) {
  if (OutputWritten()) return code;
  const int failed = OutputFailed();
  return code == kOk ? failed : code;
}

}  // namespace gateway::cli
