#include "gateway/ledger/content_keys.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "conf/hex.h"
#include "conf/json_dump.h"
#include "conf/json_parse.h"
#include "conf/text.h"
#include "gateway/ledger/chain.h"
#include "gateway/net/files.h"

namespace gateway::ledger {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMaxFile = 64 << 20;
constexpr size_t kMaxMaster = 4096;
constexpr size_t kIdDigits = 16;
constexpr mode_t kOwnerOnly = 0600;

std::span<const uint8_t> AsBytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// A name for the key that reveals nothing about it.
std::string NameOf(const ContentKey::Bytes& bytes) {
  const Digest digest = plugins::auth::Sha256("tidegate-content-key-id\n",
                                              {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  return conf::Hex(digest).substr(0, kIdDigits);
}

ContentKeyRef MakeKey(const ContentKey::Bytes& bytes) {
  return std::make_shared<const ContentKey>(NameOf(bytes), bytes);
}

ContentKeyRef NewKey() {
  ContentKey::Bytes bytes = ContentKey::RandomBytes();
  ContentKeyRef key = MakeKey(bytes);
  OPENSSL_cleanse(bytes.data(), bytes.size());
  return key;
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' '))
    text.remove_suffix(1);
  return text;
}

absl::StatusOr<ContentKeyRef> ReadKeyText(std::string_view text, const std::string& where) {
  ContentKey::Bytes bytes;
  if (!conf::ParseHex(Trimmed(text), bytes)) {
    return absl::InvalidArgumentError(conf::Abseil(fmt::format(
        "{} must be 64 lower-case hexadecimal digits; openssl rand -hex 32 makes such a key", where)));
  }
  ContentKeyRef key = MakeKey(bytes);
  OPENSSL_cleanse(bytes.data(), bytes.size());
  return key;
}

// NotFound if the file is missing.
absl::StatusOr<std::string> ReadPrivate(const std::string& path, size_t most) {
  absl::StatusOr<net::Fd> file = net::OpenFile(path, O_RDONLY | O_NOFOLLOW);
  if (!file.ok()) return file.status();
  struct stat info{};
  if (fstat(file->get(), &info) != 0) return net::SystemError("stat", path, errno);
  if ((info.st_mode & 077) != 0) {
    return absl::FailedPreconditionError(conf::Abseil(fmt::format(
        "{} has mode {:04o}, but only its owner may read it: run chmod 600", path, info.st_mode & 07777)));
  }
  return net::ReadAll(file->get(), path, most);
}

// Overwrites the content of the replaced file, unless it still has another name, as in a backup with hard links.
void Shred(int fd) {
  struct stat info{};
  if (fstat(fd, &info) != 0 || info.st_nlink > 0) return;
  const std::string zeros(static_cast<size_t>(info.st_size), '\0');
  for (size_t at = 0; at < zeros.size();) {
    const ssize_t written = pwrite(fd, zeros.data() + at, zeros.size() - at, static_cast<off_t>(at));
    if (written <= 0) return;
    at += static_cast<size_t>(written);
  }
  fdatasync(fd);
}

bool IsOrBelow(std::string_view tenant, std::string_view path) {
  return tenant == path ||
         (tenant.size() > path.size() && tenant.starts_with(path) && tenant[path.size()] == '/');
}

absl::Status Unreadable(const std::string& path) {
  return absl::DataLossError(conf::Abseil(
      fmt::format("{} cannot be read: restore it from a backup. If you move it aside instead, the "
                  "gateway makes new keys, and content sealed under the old ones stays unreadable",
                  path)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ContentKeys>> ContentKeys::Open(Options options) {
  std::unique_ptr<ContentKeys> keys(new ContentKeys(std::move(options)));
  if (absl::Status masters = keys->ReadMasters(); !masters.ok()) return masters;
  if (absl::Status read = keys->Read(); !read.ok()) return read;
  if (keys->old_master_ && keys->options_.may_write) {
    if (absl::Status written = keys->Write(keys->keys_, keys->erased_); !written.ok()) return written;
  }
  return keys;
}

absl::Status ContentKeys::ReadMasters() {
  for (size_t i = 0; i < options_.masters.size(); ++i) {
    absl::StatusOr<ContentKeyRef> key =
        ReadKeyText(options_.masters[i], fmt::format("ledger.content_key, number {},", i + 1));
    if (!key.ok()) return key.status();
    masters_.push_back(*std::move(key));
  }
  return ReadMaster();
}

// The master key that was made earlier still unwraps keys if another one is configured now.
absl::Status ContentKeys::ReadMaster() {
  absl::StatusOr<std::string> text = ReadPrivate(options_.master_path, kMaxMaster);
  if (text.ok()) {
    absl::StatusOr<ContentKeyRef> key = ReadKeyText(*text, options_.master_path);
    OPENSSL_cleanse(text->data(), text->size());
    if (!key.ok()) return key.status();
    masters_.push_back(*std::move(key));
    return absl::OkStatus();
  }
  if (!absl::IsNotFound(text.status())) return text.status();
  if (!masters_.empty() || !options_.may_write || access(options_.path.c_str(), F_OK) == 0)
    return absl::OkStatus();
  masters_.push_back(NewKey());
  std::string hex = conf::Hex(masters_.front()->bytes()) + "\n";
  absl::Status written = net::ReplaceFile(options_.master_path, hex, kOwnerOnly);
  OPENSSL_cleanse(hex.data(), hex.size());
  return written;
}

absl::Status ContentKeys::Read() {
  absl::StatusOr<std::string> text = ReadPrivate(options_.path, kMaxFile);
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  if (!text.ok()) return text.status();
  const ordered_json file = conf::ParseOrderedJson(*text);
  try {
    if (!file.is_object() || file.at("version").get<int>() != 1) return Unreadable(options_.path);
    for (const ordered_json& entry : file.at("keys")) {
      const std::string id = entry.at("id");
      const std::string wrapped = entry.at("wrapped");
      if (std::ranges::any_of(wrapped, [](char c) { return conf::HexDigit(c) < 0; }))
        return Unreadable(options_.path);
      Unwrapped unwrapped = Unwrap(id, wrapped);
      if (unwrapped.key == nullptr) {
        return absl::FailedPreconditionError(conf::Abseil(
            fmt::format("{}: the key {} is wrapped under another master key: add that master key to "
                        "ledger.content_key, after the new one, or restore {}",
                        options_.path, id, options_.master_path)));
      }
      old_master_ = old_master_ || unwrapped.old;
      keys_[entry.at("tenant").get<std::string>()] = std::move(unwrapped.key);
    }
    for (const ordered_json& entry : file.at("erased")) {
      erased_.push_back({.id = entry.at("id"),
                         .tenant = entry.at("tenant"),
                         .at = conf::FromUnixMicros(entry.at("at_us").get<int64_t>()),
                         .by = entry.at("by"),
                         .reason = entry.at("reason"),
                         .recorded = entry.at("recorded")});
    }
  } catch (const nlohmann::json::exception&) {
    return Unreadable(options_.path);
  }
  return absl::OkStatus();
}

ContentKeyRef ContentKeys::MakeNew() {
  return NewKey();
}

absl::StatusOr<std::string> ContentKeys::Wrap(const ContentKey& key) const {
  if (masters_.empty()) {
    return absl::FailedPreconditionError(conf::Abseil(fmt::format(
        "{} is missing: restore it, or remove {}, which has no key", options_.master_path, options_.path)));
  }
  const std::string_view raw(reinterpret_cast<const char*>(key.bytes().data()), key.bytes().size());
  return conf::Hex(AsBytes(masters_.front()->Seal(raw)));
}

ContentKeys::Unwrapped ContentKeys::Unwrap(const std::string& id, std::string_view wrapped) const {
  std::string sealed(wrapped.size() / 2, '\0');
  if (!conf::ParseHex(wrapped, {reinterpret_cast<uint8_t*>(sealed.data()), sealed.size()})) return {};
  for (size_t i = 0; i < masters_.size(); ++i) {
    std::optional<std::string> raw = masters_[i]->Open(sealed);
    ContentKey::Bytes bytes;
    if (!raw || raw->size() != bytes.size()) continue;
    std::ranges::copy(AsBytes(*raw), bytes.begin());
    OPENSSL_cleanse(raw->data(), raw->size());
    Unwrapped unwrapped{.key = std::make_shared<const ContentKey>(id, bytes), .old = i > 0};
    OPENSSL_cleanse(bytes.data(), bytes.size());
    return unwrapped;
  }
  return {};
}

absl::Status ContentKeys::Write(const ByTenant& keys, const std::vector<Erased>& erased) const {
  ordered_json file = {{"version", 1}, {"keys", ordered_json::array()}, {"erased", ordered_json::array()}};
  for (const auto& [tenant, key] : keys) {
    absl::StatusOr<std::string> wrapped = Wrap(*key);
    if (!wrapped.ok()) return wrapped.status();
    file["keys"].push_back({{"tenant", tenant}, {"id", key->id()}, {"wrapped", *std::move(wrapped)}});
  }
  for (const Erased& one : erased) {
    file["erased"].push_back({{"tenant", one.tenant},
                              {"id", one.id},
                              {"at_us", conf::ToUnixMicros(one.at)},
                              {"by", one.by},
                              {"reason", one.reason},
                              {"recorded", one.recorded}});
  }
  const absl::StatusOr<net::Fd> old = net::OpenFile(options_.path, O_RDWR | O_NOFOLLOW);
  if (absl::Status written = net::ReplaceFile(options_.path, conf::DumpJson(file) + "\n", kOwnerOnly);
      !written.ok())
    return written;
  if (old.ok()) Shred(old->get());
  return absl::OkStatus();
}

absl::Status ContentKeys::Ensure(const std::vector<std::string>& tenants) {
  const std::lock_guard lock(mutex_);
  ByTenant keys = keys_;
  for (const std::string& tenant : tenants) {
    if (!keys.contains(tenant)) keys[tenant] = NewKey();
  }
  if (keys.size() == keys_.size()) return absl::OkStatus();
  if (absl::Status written = Write(keys, erased_); !written.ok()) return written;
  keys_ = std::move(keys);
  return absl::OkStatus();
}

ContentKeyRef ContentKeys::For(std::string_view tenant) const {
  const std::lock_guard lock(mutex_);
  const auto found = keys_.find(tenant);
  return found == keys_.end() ? nullptr : found->second;
}

ContentKeyRef ContentKeys::Find(std::string_view id) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [tenant, key] : keys_) {
    if (key->id() == id) return key;
  }
  return nullptr;
}

std::optional<ContentKeys::Erased> ContentKeys::WhenErased(std::string_view id) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(erased_, id, &Erased::id);
  if (found == erased_.end()) return std::nullopt;
  return *found;
}

absl::StatusOr<std::vector<ContentKeys::Erased>> ContentKeys::Erase(std::string_view tenant,
                                                                    std::string_view by,
                                                                    std::string_view reason,
                                                                    conf::TimePoint now) {
  const std::lock_guard lock(mutex_);
  ByTenant keys = keys_;
  std::vector<Erased> gone;
  for (auto& [path, key] : keys) {
    if (!IsOrBelow(path, tenant)) continue;
    gone.push_back(
        {.id = key->id(), .tenant = path, .at = now, .by = std::string(by), .reason = std::string(reason)});
    key = NewKey();
  }
  if (gone.empty()) return gone;
  std::vector<Erased> erased = erased_;
  erased.insert(erased.end(), gone.begin(), gone.end());
  if (absl::Status written = Write(keys, erased); !written.ok()) return written;
  keys_ = std::move(keys);
  erased_ = std::move(erased);
  return gone;
}

std::vector<ContentKeys::Erased> ContentKeys::Unrecorded() const {
  const std::lock_guard lock(mutex_);
  std::vector<Erased> waiting;
  std::ranges::copy_if(erased_, std::back_inserter(waiting), [](const Erased& one) { return !one.recorded; });
  return waiting;
}

absl::Status ContentKeys::MarkRecorded(std::string_view id) {
  const std::lock_guard lock(mutex_);
  std::vector<Erased> erased = erased_;
  const auto found = std::ranges::find(erased, id, &Erased::id);
  if (found == erased.end() || found->recorded) return absl::OkStatus();
  found->recorded = true;
  if (absl::Status written = Write(keys_, erased); !written.ok()) return written;
  erased_ = std::move(erased);
  return absl::OkStatus();
}

}  // namespace gateway::ledger
