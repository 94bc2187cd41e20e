#include "gateway/batches/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "conf/json_text.h"
#include "conf/text.h"
#include "gateway/audit/stored_events.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/net/files.h"
#include "gateway/net/off_loop.h"
#include "gateway/store/kinds.h"

namespace gateway::batches {
namespace {

constexpr std::string_view kPart = ".part";    // of a file that is being uploaded
constexpr std::string_view kCopied = ".copy";  // of a file that comes from the bucket, and its validator
constexpr std::string_view kRun = ".run";      // of the results of a shared batch
constexpr size_t kAppendedPiece = 1u << 20;
constexpr size_t kMaxUploads = 16;  // of a tenant, at once
// Of an upload that nobody continues; one that begins during a sweep is younger.
constexpr conf::Duration kPartAge = std::chrono::minutes(1);

std::string FileDetail(const StoredFile& file) {
  return fmt::format("{{\"purpose\":{},\"bytes\":{},\"filename\":{}}}",
                     conf::Quoted(conf::WordOf(WordsOf(file.purpose), file.purpose)), file.bytes,
                     conf::Quoted(file.name));
}

api::ApiError NoRoom(std::string message) {
  return api::Make(api::Code::kFileStorageLimit, std::move(message));
}

// Names of regular files in a folder with the times of their last change. Blocks.
absl::StatusOr<std::vector<std::pair<std::string, conf::TimePoint>>> ListFolder(const std::string& dir) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(dir.c_str()), &closedir);
  if (folder == nullptr) return net::SystemError("open", dir, errno);
  std::vector<std::pair<std::string, conf::TimePoint>> names;
  while (const dirent* const entry = readdir(folder.get())) {
    struct stat about{};
    const std::string path = dir + "/" + entry->d_name;
    if (lstat(path.c_str(), &about) != 0 || !S_ISREG(about.st_mode)) continue;
    names.emplace_back(entry->d_name, conf::FromUnixMicros(int64_t{about.st_mtim.tv_sec} * 1'000'000));
  }
  return names;
}

// Behind the folder or the prefix.
std::string NameInBucket(const std::string& object) {
  return object.substr(object.rfind('/') + 1);
}

// Appends `piece`, which must have that many bytes, to `whole`, and removes it. Blocks.
absl::Status AppendFile(const std::string& piece, const std::string& whole, uint64_t bytes) {
  const absl::StatusOr<net::Fd> from = net::OpenFile(piece, O_RDONLY | O_NOFOLLOW);
  if (!from.ok()) return from.status();
  const absl::StatusOr<uint64_t> size = net::FileSize(from->get(), piece);
  if (!size.ok()) return size.status();
  if (*size != bytes) {
    return absl::DataLossError(
        conf::Abseil(fmt::format("a part of a result has {} bytes in the bucket, not {}", *size, bytes)));
  }
  const absl::StatusOr<net::Fd> to = net::OpenFile(whole, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
  if (!to.ok()) return to.status();
  std::string buffer(kAppendedPiece, '\0');
  for (uint64_t at = 0; at < bytes;) {
    const absl::StatusOr<size_t> read = net::ReadAt(from->get(), piece, at, buffer);
    if (!read.ok()) return read.status();
    if (*read == 0) return absl::DataLossError(conf::Abseil(piece + " became shorter"));
    if (absl::Status written = net::WriteAll(to->get(), whole, std::string_view(buffer).substr(0, *read));
        !written.ok())
      return written;
    at += *read;
  }
  if (fdatasync(to->get()) != 0) return net::SystemError("sync", whole, errno);
  return net::RemoveFile(piece);
}

}  // namespace

api::ApiError ErrorOf(const absl::Status& status) {
  if (absl::IsResourceExhausted(status) || absl::IsUnavailable(status) || absl::IsUnknown(status) ||
      absl::IsAborted(status))
    return api::Make(api::Code::kStoreUnavailable, "the gateway's store cannot be written now; try again");
  return api::Make(api::Code::kInternalError, "the gateway could not store this");
}

store::Write EventFor(std::string_view action, const std::string& actor, const std::string& subject,
                      const std::string& tenant, std::string detail) {
  return StoredEvent({.action = std::string(action),
                      .actor = actor.empty() ? "anonymous" : actor,
                      .subject = subject,
                      .tenant = tenant,
                      .detail = std::move(detail)});
}

Files::Files(net::Loop& loop, store::Store& store, ledger::ContentKeys* keys, std::string dir,
             std::function<std::optional<config::Files>()> options, Sharing sharing)
    : loop_(loop),
      store_(store),
      keys_(keys),
      dir_(std::move(dir)),
      options_(std::move(options)),
      sharing_(std::move(sharing)),
      copy_(loop, store, {store::kFile, store::kSharedFile}, sharing_.shared(), DecodeFile),
      bucket_(loop, options_),
      removals_(loop, store, bucket_) {
  if (!sharing_.shared()) return;
  shared_removals_.emplace(loop, store, bucket_, &sharing_);
  if (keys_ != nullptr) shared_keys_.emplace(loop, store, *keys_);
}

net::Task<absl::Status> Files::Start() {
  if (options_()) {
    if (absl::Status made = net::MakeDirectories(dir_, 0700); !made.ok()) co_return made;
  }
  if (absl::Status started = co_await copy_.Start(); !started.ok()) co_return started;
  if (absl::Status started = co_await removals_.Start(); !started.ok()) co_return started;
  if (shared_removals_) {
    if (absl::Status started = co_await shared_removals_->Start(); !started.ok()) co_return started;
  }
  co_return shared_keys_ ? co_await shared_keys_->Start() : absl::OkStatus();
}

void Files::Begin() {
  removals_.Begin();
  if (shared_removals_) shared_removals_->Begin();
}

void Files::Stop() {
  copy_.Stop();
  removals_.Stop();
  if (shared_removals_) shared_removals_->Stop();
  if (shared_keys_) shared_keys_->Stop();
  bucket_.Stop();
}

std::string Files::PathOf(std::string_view id) const {
  return fmt::format("{}/{}", dir_, id);
}

std::string Files::UploadPathOf(std::string_view id) const {
  return PathOf(id) + std::string(kPart);
}

conf::Duration Files::max_age() const {
  return options_().value_or(config::Files()).max_age;
}

uint64_t Files::bytes() const {
  uint64_t bytes = 0;
  for (const auto* const entry : copy_.all()) bytes += entry->value.bytes;
  return bytes;
}

net::Task<absl::Status> Files::CatchUpShared() {
  if (absl::Status current = co_await copy_.CatchUpShared(); !current.ok() || !shared_keys_)
    co_return current;
  co_return co_await shared_keys_->CatchUp();
}

net::Task<absl::StatusOr<ledger::ContentKeyRef>> Files::KeyFor(std::string tenant, bool shared) {
  if (keys_ == nullptr) co_return ledger::ContentKeyRef();
  if (shared) co_return co_await shared_keys_->For(std::move(tenant));
  ledger::ContentKeyRef key = keys_->For(tenant);
  if (key != nullptr) co_return key;
  const absl::Status made = co_await net::OffLoop(loop_, [&] { return keys_->Ensure({tenant}); });
  if (!made.ok()) co_return made;
  co_return keys_->For(tenant);
}

absl::StatusOr<ledger::ContentKeyRef> Files::KeyOf(const std::string& sealed_by) const {
  if (sealed_by.empty()) return ledger::ContentKeyRef();
  ledger::ContentKeyRef key = keys_ == nullptr ? nullptr : keys_->Find(sealed_by);
  if (key != nullptr) return key;
  const absl::Status erased = absl::FailedPreconditionError("its content was erased");
  if (!shared_keys_) return erased;
  absl::StatusOr<ledger::ContentKeyRef> shared = shared_keys_->Find(sealed_by);
  return absl::IsNotFound(shared.status()) ? erased : shared;
}

net::Task<absl::StatusOr<std::vector<SharedKey>>> Files::EraseShared(std::string tenant, std::string by,
                                                                     std::string reason) {
  if (!shared_keys_) co_return std::vector<SharedKey>();
  co_return co_await shared_keys_->Erase(std::move(tenant), std::move(by), std::move(reason));
}

absl::StatusOr<ledger::ContentKeyRef> Files::KeyOfFile(const std::string& id) const {
  if (const auto held = held_.find(id); held != held_.end()) return KeyOf(held->second.sealed_by);
  const auto* const entry = copy_.Find(id);
  return KeyOf(entry == nullptr ? std::string() : entry->value.sealed_by);
}

net::Task<Result<Files::Place>> Files::Hold(std::string tenant, uint64_t bytes) {
  const bool shared = shares();
  const absl::StatusOr<ledger::ContentKeyRef> key = co_await KeyFor(tenant, shared);
  if (!key.ok()) {
    log::Error("there is no content key for new files of a tenant",
               {{"tenant", tenant}, {"why", conf::Std(key.status().message())}});
    co_return api::Make(api::Code::kStoreUnavailable, "the gateway cannot keep a file now; try again");
  }
  const std::optional<config::Files> options = options_();
  if (!options) co_return api::Make(api::Code::kNotFound, "this gateway keeps no files");
  uint64_t used = 0;
  size_t count = 0;
  size_t uploads = 0;
  for (const auto* const entry : copy_.all()) {
    if (entry->value.tenant != tenant) continue;
    used += entry->value.bytes;
    ++count;
  }
  for (const auto& [id, held] : held_) {
    if (held.tenant != tenant) continue;
    used += held.bytes;
    ++count;
    ++uploads;
  }
  if (uploads >= kMaxUploads) {
    co_return api::Make(api::Code::kConcurrencyLimit,
                        fmt::format("{} files are being uploaded already; wait for one to end", uploads));
  }
  if (count >= options->tenant_files)
    co_return NoRoom(fmt::format("your tenant has {} files, which is the limit; delete some", count));
  if (used >= options->tenant_bytes) {
    co_return NoRoom(
        fmt::format("your tenant's files have {} bytes of {}; delete some", used, options->tenant_bytes));
  }
  const uint64_t most = std::min({bytes, options->file_bytes, options->tenant_bytes - used});
  if (most < std::min(bytes, options->file_bytes)) {
    co_return NoRoom(
        fmt::format("your tenant's files have {} bytes of {}; this one does not fit, delete some", used,
                    options->tenant_bytes));
  }
  Place place{.id = NewId("file-"), .path = {}, .key = *key, .most_bytes = most};
  place.path = UploadPathOf(place.id);
  held_[place.id] = {
      .tenant = tenant, .bytes = most, .sealed_by = *key == nullptr ? "" : (*key)->id(), .shared = shared};
  co_return place;
}

net::Task<absl::StatusOr<std::vector<store::Write>>> Files::Move(StoredFile& file, std::string path) {
  std::vector<store::Write> writes;
  file.object.clear();  // of an earlier try
  bool fits = false;    // only results can be too large
  if (bucket_.configured()) {
    fits = co_await net::OffLoop(loop_, [&path] {
      std::error_code error;
      return std::filesystem::file_size(path, error) <= plugins::weights::S3Bucket::kMostBytes || error;
    });
  }
  file.shared = file.shared && fits;  // the bucket may have gone from the configuration meanwhile
  if (fits) {
    BucketRemovals& removals = RemovalsOf(file.shared);
    file.object = bucket_.ObjectFor(file.id);
    if (absl::Status held = co_await removals.Hold(file.id, file.object); !held.ok()) co_return held;
    if (absl::Status put = co_await bucket_.Put(path, file.object); !put.ok()) {
      removals.Release(file.id);
      co_return put;
    }
    writes.push_back(removals.Forgetting(file.id));
  } else if (const std::string place = PathOf(file.id); path != place) {
    const absl::Status renamed =
        co_await net::OffLoop(loop_, [&path, &place] { return net::RenameFile(path, place); });
    if (!renamed.ok()) co_return renamed;
  }
  writes.push_back(store::Write::Create(copy_.KindOf(file), file.id, EncodeFile(file)));
  co_return writes;
}

net::Task<void> Files::Settle(StoredFile file, std::string path, bool failed) {
  if (file.object.empty()) {
    if (failed) (co_await RemoveBytes(PathOf(file.id))).IgnoreError();
    co_return;
  }
  RemovalsOf(file.shared).Release(file.id);
  if (copy_.Find(file.id) != nullptr) (co_await RemoveBytes(path)).IgnoreError();
}

net::Task<Result<StoredFile>> Files::Keep(Upload upload, conf::TimePoint now) {
  StoredFile file{.id = upload.id,
                  .tenant = upload.tenant,
                  .key = upload.key,
                  .purpose = upload.purpose,
                  .name = std::move(upload.name),
                  .bytes = upload.bytes,
                  .sealed_by = {},
                  .object = {},
                  .parts = {},
                  .created = now,
                  .expires = {}};
  if (upload.age) file.expires = now + *upload.age;
  if (const auto held = held_.find(file.id); held != held_.end()) {
    file.sealed_by = held->second.sealed_by;
    file.shared = held->second.shared;
  }
  const std::string path = UploadPathOf(file.id);
  absl::StatusOr<std::vector<store::Write>> writes = co_await Move(file, path);
  absl::Status kept = writes.status();
  if (writes.ok()) {
    writes->push_back(EventFor("file.create", file.key, file.id, file.tenant, FileDetail(file)));
    kept = (co_await store_.Commit(*std::move(writes))).status();
    // After an unknown outcome the store may have it: then its bytes stay.
    const bool failed = !kept.ok() && !absl::IsUnknown(kept);
    if (kept.ok()) kept = co_await copy_.CatchUp();
    co_await Settle(file, path, failed);
  }
  held_.erase(file.id);
  if (kept.ok()) co_return file;
  log::Warn("an uploaded file could not be kept", {{"why", conf::Std(kept.message())}});
  (co_await RemoveBytes(path)).IgnoreError();
  if (!writes.ok())
    co_return api::Make(api::Code::kStoreUnavailable, "the gateway cannot keep a file now; try again");
  co_return ErrorOf(kept);
}

net::Task<absl::StatusOr<Files::Place>> Files::PlaceOf(StoredFile file) {
  const absl::StatusOr<ledger::ContentKeyRef> key = KeyOf(file.sealed_by);
  if (!key.ok()) co_return key.status();
  Place place{.id = file.id, .path = PathOf(file.id), .key = *key, .most_bytes = file.bytes};
  place.objects = file.objects();
  if (place.objects.empty()) co_return place;
  const absl::StatusOr<Bucket::Access> bucket = co_await bucket_.Open();
  if (!bucket.ok()) co_return absl::UnavailableError(bucket.status().message());
  place.bucket = *bucket;
  co_return place;
}

net::Task<absl::StatusOr<std::string>> Files::CopyHere(std::string id) {
  const auto* const entry = copy_.Find(id);
  if (entry == nullptr) co_return absl::NotFoundError(conf::Abseil(fmt::format("there is no file {}", id)));
  std::string path = PathOf(id);
  const std::string object = entry->value.object;
  if (object.empty()) co_return path;
  const bool here = co_await net::OffLoop(loop_, [&path] { return access(path.c_str(), F_OK) == 0; });
  if (here) co_return path;  // copies get their names when they are whole
  const std::string name = fmt::format("{}.{}{}", id, ++copies_, kCopied);
  const std::string part = PathOf(name);
  copying_.insert(name);
  absl::Status copied = co_await net::OffLoop(loop_, [this] { return net::MakeDirectories(dir_, 0700); });
  if (copied.ok()) copied = co_await bucket_.Get(object, part);
  if (copied.ok())
    copied = co_await net::OffLoop(loop_, [&part, &path] { return net::RenameFile(part, path); });
  copying_.erase(name);
  if (copied.ok()) co_return path;
  (co_await RemoveBytes(part)).IgnoreError();
  co_return copied;
}

std::string Files::RunNameOf(std::string_view file, uint64_t epoch) {
  return fmt::format("{}.{}{}", file, epoch, kRun);
}

net::Task<absl::StatusOr<ResultPart>> Files::PutPart(std::string file, std::string path, FileExtent from,
                                                     FileExtent to) {
  // Another name at each try: a request that was given up may still come to pass.
  const std::string id = NewId(file + ".");
  ResultPart part{.object = bucket_.ObjectFor(id),
                  .extent = {.bytes = to.bytes - from.bytes, .stored = to.stored - from.stored}};
  if (absl::Status held = co_await shared_removals_->Hold(id, part.object); !held.ok()) co_return held;
  const absl::Status put =
      co_await bucket_.Put(path, part.object, {.from = from.stored, .bytes = part.extent.stored});
  if (put.ok()) co_return part;
  shared_removals_->Release(id);
  co_return put;
}

store::Write Files::Counting(const ResultPart& part) const {
  return shared_removals_->Forgetting(NameInBucket(part.object));
}

void Files::Release(const ResultPart& part) {
  shared_removals_->Release(NameInBucket(part.object));
}

store::Write Files::Discarding(const ResultPart& part) const {
  return shared_removals_->Noting(NameInBucket(part.object), part.object);
}

void Files::WakeRemovals() {
  if (shared_removals_) shared_removals_->Wake();
}

store::Write Files::Making(const StoredFile& file) const {
  return store::Write::Create(copy_.KindOf(file), file.id, EncodeFile(file));
}

net::Task<absl::Status> Files::Assemble(ResultParts parts, std::string path) {
  const uint64_t stored = ExtentOf(parts).stored;
  const bool here = co_await net::OffLoop(loop_, [&path, stored] {
    std::error_code error;
    const uintmax_t size = std::filesystem::file_size(path, error);
    return !error && size >= stored;
  });
  if (here || parts.empty()) co_return absl::OkStatus();
  const std::string whole = path + std::string(kCopied);
  const std::string piece = whole + "-part";
  const std::set<std::string> names = {NameInBucket(whole), NameInBucket(piece)};
  copying_.insert(names.begin(), names.end());
  absl::Status done = co_await net::OffLoop(loop_, [this, &whole, &piece]() -> absl::Status {
    if (absl::Status made = net::MakeDirectories(dir_, 0700); !made.ok()) return made;
    if (absl::Status removed = net::RemoveFile(piece); !removed.ok()) return removed;
    return net::RemoveFile(whole);
  });
  for (size_t i = 0; i < parts.size() && done.ok(); ++i) {
    done = co_await bucket_.Get(parts[i].object, piece);
    if (!done.ok()) break;
    done = co_await net::OffLoop(loop_, [&] { return AppendFile(piece, whole, parts[i].extent.stored); });
  }
  if (done.ok()) {
    done = co_await net::OffLoop(loop_, [&whole, &path] { return net::RenameFile(whole, path); });
  } else {
    (co_await RemoveBytes(whole)).IgnoreError();
    (co_await RemoveBytes(piece)).IgnoreError();
  }
  for (const std::string& name : names) copying_.erase(name);
  co_return done;
}

net::Task<void> Files::DropCopy(std::string id) {
  const auto* const entry = copy_.Find(id);
  // Another gateway may have deleted the file meanwhile.
  if (entry != nullptr && entry->value.object.empty()) co_return;
  (co_await RemoveBytes(PathOf(id))).IgnoreError();
}

net::Task<void> Files::Abandon(std::string id) {
  held_.erase(id);
  (co_await RemoveBytes(UploadPathOf(id))).IgnoreError();
}

net::Task<absl::Status> Files::RemoveBytes(std::string path) {
  co_return co_await net::OffLoop(loop_, [&path] { return net::RemoveFile(path); });
}

const StoredFile* Files::Find(std::string_view tenant, std::string_view id, conf::TimePoint now) const {
  const auto* const entry = copy_.Find(id);
  if (entry == nullptr || entry->value.tenant != tenant || now >= entry->value.EndsAt(max_age()))
    return nullptr;
  return &entry->value;
}

std::vector<const StoredFile*> Files::OfTenant(std::string_view tenant, conf::TimePoint now) const {
  std::vector<const StoredFile*> files;
  for (const auto* const entry : copy_.all()) {
    if (Find(tenant, entry->value.id, now) != nullptr) files.push_back(&entry->value);
  }
  std::ranges::sort(files, [](const StoredFile* a, const StoredFile* b) {
    return std::pair(a->created, a->id) < std::pair(b->created, b->id);
  });
  return files;
}

net::Task<Result<StoredFile>> Files::Remove(std::string tenant, std::string id, std::string key,
                                            conf::TimePoint now) {
  const StoredFile* const found = Find(tenant, id, now);
  if (found == nullptr)
    co_return api::Make(api::Code::kNotFound, fmt::format("there is no file {}", id), "file_id");
  const StoredFile file = *found;
  absl::Status removed = (co_await store_.Commit(RemovalOf(file, "file.delete", key))).status();
  if (removed.ok()) removed = co_await copy_.CatchUp();
  if (!removed.ok()) co_return ErrorOf(removed);
  co_await Removed(file);
  co_return file;
}

std::vector<store::Write> Files::RemovalOf(const StoredFile& file, std::string_view action,
                                           const std::string& actor) const {
  std::vector<store::Write> writes;
  writes.push_back({copy_.KindOf(file), file.id, copy_.Find(file.id)->version, std::nullopt});
  writes.push_back(EventFor(action, actor, file.id, file.tenant, FileDetail(file)));
  for (const std::string& object : file.objects())
    writes.push_back(RemovalsOf(file.shared).Noting(NameInBucket(object), object));
  return writes;
}

// The store has forgotten it.
net::Task<void> Files::Removed(StoredFile file) {
  if (const absl::Status gone = co_await RemoveBytes(PathOf(file.id)); !gone.ok())
    log::Warn("a deleted file still takes disk space", {{"why", conf::Std(gone.message())}});
  if (!file.objects().empty()) RemovalsOf(file.shared).Wake();
}

net::Task<void> Files::Sweep(std::set<std::string> used, conf::TimePoint now) {
  std::vector<StoredFile> old;
  for (const auto* const entry : copy_.all()) {
    if (now >= entry->value.EndsAt(max_age()) && !used.contains(entry->value.id)) old.push_back(entry->value);
  }
  for (const StoredFile& file : old) {
    if (copy_.Find(file.id) == nullptr) continue;
    const absl::Status removed = (co_await store_.Commit(RemovalOf(file, "file.expire", "control"))).status();
    // Aborted: another gateway was faster.
    if (!removed.ok() && !absl::IsAborted(removed)) co_return;
    if (!(co_await copy_.CatchUp()).ok()) co_return;
    if (removed.ok()) co_await Removed(file);
  }
  // What a crash has left: uploads that nobody continues, and bytes that the store does not know. Those may
  // be all there is after a loss of the store, so they stay as long as a file may. Copies of what is in the
  // bucket go at once.
  std::set<std::string> known = std::move(used);
  std::set<std::string> copies;
  for (const auto* const entry : copy_.all()) {
    (entry->value.objects().empty() ? known : copies).insert(entry->value.id);
  }
  known.insert(copying_.begin(), copying_.end());
  for (const auto& [id, held] : held_) known.insert(id + std::string(kPart));
  const conf::Duration age = max_age();
  const absl::Status swept =
      co_await net::OffLoop(loop_, [this, &known, &copies, age, now]() -> absl::Status {
        const auto names = ListFolder(dir_);
        if (!names.ok()) return names.status();
        for (const auto& [name, changed] : *names) {
          const bool passing = std::string_view(name).ends_with(kPart) ||
                               std::string_view(name).ends_with(kRun) ||
                               name.find(kCopied) != std::string::npos || copies.contains(name);
          if (known.contains(name) || now < changed + (passing ? kPartAge : age)) continue;
          if (absl::Status removed = net::RemoveFile(PathOf(name)); !removed.ok()) return removed;
        }
        return absl::OkStatus();
      });
  if (!swept.ok() && options_())
    log::Warn("remains of files could not be removed", {{"why", conf::Std(swept.message())}});
}

}  // namespace gateway::batches
