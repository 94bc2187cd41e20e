#include "gateway/ledger/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include "conf/text.h"
#include "gateway/ledger/crc32c.h"
#include "gateway/net/files.h"

namespace gateway::ledger {
namespace {

constexpr size_t kPage = 4096;
constexpr uint64_t kMinRing = 64 * 1024;
// The part of a ring that is put in memory at the start. An idle gateway never writes the rest, and the first lap
// through the rest costs one page fault for every eight records.
constexpr uint64_t kPopulated = 1u << 20;

size_t RoundUp(size_t bytes) {
  return (bytes + kPage - 1) & ~(kPage - 1);
}

// Faults the pages in for writing now, so that no request has to.
void Populate(char* at, size_t bytes) {
  char* const from = at - reinterpret_cast<uintptr_t>(at) % kPage;
  if (madvise(from, bytes, MADV_POPULATE_WRITE) == 0) return;
  // For kernels before 5.14.
  volatile char* const touched = from;
  for (size_t at = 0; at < bytes; at += kPage) touched[at] = touched[at];
}

uint32_t FrameCrc(uint64_t n, const char* payload, size_t size) {
  return Crc32c(Crc32c(0, &n, sizeof n), payload, size);
}

}  // namespace

Ticket& Ticket::operator=(Ticket&& other) noexcept {
  if (this != &other) {
    Abandon();
    journal_ = std::exchange(other.journal_, nullptr);
    slot_ = other.slot_;
    n_ = other.n_;
  }
  return *this;
}

void Ticket::Progress(const Counts& counts) {
  ShardJournal::Slot& slot = journal_->slots_[slot_];
  constexpr auto kRelaxed = std::memory_order_relaxed;
  const uint64_t updates = slot.updates.load(kRelaxed) + 1;
  const bool odd = updates % 2 == 1;
  std::atomic_thread_fence(
      std::memory_order_release);  // the last write becomes visible before this one begins
  (odd ? slot.odd_input : slot.input).store(counts.input, kRelaxed);
  (odd ? slot.odd_cached : slot.cached).store(counts.cached, kRelaxed);
  (odd ? slot.odd_output : slot.output).store(counts.output, kRelaxed);
  (odd ? slot.odd_cost_micro_usd : slot.cost_micro_usd).store(counts.cost_micro_usd, kRelaxed);
  slot.updates.store(updates, std::memory_order_release);
  slot.bytes_in.store(counts.bytes_in, kRelaxed);
  slot.bytes_out.store(counts.bytes_out, kRelaxed);
  slot.ttft_us.store(counts.ttft_us, kRelaxed);
  slot.attempts.store(counts.attempts, kRelaxed);
  slot.source.store(static_cast<uint32_t>(counts.source), kRelaxed);
}

void Ticket::SetReplica(std::string_view replica) {
  ShardJournal::Slot& slot = journal_->slots_[slot_];
  std::array<char, kMaxReplica> text{};
  if (!replica.empty()) std::memcpy(text.data(), replica.data(), std::min(replica.size(), text.size()));
  for (size_t i = 0; i < slot.replica.size(); ++i) {
    uint64_t word;
    std::memcpy(&word, text.data() + 8 * i, 8);
    slot.replica[i].store(word, std::memory_order_relaxed);
  }
}

bool Ticket::Content(const ContentRecord& record) {
  if (!journal_->HasRoom(ShardJournal::Framed(ContentPayload(record)), journal_->open_requests())) {
    journal_->dropped_records_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  journal_->Commit(
      EncodeContent(record, n_, journal_->At(journal_->write_) + sizeof(ShardJournal::FrameHead)));
  return true;
}

void Ticket::Close(const CloseRecord& record) {
  std::exchange(journal_, nullptr)->CloseSlot(slot_, n_, record);
}

void Ticket::Abandon() {
  if (journal_ == nullptr) return;
  std::string replica;
  Close(journal_->InterruptedNow(slot_, &replica));
}

Position Ticket::position() const {
  return {journal_->shard(), n_};
}

ShardJournal::ShardJournal(const JournalLayout& layout, const std::atomic<bool>* healthy)
    : layout_(layout),
      ring_mask_(layout.ring_bytes - 1),
      healthy_(healthy),
      head_bytes_(RoundUp(kHeaderBytes + layout.slots * sizeof(Slot))) {}

ShardJournal::~ShardJournal() {
  if (header_ != nullptr) munmap(header_, head_bytes_);
  if (ring_ != nullptr) munmap(ring_, 2 * layout_.ring_bytes);
}

uint64_t ShardJournal::RingFor(uint32_t slots) {
  return std::bit_ceil(std::max<uint64_t>(kMinRing, 2 * uint64_t{slots} * kCloseRoom));
}

absl::Status ShardJournal::Map(int file, const std::string& path) {
  const size_t total = head_bytes_ + layout_.ring_bytes;
  // Allocates now, because a full disk would cause a SIGBUS later.
  if (const int error = posix_fallocate(file, 0, static_cast<off_t>(total)); error != 0) {
    const absl::Status failed = net::SystemError("reserve space for", path, error);
    return net::IsDiskFull(failed)
               ? absl::ResourceExhaustedError(conf::Abseil(
                     fmt::format("{}: free {} bytes on this disk", conf::Std(failed.message()), total)))
               : failed;
  }
  void* head = mmap(nullptr, head_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (head == MAP_FAILED) return net::SystemError("map", path, errno);
  header_ = static_cast<Header*>(head);
  slots_ = reinterpret_cast<Slot*>(static_cast<char*>(head) + kHeaderBytes);
  void* twice = mmap(nullptr, 2 * layout_.ring_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (twice == MAP_FAILED) return net::SystemError("map", path, errno);
  ring_ = static_cast<char*>(twice);
  for (char* half : {ring_, ring_ + layout_.ring_bytes}) {
    if (mmap(half, layout_.ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
             static_cast<off_t>(head_bytes_)) == MAP_FAILED) {
      return net::SystemError("map", path, errno);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ShardJournal>> ShardJournal::Create(const std::string& path,
                                                                   const JournalLayout& layout,
                                                                   const std::atomic<bool>* healthy) {
  if (layout.slots == 0 || !std::has_single_bit(layout.ring_bytes) ||
      layout.ring_bytes < RingFor(layout.slots)) {
    return absl::InvalidArgumentError(conf::Abseil(fmt::format(
        "the journal ring has {} bytes for {} open requests: it must be a power of two, at least {}",
        layout.ring_bytes, layout.slots, RingFor(layout.slots))));
  }
  const std::string fresh = path + ".new";
  absl::StatusOr<net::Fd> file = net::OpenFile(fresh, O_CREAT | O_TRUNC | O_RDWR);
  if (!file.ok()) return file.status();
  std::unique_ptr<ShardJournal> journal(new ShardJournal(layout, healthy));
  if (absl::Status mapped = journal->Map(file->get(), fresh); !mapped.ok()) {
    unlink(fresh.c_str());
    return mapped;
  }
  Populate(journal->At(0), std::min(kPopulated, layout.ring_bytes));
  auto* header = new (journal->header_) Header{};
  header->magic = kMagic;
  header->version = kVersion;
  header->shard = layout.shard;
  header->slots = layout.slots;
  header->ring_bytes = layout.ring_bytes;
  header->first_n = layout.first_n;
  header->last_n.store(layout.first_n - 1, std::memory_order_relaxed);
  journal->AddFreeSlots();
  // Without the sync of net::RenameFile: a journal must outlive the process, not the machine.
  if (rename(fresh.c_str(), path.c_str()) != 0) return net::SystemError("rename to", path, errno);
  return journal;
}

absl::StatusOr<std::unique_ptr<ShardJournal>> ShardJournal::Reopen(const std::string& path,
                                                                   const JournalLayout& layout, bool recorded,
                                                                   const std::atomic<bool>* healthy) {
  absl::StatusOr<net::Fd> file = net::OpenFile(path, O_RDWR | O_NOFOLLOW);
  if (!file.ok()) return file.status();
  std::unique_ptr<ShardJournal> journal(new ShardJournal(layout, healthy));
  const absl::StatusOr<uint64_t> size = net::FileSize(file->get(), path);
  if (!size.ok()) return size.status();
  Header had{};
  const bool read = pread(file->get(), static_cast<void*>(&had), sizeof had, 0) == ssize_t{sizeof had};
  if (!read || had.magic != kMagic || had.version != kVersion || had.shard != layout.shard ||
      had.slots != layout.slots || had.ring_bytes != layout.ring_bytes ||
      *size != journal->head_bytes_ + layout.ring_bytes ||
      had.committed.load() - had.consumed.load() > layout.ring_bytes) {
    return absl::NotFoundError(conf::Abseil(fmt::format("{} is a journal with another layout", path)));
  }
  if (absl::Status mapped = journal->Map(file->get(), path); !mapped.ok()) return mapped;
  Header& header = *journal->header_;
  journal->write_ = header.committed.load(std::memory_order_relaxed);
  Populate(journal->At(journal->write_), std::min(kPopulated, layout.ring_bytes));
  journal->held_until_ = journal->write_;
  if (recorded) header.consumed.store(journal->write_, std::memory_order_release);
  header.last_n.store(layout.first_n - 1, std::memory_order_relaxed);
  journal->consumed_seen_ = header.consumed.load(std::memory_order_relaxed);
  journal->TakeSlots();
  if (recorded) journal->FreeHeldSlots();
  return journal;
}

// Adds the slots of a new file. Its zeros are free slots: as long as they are untouched, they take no memory.
void ShardJournal::AddFreeSlots() {
  free_slots_.reserve(layout_.slots);
  for (uint32_t i = layout_.slots; i > 0; --i) free_slots_.push_back(i - 1);
  next_n_ = layout_.first_n;
}

void ShardJournal::TakeSlots() {
  free_slots_.reserve(layout_.slots);
  for (uint32_t i = layout_.slots; i > 0; --i) {
    if (slots_[i - 1].open_n.load(std::memory_order_relaxed) != 0) {
      held_slots_.push_back(i - 1);
      continue;
    }
    new (slots_ + i - 1) Slot{};
    free_slots_.push_back(i - 1);
  }
  next_n_ = layout_.first_n;
}

void ShardJournal::FreeHeldSlots() {
  for (const uint32_t slot : held_slots_) {
    new (slots_ + slot) Slot{};
    free_slots_.push_back(slot);
  }
  held_slots_.clear();
}

bool ShardJournal::HasRoom(size_t bytes, size_t reserved_for) {
  const uint64_t need = bytes + reserved_for * kCloseRoom;
  if (write_ - consumed_seen_ + need <= layout_.ring_bytes) return true;
  consumed_seen_ = header_->consumed.load(std::memory_order_acquire);
  return write_ - consumed_seen_ + need <= layout_.ring_bytes;
}

uint64_t ShardJournal::Commit(size_t payload) {
  char* frame = At(write_);
  const uint64_t n = next_n_++;
  const FrameHead head{
      .size = static_cast<uint32_t>(payload), .crc = FrameCrc(n, frame + sizeof(FrameHead), payload), .n = n};
  std::memcpy(frame, &head, sizeof head);
  write_ += Framed(payload);
  header_->last_n.store(n, std::memory_order_relaxed);
  header_->committed.store(write_, std::memory_order_release);
  return n;
}

bool ShardJournal::RingFull() {
  return !free_slots_.empty() && !HasRoom(Framed(kMaxOpenPayload), open_requests() + 1);
}

std::optional<Ticket> ShardJournal::Open(const OpenRecord& record) {
  const uint32_t open = open_requests_.load(std::memory_order_relaxed);
  if (!held_slots_.empty() && header_->consumed.load(std::memory_order_acquire) >= held_until_)
    FreeHeldSlots();
  if (!healthy_->load(std::memory_order_relaxed) || free_slots_.empty() ||
      !HasRoom(Framed(kMaxOpenPayload), open + 1)) {
    refused_opens_.fetch_add(1, std::memory_order_relaxed);
    return std::nullopt;
  }
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  open_requests_.store(open + 1, std::memory_order_relaxed);
  const size_t size = EncodeOpen(record, At(write_) + sizeof(FrameHead));
  Ticket ticket(this, slot, next_n_);
  ticket.Progress(Counts{});
  ticket.SetReplica({});
  slots_[slot].open_n.store(next_n_, std::memory_order_release);
  Commit(size);
  return ticket;
}

bool ShardJournal::Refuse(const OpenRecord& of, const CloseRecord& record) {
  if (!HasRoom(Framed(kMaxOpenPayload + kMaxClosePayload), open_requests())) {
    dropped_records_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  char* payload = At(write_) + sizeof(FrameHead);
  const size_t head = EncodeOpen(of, payload, FrameType::kRefusal);
  Commit(head + EncodeClose(record, 0, payload + head));
  return true;
}

void ShardJournal::CloseSlot(uint32_t slot, uint64_t n, const CloseRecord& record) {
  Commit(EncodeClose(record, n, At(write_) + sizeof(FrameHead)));
  slots_[slot].open_n.store(0, std::memory_order_release);
  free_slots_.push_back(slot);
  open_requests_.store(open_requests() - 1, std::memory_order_relaxed);
}

CloseRecord ShardJournal::InterruptedNow(uint32_t index, std::string* replica) const {
  const Slot& slot = slots_[index];
  replica->resize(kMaxReplica);
  for (size_t i = 0; i < slot.replica.size(); ++i) {
    const uint64_t word = slot.replica[i].load(std::memory_order_relaxed);
    std::memcpy(replica->data() + 8 * i, &word, 8);
  }
  replica->resize(strnlen(replica->data(), kMaxReplica));
  CloseRecord record;
  record.reason = EndReason::kInterrupted;
  constexpr auto kRelaxed = std::memory_order_relaxed;
  record.counts = {
      .bytes_in = slot.bytes_in.load(kRelaxed),
      .bytes_out = slot.bytes_out.load(kRelaxed),
      .ttft_us = slot.ttft_us.load(kRelaxed),
      .attempts = slot.attempts.load(kRelaxed),
      .source = static_cast<TokenSource>(std::min<uint32_t>(slot.source.load(kRelaxed), kTokenSources - 1))};
  uint64_t updates = slot.updates.load(std::memory_order_acquire);
  for (uint64_t before = updates + 1; before != updates;) {
    before = updates;
    const bool odd = updates % 2 == 1;
    record.counts.input = (odd ? slot.odd_input : slot.input).load(kRelaxed);
    record.counts.cached = (odd ? slot.odd_cached : slot.cached).load(kRelaxed);
    record.counts.output = (odd ? slot.odd_output : slot.output).load(kRelaxed);
    record.counts.cost_micro_usd = (odd ? slot.odd_cost_micro_usd : slot.cost_micro_usd).load(kRelaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    updates = slot.updates.load(kRelaxed);
  }
  record.replica = *replica;
  return record;
}

void ShardJournal::Release(uint64_t cursor) {
  header_->consumed.store(cursor, std::memory_order_release);
}

void ShardJournal::ReturnMemory() {
  const uint64_t consumed = header_->consumed.load(std::memory_order_relaxed);
  if (consumed - returned_ < kPopulated) return;
  returned_ = consumed;
  madvise(ring_, 2 * layout_.ring_bytes, MADV_DONTNEED);
  Populate(At(consumed), std::min(kPopulated, layout_.ring_bytes));
}

uint64_t ShardJournal::pending_bytes() const {
  const uint64_t consumed = header_->consumed.load(std::memory_order_acquire);
  return header_->committed.load(std::memory_order_acquire) - consumed;
}

absl::StatusOr<JournalImage> ReadJournal(const std::string& path) {
  using Header = ShardJournal::Header;
  using Slot = ShardJournal::Slot;
  constexpr uint64_t kMaxFile = uint64_t{2} << 30;
  const absl::StatusOr<net::Fd> file = net::OpenFile(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!file.ok()) return file.status();
  const absl::StatusOr<uint64_t> size = net::FileSize(file->get(), path);
  if (!size.ok()) return size.status();
  std::string head(ShardJournal::kHeaderBytes, '\0');
  if (const auto read = net::ReadAt(file->get(), path, 0, head); !read.ok()) return read.status();
  const auto bad = [&](std::string_view why) {
    return absl::DataLossError(conf::Abseil(fmt::format("{} is not a journal: {}", path, why)));
  };
  if (*size < head.size()) return bad("it is too short");
  const auto word = [&head]<class T>(size_t offset, T* value) {
    std::memcpy(value, head.data() + offset, sizeof(T));
  };
  uint64_t magic, ring_bytes, committed, consumed;
  uint32_t version, slots;
  JournalImage image;
  word(offsetof(Header, magic), &magic);
  word(offsetof(Header, version), &version);
  word(offsetof(Header, shard), &image.shard);
  word(offsetof(Header, slots), &slots);
  word(offsetof(Header, ring_bytes), &ring_bytes);
  word(offsetof(Header, committed), &committed);
  word(offsetof(Header, last_n), &image.last_n);
  word(offsetof(Header, consumed), &consumed);
  if (magic != ShardJournal::kMagic || version != ShardJournal::kVersion)
    return bad("its magic number or version is unknown");
  const size_t head_bytes = RoundUp(ShardJournal::kHeaderBytes + size_t{slots} * sizeof(Slot));
  if (!std::has_single_bit(ring_bytes) || ring_bytes > kMaxFile || *size != head_bytes + ring_bytes) {
    return bad("its size does not match its header");
  }
  head.resize(head_bytes);
  if (const auto read = net::ReadAt(file->get(), path, 0, head); !read.ok()) return read.status();
  for (uint32_t i = 0; i < slots; ++i) {
    const size_t at = ShardJournal::kHeaderBytes + size_t{i} * sizeof(Slot);
    JournalImage::OpenSlot slot;
    word(at + offsetof(Slot, open_n), &slot.open_n);
    if (slot.open_n == 0) continue;
    uint64_t updates;
    uint32_t source;
    word(at + offsetof(Slot, updates), &updates);
    const bool odd = updates % 2 == 1;
    word(at + (odd ? offsetof(Slot, odd_input) : offsetof(Slot, input)), &slot.counts.input);
    word(at + (odd ? offsetof(Slot, odd_cached) : offsetof(Slot, cached)), &slot.counts.cached);
    word(at + (odd ? offsetof(Slot, odd_output) : offsetof(Slot, output)), &slot.counts.output);
    word(at + (odd ? offsetof(Slot, odd_cost_micro_usd) : offsetof(Slot, cost_micro_usd)),
         &slot.counts.cost_micro_usd);
    word(at + offsetof(Slot, bytes_in), &slot.counts.bytes_in);
    word(at + offsetof(Slot, bytes_out), &slot.counts.bytes_out);
    word(at + offsetof(Slot, ttft_us), &slot.counts.ttft_us);
    word(at + offsetof(Slot, attempts), &slot.counts.attempts);
    word(at + offsetof(Slot, source), &source);
    slot.counts.source = source < kTokenSources ? static_cast<TokenSource>(source) : TokenSource::kNone;
    const char* replica = head.data() + at + offsetof(Slot, replica);
    slot.replica.assign(replica, strnlen(replica, kMaxReplica));
    image.slots.push_back(std::move(slot));
  }
  if (consumed > committed || committed - consumed > ring_bytes) {
    image.unreadable_bytes = ring_bytes;
    return image;
  }
  // Reads only the part of the ring that is not in the ledger yet: usually little of its megabytes.
  std::string left_over(committed - consumed, '\0');
  const size_t first = std::min<size_t>(left_over.size(), ring_bytes - (consumed & (ring_bytes - 1)));
  const std::span<char> all(left_over);
  const uint64_t ring_at = head_bytes;
  for (const auto& [offset, part] : {std::pair{ring_at + (consumed & (ring_bytes - 1)), all.first(first)},
                                     std::pair{ring_at, all.subspan(first)}}) {
    if (const auto read = net::ReadAt(file->get(), path, offset, part); !read.ok()) return read.status();
  }
  const auto copy = [&](uint64_t from, size_t bytes, char* to) {
    std::memcpy(to, left_over.data() + (from - consumed), bytes);
  };
  for (uint64_t at = consumed; at < committed;) {
    ShardJournal::FrameHead head{};
    const uint64_t left = committed - at;
    if (left >= sizeof head) copy(at, sizeof head, reinterpret_cast<char*>(&head));
    JournalImage::Frame frame{.n = head.n, .payload = {}};
    bool good = left >= sizeof head && head.size <= left - sizeof head &&
                (image.frames.empty() || head.n == image.frames.back().n + 1);
    if (good) {
      frame.payload.resize(head.size);
      copy(at + sizeof head, head.size, frame.payload.data());
      good = FrameCrc(head.n, frame.payload.data(), head.size) == head.crc;
    }
    if (!good) {
      image.unreadable_bytes = left;
      break;
    }
    image.last_n = std::max(image.last_n, frame.n);
    image.frames.push_back(std::move(frame));
    at += ShardJournal::Framed(head.size);
  }
  return image;
}

}  // namespace gateway::ledger
