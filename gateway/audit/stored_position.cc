#include "gateway/audit/stored_position.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "gateway/net/files.h"
#include "gateway/store/kinds.h"

namespace gateway {
namespace {

constexpr size_t kMaxCursorBytes = 128;
constexpr char kFolder[] = "sinks/";
constexpr std::string_view kEnding = ".cursor";

}  // namespace

net::Task<absl::StatusOr<std::optional<std::string>>> StoredPosition::Load() {
  absl::StatusOr<std::optional<store::Object>> found = co_await store_.Get(store::kPosition, reader_);
  if (!found.ok()) co_return found.status();
  last_ = *std::move(found);
  known_ = true;
  std::optional<std::string> text;
  if (last_) text = last_->body;
  co_return text;
}

net::Task<absl::Status> StoredPosition::Save(std::string text) {
  if (!known_) {
    const auto loaded = co_await Load();
    if (!loaded.ok()) co_return loaded.status();
  }
  std::vector<store::Write> writes = {last_ ? store::Write::Replace(*last_, text)
                                            : store::Write::Create(store::kPosition, reader_, text)};
  known_ = false;  // until it is known how this ended
  const absl::StatusOr<store::Committed> committed = co_await store_.Commit(std::move(writes));
  if (!committed.ok()) co_return committed.status();
  last_ = store::Object{store::kPosition, reader_, committed->last, std::move(text)};
  known_ = true;
  co_return absl::OkStatus();
}

std::string ReaderOfSink(const std::string& sink) {
  return "sink:" + sink;
}

store::Import SinkPositionsOfVersion01(const std::string& state_dir) {
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(state_dir + "/" + kFolder, error), end;
       !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.ends_with(kEnding)) files.push_back(kFolder + name);
  }
  std::sort(files.begin(), files.end());
  return {"sinks", files, [files](const std::string& folder) -> absl::StatusOr<std::vector<store::Write>> {
            std::vector<store::Write> writes;
            for (const std::string& file : files) {
              absl::StatusOr<std::string> text = net::ReadFile(folder + "/" + file, kMaxCursorBytes);
              if (!text.ok()) return text.status();
              const std::string sink = std::filesystem::path(file).stem().string();
              writes.push_back(store::Write::Create(store::kPosition, ReaderOfSink(sink), *std::move(text)));
            }
            return writes;
          }};
}

}  // namespace gateway
