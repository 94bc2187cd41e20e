#include "gateway/batches/result_files.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <utility>

#include "gateway/api/usage.h"
#include "gateway/batches/stored_file.h"
#include "gateway/net/files.h"

namespace gateway::batches {
namespace {

namespace json = simdjson::ondemand;

constexpr size_t kResultRead = 1u << 20;

BatchUsage UsageOf(std::string_view body) {
  const std::optional<api::Usage> usage = api::UsageFromJson(body);
  if (!usage) return {};
  return {.input = usage->input,
          .cached = usage->cached_input,
          .output = usage->output,
          .reasoning = usage->reasoning};
}

void Count(const LineResult& result, ResultFiles::Progress& progress) {
  ++(result.completed() ? progress.completed : progress.failed);
  if (result.unsent()) ++progress.unsent;
}

// What a line of a file of messages' results says; false: it was torn.
bool TakeMessageResult(std::string_view text, ResultFiles::Done& done) {
  const simdjson::padded_string padded(text);
  json::parser parser;
  json::document document;
  std::string_view custom_id;
  json::object result;
  std::string_view type;
  if (parser.iterate(padded).get(document) != simdjson::SUCCESS ||
      document["custom_id"].get_string().get(custom_id) != simdjson::SUCCESS ||
      document["result"].get_object().get(result) != simdjson::SUCCESS ||
      result["type"].get_string().get(type) != simdjson::SUCCESS)
    return false;
  const bool completed = type == "succeeded";
  json::object message;
  std::string_view raw;
  if (completed && result["message"].get_object().get(message) == simdjson::SUCCESS &&
      message.raw_json().get(raw) == simdjson::SUCCESS)
    done.progress.usage.Add(UsageOf(raw));
  if (!done.custom_ids.insert(std::string(custom_id)).second) return true;
  ++(completed ? done.progress.completed : done.progress.failed);
  if (type == "canceled" || type == "expired") ++done.progress.unsent;
  return true;
}

// What a line of a result file says; false: it is none of ours, so it was torn.
bool TakeResult(std::string_view text, bool completed, ResultFiles::Done& done) {
  const simdjson::padded_string padded(text);
  json::parser parser;
  json::document document;
  std::string_view custom_id;
  if (parser.iterate(padded).get(document) != simdjson::SUCCESS ||
      document["custom_id"].get_string().get(custom_id) != simdjson::SUCCESS)
    return false;
  const std::string id(custom_id);
  json::object response;
  if (document["response"].get_object().get(response) == simdjson::SUCCESS) {
    json::object body;  // or a text, where the answer was no JSON
    std::string_view raw;
    if (completed && response["body"].get_object().get(body) == simdjson::SUCCESS &&
        body.raw_json().get(raw) == simdjson::SUCCESS)
      done.progress.usage.Add(UsageOf(raw));
  } else if (completed) {
    return false;
  }
  std::string_view code;
  const bool unsent =
      !completed && document["error"]["code"].get_string().get(code) == simdjson::SUCCESS && IsUnsent(code);
  if (!done.custom_ids.insert(id).second) return true;
  ++(completed ? done.progress.completed : done.progress.failed);
  if (unsent) ++done.progress.unsent;
  return true;
}

}  // namespace

ResultFiles::ResultFiles(std::string output_path, std::string error_path, bool of_messages,
                         ledger::ContentKeyRef key)
    : of_messages_(of_messages), key_(std::move(key)) {
  output_.path = std::move(output_path);
  errors_.path = std::move(error_path);
}

absl::StatusOr<ResultFiles::Done> ResultFiles::Open() {
  Done done;
  if (absl::Status opened = OpenFile(output_, done); !opened.ok()) return opened;
  if (absl::Status opened = OpenFile(errors_, done); !opened.ok()) return opened;
  if (absl::Status synced = net::SyncParent(output_.path); !synced.ok()) return synced;
  torn_ = false;
  done.progress.output = output_.extent();
  done.progress.errors = errors_.extent();
  return done;
}

absl::Status ResultFiles::OpenFile(File& file, Done& done) const {
  absl::StatusOr<KeptFile> kept = KeptFile::Open(file.path, key_, KeptFile::Access::kAppend);
  if (!kept.ok()) return kept.status();
  file.kept = *std::move(kept);
  file.bytes = 0;
  std::string buffer(kResultRead, '\0');
  std::string line;
  uint64_t offset = 0;
  bool torn = false;
  while (!torn) {
    const absl::StatusOr<size_t> read = file.kept->ReadAt(offset, buffer);
    if (!read.ok()) return read.status();
    std::string_view rest = std::string_view(buffer).substr(0, *read);
    offset += *read;
    while (!rest.empty() && !torn) {
      const size_t end = rest.find('\n');
      line.append(rest.substr(0, end));
      if (end == std::string_view::npos) break;
      torn = !(of_messages_ ? TakeMessageResult(line, done) : TakeResult(line, &file == &output_, done));
      if (!torn) file.bytes += line.size() + 1;
      line.clear();
      rest.remove_prefix(end + 1);
    }
    if (*read < buffer.size()) break;
  }
  return file.kept->CutTo(file.bytes);
}

absl::Status ResultFiles::Write(File& file, std::string_view text) {
  if (text.empty()) return absl::OkStatus();
  if (absl::Status written = file.kept->Append(text); !written.ok()) return written;
  return file.kept->Sync();
}

absl::StatusOr<ResultFiles::Progress> ResultFiles::Append(std::span<const LineResult> results) {
  if (torn_) {
    for (File* const file : {&output_, &errors_}) {
      if (absl::Status cut = file->kept->CutTo(file->bytes); !cut.ok()) return cut;
    }
    torn_ = false;
  }
  Progress progress;
  std::string output;
  std::string errors;
  for (const LineResult& result : results) {
    if (of_messages_) {
      output += RenderMessageResult(result);
    } else {
      (result.completed() ? output : errors) += RenderResult(result, NewId("batch_req_"));
    }
    Count(result, progress);
    if (result.completed()) progress.usage.Add(UsageOf(result.body));
  }
  torn_ = true;
  if (absl::Status written = Write(output_, output); !written.ok()) return written;
  if (absl::Status written = Write(errors_, errors); !written.ok()) return written;
  torn_ = false;
  output_.bytes += output.size();
  errors_.bytes += errors.size();
  progress.output = output_.extent();
  progress.errors = errors_.extent();
  return progress;
}

absl::Status ResultFiles::RemoveEmpty() {
  for (const File* const file : {&output_, &errors_}) {
    if (file->bytes > 0) continue;
    if (absl::Status removed = net::RemoveFile(file->path); !removed.ok()) return removed;
  }
  return absl::OkStatus();
}

}  // namespace gateway::batches
