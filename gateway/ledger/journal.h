// A shard's journal: a memory-mapped file through which the shard passes its records to the ledger thread. Records
// survive the death of the process, because the pages belong to the kernel. The shard makes no system call, takes
// no lock and allocates nothing.
//
//   file = header page | slots | ring
//
// The ring holds frames {u32 size, u32 crc32c(n, payload), u64 n, payload, padding to 8}; n counts all records of
// the shard. The ring is mapped twice in a row, so that a frame that wraps around is contiguous. A slot belongs to
// one open request and holds its use so far.
//
// Owner: the Ledger. Threads: one producer (the shard) and one consumer (the ledger thread); counters may be
// read by any. Bounded: when the ring or the slots are full, Open refuses; the close of an open request
// always has room.
#pragma once

#include <absl/status/statusor.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/ledger/record.h"

namespace gateway::ledger {

class ShardJournal;
struct JournalImage;

// The position of an open record in its journal, for Ledger::OnDurable.
struct Position {
  uint32_t shard = 0;
  uint64_t n = 0;
};

// An open request. Belongs to its shard's thread and must not outlive the ledger. A ticket that is destroyed without
// Close closes its request as interrupted with its counts so far, so that no request is lost.
class Ticket {
 public:
  Ticket() = default;
  Ticket(Ticket&& other) noexcept { *this = std::move(other); }
  Ticket& operator=(Ticket&& other) noexcept;
  ~Ticket() { Abandon(); }

  // Sets the use that is billed if the process dies now. Cheap enough for every event of a stream.
  void Progress(const Counts& counts);
  // Sets the replica that serves now, for the same purpose.
  void SetReplica(std::string_view replica);
  // Stores a prompt or an answer, cut at kMaxContent bytes; false if the journal has no spare room.
  bool Content(const ContentRecord& record);
  void Close(const CloseRecord& record);

  Position position() const;
  explicit operator bool() const { return journal_ != nullptr; }

 private:
  friend class ShardJournal;
  Ticket(ShardJournal* journal, uint32_t slot, uint64_t n) : journal_(journal), slot_(slot), n_(n) {}
  void Abandon();

  ShardJournal* journal_ = nullptr;
  uint32_t slot_ = 0;
  uint64_t n_ = 0;
};

struct JournalLayout {
  uint32_t shard = 0;
  uint32_t slots = 4096;
  uint64_t ring_bytes = 8 << 20;  // a power of two, at least RingFor(slots)
  uint64_t first_n = 1;
};

class ShardJournal {
 public:
  // The bytes of the smallest ring for this many open requests: twice the room of their closes.
  static uint64_t RingFor(uint32_t slots);

  // Replaces the file by a new one with all its blocks allocated. `healthy` belongs to the ledger and outlives this.
  static absl::StatusOr<std::unique_ptr<ShardJournal>> Create(const std::string& path,
                                                              const JournalLayout& layout,
                                                              const std::atomic<bool>* healthy);
  // Continues the file of an earlier process, so that a restart needs no disk room. `recorded`: all of its records
  // are in segments; otherwise they keep their place until Release(). NotFound: no file, or another layout.
  static absl::StatusOr<std::unique_ptr<ShardJournal>> Reopen(const std::string& path,
                                                              const JournalLayout& layout, bool recorded,
                                                              const std::atomic<bool>* healthy);
  ~ShardJournal();
  ShardJournal(const ShardJournal&) = delete;
  ShardJournal& operator=(const ShardJournal&) = delete;

  // --- The shard's side ---

  // None if the ledger is unhealthy, every slot is taken or the ring is full (RingFull): answer 503.
  std::optional<Ticket> Open(const OpenRecord& record);
  // Whether Open() fails only because the ring is full. The consumer then makes room, within milliseconds while the
  // ledger is healthy.
  bool RingFull();
  // Records a request that was refused before it was admitted: a close without an open. False, and counted, if there
  // is no room; refusals never take the room of a close.
  bool Refuse(const OpenRecord& of, const CloseRecord& record);
  // Counts a refusal that is not recorded.
  void DropRefusal() { dropped_records_.fetch_add(1, std::memory_order_relaxed); }

  uint32_t shard() const { return layout_.shard; }

  // --- The consumer's side ---

  // Calls `visit(n, payload)` for the frames from `*cursor` on until it returns false; moves the cursor.
  template <class Visit>
  void Drain(uint64_t* cursor, Visit&& visit);
  // Frees everything before `cursor`.
  void Release(uint64_t cursor);
  // Removes the ring from this process's memory, except the part that is written next; the file keeps it. A lap through
  // the ring brings all of it into memory. For times without requests: the next lap has a page fault for every eight
  // records.
  void ReturnMemory();

  // --- Any thread ---
  uint64_t pending_bytes() const;
  uint64_t committed() const { return header_->committed.load(std::memory_order_acquire); }
  // Calls `visit(n, so_far)` for each open request: the number of its open record, and its use so far. The views are
  // valid during the call.
  template <class Visit>
  void ForEachOpen(Visit&& visit) const;
  uint32_t open_requests() const { return open_requests_.load(std::memory_order_relaxed); }
  uint64_t refused_opens() const { return refused_opens_.load(std::memory_order_relaxed); }
  uint64_t dropped_records() const { return dropped_records_.load(std::memory_order_relaxed); }

 private:
  friend class Ticket;
  friend absl::StatusOr<JournalImage> ReadJournal(const std::string& path);

  struct Header {
    uint64_t magic;
    uint32_t version;
    uint32_t shard;
    uint32_t slots;
    uint32_t unused;
    uint64_t ring_bytes;
    uint64_t first_n;
    alignas(64) std::atomic<uint64_t> committed;  // bytes ever written
    std::atomic<uint64_t> last_n;
    alignas(64) std::atomic<uint64_t> consumed;  // bytes that are in a segment and synced
  };
  struct Slot {
    alignas(64) std::atomic<uint64_t> open_n;  // 0: free
    std::atomic<uint64_t> input, cached, output, bytes_in, bytes_out;
    std::atomic<int64_t> cost_micro_usd, ttft_us;
    std::atomic<uint32_t> attempts, source;
    std::array<std::atomic<uint64_t>, kMaxReplica / 8> replica;  // zero-filled text
    // The use is written here and above alternately, so that a process that dies while it writes leaves one of them
    // whole: this one if `updates` is odd.
    std::atomic<uint64_t> updates;
    std::atomic<uint64_t> odd_input, odd_cached, odd_output;
    std::atomic<int64_t> odd_cost_micro_usd;
  };
  static_assert(sizeof(Slot) == 256, "part of the file's format");
  struct FrameHead {
    uint32_t size;
    uint32_t crc;
    uint64_t n;
  };
  static constexpr uint64_t kMagic = 0x3174656a64697467;
  static constexpr uint32_t kVersion = 1;
  static constexpr size_t kHeaderBytes = 4096;
  static constexpr size_t Framed(size_t payload) { return (sizeof(FrameHead) + payload + 7) & ~size_t{7}; }
  static constexpr size_t kCloseRoom = (sizeof(FrameHead) + kMaxClosePayload + 7) & ~size_t{7};

  ShardJournal(const JournalLayout& layout, const std::atomic<bool>* healthy);
  absl::Status Map(int file, const std::string& path);
  void AddFreeSlots();
  void TakeSlots();
  void FreeHeldSlots();
  char* At(uint64_t position) const { return ring_ + (position & ring_mask_); }
  bool HasRoom(size_t bytes, size_t reserved_for);
  uint64_t Commit(size_t payload);
  void CloseSlot(uint32_t slot, uint64_t n, const CloseRecord& record);
  CloseRecord InterruptedNow(uint32_t slot, std::string* replica) const;

  const JournalLayout layout_;
  const uint64_t ring_mask_;
  const std::atomic<bool>* healthy_;
  const size_t head_bytes_;
  Header* header_ = nullptr;
  Slot* slots_ = nullptr;
  char* ring_ = nullptr;
  uint64_t returned_ = 0;  // only for the consumer: released records whose memory was returned
  // Only for the producer.
  uint64_t write_ = 0;
  uint64_t consumed_seen_ = 0;
  uint64_t next_n_ = 0;
  std::vector<uint32_t> free_slots_;
  std::vector<uint32_t> held_slots_;  // slots of an earlier process, until its records are released
  uint64_t held_until_ = 0;           // the end of its records
  std::atomic<uint32_t> open_requests_{0};
  std::atomic<uint64_t> refused_opens_{0};
  std::atomic<uint64_t> dropped_records_{0};
};

template <class Visit>
void ShardJournal::Drain(uint64_t* cursor, Visit&& visit) {
  const uint64_t end = header_->committed.load(std::memory_order_acquire);
  while (*cursor < end) {
    FrameHead head;
    __builtin_memcpy(&head, At(*cursor), sizeof head);
    const bool more = visit(head.n, std::string_view(At(*cursor) + sizeof head, head.size));
    *cursor += Framed(head.size);
    if (!more) return;
  }
}

template <class Visit>
void ShardJournal::ForEachOpen(Visit&& visit) const {
  std::string replica;
  for (uint32_t slot = 0; slot < layout_.slots; ++slot) {
    const uint64_t n = slots_[slot].open_n.load(std::memory_order_acquire);
    if (n == 0) continue;
    const CloseRecord so_far = InterruptedNow(slot, &replica);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (slots_[slot].open_n.load(std::memory_order_relaxed) == n) visit(n, so_far);
  }
}

// The content of a journal whose process is gone.
struct JournalImage {
  struct Frame {
    uint64_t n = 0;
    std::string payload;
  };
  struct OpenSlot {
    uint64_t open_n = 0;
    Counts counts;
    std::string replica;
  };
  uint32_t shard = 0;
  uint64_t last_n = 0;            // the highest number that the file knows
  std::vector<Frame> frames;      // in order; some may be in a segment already
  std::vector<OpenSlot> slots;    // of requests that were open or closing
  uint64_t unreadable_bytes = 0;  // of frames that a power loss destroyed
};

// DataLoss if the file is not a journal. A file that is cut or overwritten never crashes the reader.
absl::StatusOr<JournalImage> ReadJournal(const std::string& path);

}  // namespace gateway::ledger
