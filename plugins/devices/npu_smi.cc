#include "plugins/devices/npu_smi.h"

#include <absl/strings/ascii.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "conf/text.h"
#include "gateway/net/command.h"

namespace plugins::devices {
namespace {

constexpr size_t kMaxChipProcesses = 256;

std::string_view Trim(std::string_view text) {
  return conf::Std(absl::StripAsciiWhitespace(conf::Abseil(text)));
}

// The cells of a row between '|'; empty for a rule or text around the table.
std::vector<std::string_view> Cells(std::string_view line) {
  std::vector<std::string_view> cells;
  line = Trim(line);
  if (!line.starts_with('|')) return cells;
  line.remove_prefix(1);
  for (size_t end = line.find('|'); end != std::string_view::npos; end = line.find('|')) {
    cells.push_back(Trim(line.substr(0, end)));
    line.remove_prefix(end + 1);
  }
  return cells;
}

std::vector<std::string_view> Words(std::string_view text) {
  std::vector<std::string_view> words;
  while (!(text = Trim(text)).empty()) {
    const std::string_view word = text.substr(0, text.find_first_of(" \t"));
    words.push_back(word);
    text.remove_prefix(word.size());
  }
  return words;
}

// The last total of "0    / 0          3163 / 65536", where the last pair is HBM, or of "588  / 7665" without HBM.
std::optional<int64_t> TotalMib(std::string_view cell) {
  const size_t slash = cell.rfind('/');
  if (slash == std::string_view::npos) return std::nullopt;
  return conf::ReadNumber<int64_t>(Trim(cell.substr(slash + 1)));
}

}  // namespace

Found ParseNpuSmi(std::string_view table) {
  Found found;
  std::optional<Device> begun;
  for (size_t at = 0; at < table.size();) {
    const size_t end = std::min(table.find('\n', at), table.size());
    const std::vector<std::string_view> cells = Cells(table.substr(at, end - at));
    at = end + 1;
    if (cells.size() < 3) continue;
    // After the chips comes a table of their processes.
    if (cells[0].starts_with("NPU") && cells[1].starts_with("Process")) break;
    const std::vector<std::string_view> first = Words(cells[0]);
    if (first.empty() || !conf::ReadNumber<uint32_t>(first[0])) continue;
    if (!begun) {
      if (first.size() < 2 || cells[1].find(':') != std::string_view::npos) {
        found.problems.push_back(
            fmt::format("the row of chip {} has no row of its name before it", first[0]));
        continue;
      }
      begun.emplace();
      begun->vendor = Vendor::kAscend;
      begun->product = first[1];
      begun->kind = KindOf(Vendor::kAscend, first[1]);
      if (cells[1] != "OK") begun->trouble = fmt::format("npu-smi says its health is {}", cells[1]);
      continue;
    }
    const size_t place = found.devices.size();
    begun->visible = first.size() >= 2 ? std::string(first[1]) : std::to_string(place);
    begun->uuid = cells[1];
    if (const std::optional<int64_t> memory = TotalMib(cells[2])) {
      begun->memory_mib = *memory;
    } else {
      found.problems.push_back(fmt::format("chip {}: no memory in \"{}\"", place, cells[2]));
    }
    found.devices.push_back(std::move(*begun));
    begun.reset();
  }
  if (found.devices.empty()) found.problems.push_back("its table has no chips");
  return found;
}

// The chips' rows end where the table of processes begins.
Readings ParseNpuSmiReadings(std::string_view table) {
  Readings out;
  std::optional<Reading> begun;
  std::string npu;
  std::map<std::pair<std::string, std::string>, size_t> chips;  // by NPU and chip
  bool of_processes = false;
  for (size_t at = 0; at < table.size();) {
    const size_t end = std::min(table.find('\n', at), table.size());
    const std::vector<std::string_view> cells = Cells(table.substr(at, end - at));
    at = end + 1;
    if (cells.size() < 3) continue;
    of_processes = of_processes || (cells[0].starts_with("NPU") && cells[1].starts_with("Process"));
    const std::vector<std::string_view> first = Words(cells[0]);
    if (first.empty() || !conf::ReadNumber<uint32_t>(first[0])) continue;
    if (of_processes) {
      const auto pid = conf::ReadNumber<uint32_t>(cells[1]);
      if (first.size() < 2 || cells.size() < 4 || !pid) continue;
      const auto chip = chips.find({std::string(first[0]), std::string(first[1])});
      if (chip == chips.end() || out.devices[chip->second].processes.size() >= kMaxChipProcesses) continue;
      out.devices[chip->second].processes.push_back({*pid, conf::ReadNumber<int64_t>(cells[3])});
      continue;
    }
    if (!begun) {
      if (first.size() < 2 || cells[1].find(':') != std::string_view::npos) continue;
      begun.emplace();
      npu = first[0];
      const std::vector<std::string_view> figures = Words(cells[2]);
      if (!figures.empty()) begun->watts = conf::ReadNumber<double>(figures[0]);
      if (figures.size() > 1) begun->celsius = conf::ReadNumber<double>(figures[1]);
      continue;
    }
    const size_t place = out.devices.size();
    const std::vector<std::string_view> figures = Words(cells[2]);
    if (!figures.empty()) {
      if (const auto percent = conf::ReadNumber<double>(figures[0])) begun->utilization = *percent / 100;
    }
    begun->memory_total_mib = TotalMib(cells[2]);
    if (const size_t slash = cells[2].rfind('/'); slash != std::string_view::npos) {
      const std::vector<std::string_view> before = Words(cells[2].substr(0, slash));
      if (!before.empty()) begun->memory_used_mib = conf::ReadNumber<int64_t>(before.back());
    }
    begun->key = cells[1];
    begun->index = first.size() >= 2 ? conf::ReadNumber<uint32_t>(first[1]) : static_cast<uint32_t>(place);
    chips[{npu, std::string(first[0])}] = place;
    out.devices.push_back(std::move(*begun));
    begun.reset();
  }
  if (out.devices.empty()) out.problems.emplace_back("its table has no chips");
  return out;
}

Readings ReadNpuSmi(const std::string& command, conf::Duration patience) {
  const absl::StatusOr<gateway::net::CommandOutput> output =
      gateway::net::RunCommand({command, "info"}, patience);
  Readings out;
  if (absl::IsNotFound(output.status())) return out;
  if (!output.ok()) {
    out.problems.emplace_back(output.status().message());
  } else if (output->exit_code != 0) {
    out.problems.push_back(fmt::format("{} info ended with exit code {}", command, output->exit_code));
  } else {
    return ParseNpuSmiReadings(output->text);
  }
  return out;
}

Found ProbeNpuSmi(const std::string& command, conf::Duration patience) {
  const absl::StatusOr<gateway::net::CommandOutput> output =
      gateway::net::RunCommand({command, "info"}, patience);
  if (absl::IsNotFound(output.status())) return {};
  if (!output.ok()) return {.problems = {std::string(output.status().message())}};
  if (output->exit_code != 0)
    return {.problems = {fmt::format("{} info ended with exit code {}", command, output->exit_code)}};
  return ParseNpuSmi(output->text);
}

}  // namespace plugins::devices
