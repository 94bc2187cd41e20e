#include "gateway/ledger/export.h"

#include <absl/strings/escaping.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "conf/json_dump.h"
#include "conf/json_parse.h"
#include "conf/text.h"
#include "conf/time.h"
#include "gateway/ledger/chain.h"
#include "gateway/ledger/segment.h"
#include "gateway/net/files.h"

namespace gateway::ledger {
namespace {

constexpr uint64_t kExportRecords = 1024;
constexpr size_t kExportBytes = 1 << 20;

struct Column {
  std::string_view name;
  std::string Record::* text = nullptr;
  int64_t Record::* number = nullptr;
  bool optional = false;   // a negative number means unknown
  Kind of = Kind::kClose;  // the kind of records that have the number
};

constexpr std::array kColumns = {
    Column{"request", &Record::request},
    Column{"client_request", &Record::client_request},
    Column{"tenant", &Record::tenant},
    Column{"key", &Record::key},
    Column{"model", &Record::model},
    Column{"api", &Record::api},
    Column{"client", &Record::client},
    Column{"reason", &Record::reason},
    Column{"status", nullptr, &Record::status},
    Column{"input", nullptr, &Record::input},
    Column{"cached", nullptr, &Record::cached},
    Column{"output", nullptr, &Record::output},
    Column{"source", &Record::source},
    Column{"cost_micro_usd", nullptr, &Record::cost_micro_usd},
    Column{"bytes_in", nullptr, &Record::bytes_in},
    Column{"bytes_out", nullptr, &Record::bytes_out},
    Column{"attempts", nullptr, &Record::attempts},
    Column{"served_model", &Record::served_model},
    Column{"replica", &Record::replica},
    Column{"prefill", &Record::prefill},
    Column{"limit", &Record::limit},
    Column{"error", &Record::error},
    Column{"queue_us", nullptr, &Record::queue_us, true},
    Column{"ttft_us", nullptr, &Record::ttft_us, true},
    Column{"itl_mean_us", nullptr, &Record::itl_mean_us, true},
    Column{"itl_max_us", nullptr, &Record::itl_max_us, true},
    Column{"total_us", nullptr, &Record::total_us, true},
    Column{"overhead_us", nullptr, &Record::overhead_us, true},
    Column{"action", &Record::action},
    Column{"actor", &Record::actor},
    Column{"subject", &Record::subject},
    Column{"detail", &Record::detail},
    Column{"part", &Record::part},
    Column{"text", &Record::text},
    Column{"job", &Record::job},
    Column{"device", &Record::device},
    Column{"until_us", nullptr, &Record::until_us, false, Kind::kDevices},
    Column{"device_us", nullptr, &Record::device_us, false, Kind::kDevices},
    Column{"held_us", nullptr, &Record::held_us, false, Kind::kDevices},
    Column{"weight", nullptr, &Record::weight, false, Kind::kDevices},
    Column{"energy_mj", nullptr, &Record::energy_mj, false, Kind::kDevices},
    Column{"energy_micro_usd", nullptr, &Record::energy_micro_usd, false, Kind::kDevices},
    Column{"co2_mg", nullptr, &Record::co2_mg, false, Kind::kDevices},
    Column{"content_key", &Record::content_key},
    Column{"note", &Record::note},
};

bool Below(std::string_view tenant, std::string_view path) {
  return path.empty() || tenant == path ||
         (tenant.size() > path.size() && tenant.starts_with(path) && tenant[path.size()] == '/');
}

// Actions whose subject is a model.
constexpr std::array<std::string_view, 4> kActionsOnModels = {"model.", "rollout.", "scale.", "adapter."};

// Actions and feedback name their model in the detail, or as the subject.
bool IsOfModel(const Record& record, const std::string& model) {
  if (record.model == model) return true;
  if (record.kind != Kind::kAction && record.kind != Kind::kFeedback) return false;
  if (record.kind == Kind::kAction && record.subject == model &&
      std::ranges::any_of(kActionsOnModels,
                          [&](std::string_view of) { return record.action.starts_with(of); })) {
    return true;
  }
  if (record.detail.find("\"model\"") == std::string::npos) return false;
  const nlohmann::json detail = conf::ParseJson(record.detail);
  const auto found = detail.is_object() ? detail.find("model") : detail.end();
  return found != detail.end() && found->is_string() && found->get_ref<const std::string&>() == model;
}

bool Wanted(const ExportOptions& options, const Record& record) {
  return record.time_us >= options.since_us && record.time_us < options.until_us &&
         Below(record.tenant, options.tenant) &&
         (options.model.empty() || IsOfModel(record, options.model)) &&
         (options.kinds.empty() ||
          std::find(options.kinds.begin(), options.kinds.end(), record.kind) != options.kinds.end());
}

// The records of a segment are not younger than the first record of the next one.
absl::StatusOr<uint64_t> FirstSegmentSince(const std::string& dir, uint64_t from_seq, int64_t since_us) {
  absl::StatusOr<std::vector<SegmentName>> segments = ListSegments(dir);
  if (!segments.ok()) return segments.status();
  for (const SegmentName& segment : *segments) {
    if (segment.first_seq <= from_seq) continue;
    absl::StatusOr<LineReader> reader = LineReader::Open(segment.path);
    if (!reader.ok()) break;
    absl::StatusOr<std::optional<std::string_view>> line = reader->Next();
    const std::optional<LineParts> header = line.ok() && *line ? SplitLine(**line) : std::nullopt;
    if (!header || header->time_us >= since_us) break;
    from_seq = segment.first_seq;
  }
  return from_seq;
}

// Sets the text of a sealed record, or the note that says why it has none.
void OpenContent(const ContentKeys& keys, Record& record) {
  std::string sealed;
  if (const ContentKeyRef key = keys.Find(record.content_key)) {
    std::optional<std::string> text;
    if (absl::Base64Unescape(conf::Abseil(record.ciphertext), &sealed)) text = key->Open(sealed);
    if (text) {
      record.text = *std::move(text);
    } else {
      record.note = "the text cannot be opened with its key: it was changed";
    }
  } else if (const std::optional<ContentKeys::Erased> erased = keys.WhenErased(record.content_key)) {
    record.note =
        fmt::format("erased: its key was destroyed at {} by {}", conf::FormatTime(erased->at), erased->by);
  } else {
    record.note = fmt::format("its key {} is not in the file of content keys", record.content_key);
  }
}

// The line with the text, or the note, instead of the sealed text.
std::string OpenedLine(std::string_view line, const Record& record) {
  nlohmann::ordered_json out = conf::ParseOrderedJson(line);
  if (!out.is_object()) return std::string(line);
  const nlohmann::ordered_json chain = out.value("chain", nlohmann::ordered_json());
  for (const char* member : {"ciphertext", "chain"}) out.erase(member);
  if (record.note.empty()) {
    out["text"] = record.text;
  } else {
    out["note"] = record.note;
  }
  out["chain"] = chain;
  return conf::DumpJson(out);
}

struct Resume {
  uint64_t bytes = 0;     // of whole records
  uint64_t last_seq = 0;  // 0: no record yet
};

// Finds the end of the last whole record of an export. A CSV field in quotes may span lines; a JSON line has
// no raw newline.
absl::StatusOr<Resume> FindResume(int fd, const std::string& path, bool csv) {
  Resume resume;
  bool quoted = false;
  bool in_number = true;  // within the number at the beginning of a record
  uint64_t seq = 0;
  uint64_t at = 0;
  char chunk[65536];
  while (true) {
    const absl::StatusOr<size_t> n = net::ReadAt(fd, path, at, chunk);
    if (!n.ok()) return n.status();
    if (*n == 0) return resume;
    if (at == 0 && chunk[0] != (csv ? 's' : '{')) {
      return absl::InvalidArgumentError(
          conf::Abseil(fmt::format("{} is not a {} export, so it cannot be continued: give another file",
                                   path, csv ? "CSV" : "JSONL")));
    }
    for (size_t i = 0; i < *n; ++i) {
      const char c = chunk[i];
      ++at;
      if (c >= '0' && c <= '9' && in_number) {
        seq = seq * 10 + static_cast<uint64_t>(c - '0');
      } else if (c == '\n' && !quoted) {
        resume = {at, seq};
        seq = 0;
        in_number = true;
        continue;
      } else if (csv || seq > 0) {
        in_number = false;
      }
      if (csv && c == '"') quoted = !quoted;
    }
  }
}

}  // namespace

void AppendCsvField(std::string* out, std::string_view field) {
  constexpr std::string_view kFormula = "=+-@\t\r";
  const bool guard = !field.empty() && kFormula.find(field.front()) != std::string_view::npos;
  const bool quote = field.find_first_of(",\"\r\n") != std::string_view::npos;
  if (quote) out->push_back('"');
  if (guard) out->push_back('\'');
  for (const char c : field) {
    if (c == '"') out->push_back('"');
    out->push_back(c);
  }
  if (quote) out->push_back('"');
}

std::string CsvHeader() {
  std::string header = "seq,time,kind,stream,open_seq";
  for (const Column& column : kColumns) header.append(",").append(column.name);
  return header + "\r\n";
}

void AppendCsv(std::string* out, const Record& record) {
  fmt::format_to(std::back_inserter(*out), "{},{},{},{},{}", record.seq,
                 conf::FormatTime(conf::FromUnixMicros(record.time_us)), Name(record.kind), record.stream,
                 record.open_seq);
  for (const Column& column : kColumns) {
    out->push_back(',');
    if (column.text != nullptr) {
      AppendCsvField(out, record.*column.text);
    } else if (const int64_t value = record.*column.number;
               record.kind == column.of && !(column.optional && value < 0)) {
      fmt::format_to(std::back_inserter(*out), "{}", value);
    }
  }
  out->append("\r\n");
}

absl::StatusOr<ExportSteps> ExportSteps::Begin(const std::string& dir, ExportOptions options) {
  const absl::StatusOr<uint64_t> from =
      FirstSegmentSince(dir, std::max<uint64_t>(options.from_seq, 1), options.since_us);
  if (!from.ok()) return from.status();
  return ExportSteps(dir, std::move(options), *from);
}

absl::StatusOr<bool> ExportSteps::Step(uint64_t max_seen, const std::function<bool(std::string_view)>& out) {
  std::string text;
  bool more = true;
  for (uint64_t n = 0; n < max_seen && text.size() < kExportBytes; ++n) {
    if (result_.records == options_.max_records || seen_ == options_.max_seen) {
      more = false;
      break;
    }
    const absl::StatusOr<const Tail::Entry*> next = tail_.Peek();
    if (!next.ok()) return next.status();
    if (*next == nullptr) {
      more = false;
      break;
    }
    ++seen_;
    Take(**next, text);
    tail_.Pop();
  }
  if (!text.empty() && !out(text)) more = false;
  if (options_.progress) options_.progress(result_);
  return more;
}

// Parses a record only if its time and kind are wanted, because parsing takes most of the time. Leaves out a record
// that is too damaged, as a tail does; `audit verify` reports it.
void ExportSteps::Take(const Tail::Entry& entry, std::string& text) {
  result_.last_seq = entry.parts.seq;
  if (entry.parts.time_us < options_.since_us || entry.parts.time_us >= options_.until_us) return;
  const auto of_kind = [&](Kind kind) { return Name(kind) == entry.parts.kind; };
  if (!options_.kinds.empty() && std::ranges::none_of(options_.kinds, of_kind)) return;
  if (!parser_->Parse(entry.text, &record_).ok() || !Wanted(options_, record_)) return;
  ++result_.records;
  const bool open = options_.content != nullptr && !record_.ciphertext.empty();
  if (open) OpenContent(*options_.content, record_);
  if (record_.kind == Kind::kContent && (record_.ciphertext.empty() || (open && record_.note.empty())))
    ++result_.shown;
  if (options_.format == ExportFormat::kCsv) {
    AppendCsv(&text, record_);
  } else if (open) {
    text.append(OpenedLine(entry.text, record_)).push_back('\n');
  } else {
    text.append(entry.text).push_back('\n');
  }
}

absl::StatusOr<ExportResult> Export(const std::string& dir, const ExportOptions& options,
                                    const std::function<bool(std::string_view)>& out) {
  absl::StatusOr<ExportSteps> steps = ExportSteps::Begin(dir, options);
  if (!steps.ok()) return steps.status();
  while (true) {
    const absl::StatusOr<bool> more = steps->Step(kExportRecords, out);
    if (!more.ok()) return more.status();
    if (!*more) return steps->result();
  }
}

absl::StatusOr<ExportResult> ExportToFile(const std::string& dir, const ExportOptions& options,
                                          const std::string& path) {
  absl::StatusOr<net::Fd> file = net::OpenFile(path, O_CREAT | O_RDWR);
  if (!file.ok()) return file.status();
  const bool csv = options.format == ExportFormat::kCsv;
  absl::StatusOr<Resume> resume = FindResume(file->get(), path, csv);
  if (!resume.ok()) return resume.status();
  if (ftruncate(file->get(), static_cast<off_t>(resume->bytes)) != 0)
    return net::SystemError("cut", path, errno);
  if (lseek(file->get(), 0, SEEK_END) < 0) return net::SystemError("seek in", path, errno);
  absl::Status written;
  const auto write = [&](std::string_view text) {
    written = net::WriteAll(file->get(), path, text);
    return written.ok();
  };
  ExportOptions rest = options;
  rest.from_seq = std::max(options.from_seq, resume->last_seq + 1);
  absl::StatusOr<ExportResult> result = ExportResult{};
  if (!csv || resume->bytes > 0 || write(CsvHeader())) result = Export(dir, rest, write);
  if (!written.ok()) return written;
  if (result.ok() && fsync(file->get()) != 0) return net::SystemError("sync", path, errno);
  return result;
}

}  // namespace gateway::ledger
