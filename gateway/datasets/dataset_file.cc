#include "gateway/datasets/dataset_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "conf/hex.h"
#include "conf/json_fields.h"
#include "conf/text.h"
#include "gateway/net/files.h"

namespace gateway::datasets {
namespace {

constexpr size_t kBufferBytes = 1 << 20;

}  // namespace

// SHA-256 of what passes.
class DatasetFile::Hash {
 public:
  Hash() : context_(EVP_MD_CTX_new()) { EVP_DigestInit_ex(context_, EVP_sha256(), nullptr); }
  ~Hash() { EVP_MD_CTX_free(context_); }
  Hash(const Hash&) = delete;
  Hash& operator=(const Hash&) = delete;

  void Add(std::string_view bytes) { EVP_DigestUpdate(context_, bytes.data(), bytes.size()); }
  std::string Hex() {
    std::array<uint8_t, 32> digest{};
    EVP_DigestFinal_ex(context_, digest.data(), nullptr);
    return conf::Hex(digest);
  }

 private:
  EVP_MD_CTX* const context_;
};

DatasetFile::DatasetFile(std::string path, net::Fd file)
    : path_(std::move(path)), file_(std::move(file)), hash_(std::make_unique<Hash>()) {}

DatasetFile::~DatasetFile() {
  if (!finished_) net::RemoveFile(PartPath()).IgnoreError();
}

absl::StatusOr<std::unique_ptr<DatasetFile>> DatasetFile::Create(const std::string& path) {
  std::error_code error;
  for (const std::string& taken : {path, ManifestPath(path)}) {
    if (std::filesystem::exists(taken, error))
      return absl::AlreadyExistsError(fmt::format("{} exists: name another file, or remove it first", taken));
  }
  absl::StatusOr<net::Fd> file =
      net::OpenFile(path + ".part", O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW, 0600);
  if (!file.ok() && std::filesystem::exists(path + ".part", error)) {
    return absl::AlreadyExistsError(
        fmt::format("{}.part exists: another export writes it, or one was killed; remove it then", path));
  }
  if (!file.ok()) return file.status();
  return std::unique_ptr<DatasetFile>(new DatasetFile(path, *std::move(file)));
}

absl::Status DatasetFile::Add(std::string_view line) {
  buffer_.append(line).push_back('\n');
  bytes_ += line.size() + 1;
  if (buffer_.size() < kBufferBytes) return absl::OkStatus();
  hash_->Add(buffer_);
  absl::Status written = net::WriteAll(file_.get(), PartPath(), buffer_);
  buffer_.clear();
  return written;
}

absl::Status DatasetFile::Finish(Manifest& manifest) {
  hash_->Add(buffer_);
  if (absl::Status written = net::WriteAll(file_.get(), PartPath(), buffer_); !written.ok()) return written;
  if (fsync(file_.get()) != 0) return net::SystemError("sync", PartPath(), errno);
  manifest.file = std::filesystem::path(path_).filename().string();
  manifest.bytes = bytes_;
  manifest.sha256 = hash_->Hex();
  if (absl::Status named = net::RenameToFree(PartPath(), path_); !named.ok()) return named;
  finished_ = true;
  if (absl::Status synced = net::SyncParent(path_); !synced.ok()) return synced;
  return net::ReplaceFile(ManifestPath(path_), conf::ToJsonText(manifest) + "\n", 0600);
}

}  // namespace gateway::datasets
