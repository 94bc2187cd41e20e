#include "router/prefix/index.h"

#include <algorithm>
#include <memory>

namespace router::prefix {
namespace {

constexpr conf::Duration kTick = std::chrono::milliseconds(100);
constexpr uint32_t kSampled = 8;  // blocks whose oldest entry is evicted

// Wraps after 13 years; differences do not.
uint32_t Ticks(conf::TimePoint t) {
  return static_cast<uint32_t>(t.time_since_epoch() / kTick);
}

size_t Place(MemberId member) {
  return static_cast<size_t>(member);
}

}  // namespace

Index::Index(const IndexOptions& options)
    : predicted_ticks_(static_cast<uint32_t>(options.predicted_for / kTick)),
      shards_(std::make_unique<Shard[]>(kShards)),
      max_members_(std::clamp(options.max_members, 1u, 65'535u)),
      members_(std::allocator<Member>().allocate(max_members_)) {
  const size_t fixed = kShards * sizeof(Shard) + max_members_ * (sizeof(Member) + sizeof(MemberId));
  const size_t share = options.max_bytes > fixed ? (options.max_bytes - fixed) / kShards : 0;
  auto entries = static_cast<uint32_t>(std::min<size_t>(share / Table::kBytesPerEntry, UINT32_MAX / 2));
  while (entries > 1 && Table::BytesFor(entries) > share) --entries;
  entries = std::max(entries, 1u);
  for (Shard& shard : std::span(shards_.get(), kShards)) {
    const std::lock_guard lock(shard.mutex);
    shard.table.Reserve(entries);
  }
  bytes_ = fixed + kShards * Table::BytesFor(entries);
  const std::lock_guard lock(joining_);
  free_.reserve(max_members_);
}

Index::~Index() {
  std::destroy_n(members_, used_);
  std::allocator<Member>().deallocate(members_, max_members_);
}

std::optional<MemberId> Index::Join(uint32_t capacity_blocks) {
  const std::lock_guard lock(joining_);
  MemberId id{};
  if (!free_.empty()) {
    id = free_.back();
    free_.pop_back();
  } else if (used_ < max_members_) {
    std::construct_at(members_ + used_);
    id = static_cast<MemberId>(used_++);
  } else {
    return std::nullopt;
  }
  Member& member = members_[Place(id)];
  member.capacity.store(capacity_blocks, std::memory_order_relaxed);
  member.reporting.store(false, std::memory_order_relaxed);
  member.joined.store(true, std::memory_order_relaxed);
  return id;
}

void Index::SetCapacity(MemberId id, uint32_t capacity_blocks) {
  Member& member = members_[Place(id)];
  if (member.capacity.exchange(capacity_blocks, std::memory_order_relaxed) > capacity_blocks) Trim(member);
}

void Index::Leave(MemberId id) {
  Clear(id);
  members_[Place(id)].joined.store(false, std::memory_order_relaxed);
  const std::lock_guard lock(joining_);
  free_.push_back(id);
}

void Index::Clear(MemberId id) {
  Member& member = members_[Place(id)];
  const std::lock_guard lock(member.turning);
  const uint32_t next = member.newest.load(std::memory_order_relaxed) + 1;
  for (std::atomic<int32_t>& count : member.counts) count.store(0, std::memory_order_relaxed);
  member.newest.store(next, std::memory_order_relaxed);
  member.oldest.store(next, std::memory_order_relaxed);
  member.reported_since.store(next, std::memory_order_relaxed);
  member.began.store(next, std::memory_order_relaxed);
  member.in_use.store(0, std::memory_order_relaxed);
}

void Index::DistrustReports(MemberId id) {
  Member& member = members_[Place(id)];
  const std::lock_guard lock(member.turning);
  member.reported_since.store(Advance(member), std::memory_order_relaxed);
}

void Index::SetReporting(MemberId id, bool reporting) {
  members_[Place(id)].reporting.store(reporting, std::memory_order_relaxed);
}

bool Index::reporting(MemberId id) const {
  return members_[Place(id)].reporting.load(std::memory_order_relaxed);
}

bool Index::IsReported(const Entry& entry, const Member& member) {
  return entry.reported && entry.generation >= member.reported_since.load(std::memory_order_relaxed);
}

bool Index::InUse(const Entry& entry, const Member& member) {
  return entry.users > 0 && entry.generation >= member.began.load(std::memory_order_relaxed);
}

bool Index::Live(const Entry& entry, uint32_t now) const {
  const Member& member = members_[entry.member];
  if (IsReported(entry, member) && member.reporting.load(std::memory_order_relaxed)) return true;
  if (InUse(entry, member)) return true;
  if (!entry.predicted) return entry.generation >= member.oldest.load(std::memory_order_relaxed);
  return entry.generation >= member.began.load(std::memory_order_relaxed) &&
         static_cast<int32_t>(now - entry.used_at) < static_cast<int32_t>(predicted_ticks_);
}

// Begins a generation. Needs the member's lock.
uint32_t Index::Advance(Member& member) {
  const uint32_t next = member.newest.load(std::memory_order_relaxed) + 1;
  if (next - member.oldest.load(std::memory_order_relaxed) >= kGenerations) {
    member.oldest.store(next - kGenerations + 1, std::memory_order_relaxed);
  }
  member.counts[next % kGenerations].store(0, std::memory_order_relaxed);
  member.fresh.store(0, std::memory_order_relaxed);
  member.newest.store(next, std::memory_order_relaxed);
  return next;
}

// The generation for a prompt's blocks: a new one when the newest has got its share of the capacity in new
// blocks. Blocks that are only used again begin no generation, because they evict nothing.
uint32_t Index::Dispatch(Member& member) {
  const uint32_t share = std::max(1u, member.capacity.load(std::memory_order_relaxed) / kShare);
  const uint32_t newest = member.newest.load(std::memory_order_relaxed);
  if (member.fresh.load(std::memory_order_relaxed) < share) return newest;
  const std::lock_guard lock(member.turning);
  const uint32_t next = member.newest.load(std::memory_order_relaxed) + 1;
  if (next != newest + 1) return next - 1;  // another shard has just begun it
  return Advance(member);
}

// The number of a member's live entries.
int64_t Index::Count(const Member& member) {
  int64_t sum = member.in_use.load(std::memory_order_relaxed);
  const uint32_t newest = member.newest.load(std::memory_order_relaxed);
  for (uint32_t g = member.oldest.load(std::memory_order_relaxed); g <= newest; ++g) {
    sum += member.counts[g % kGenerations].load(std::memory_order_relaxed);
  }
  return sum;
}

// Drops the oldest generations until the rest fits.
void Index::Trim(Member& member) {
  const auto capacity = static_cast<int64_t>(member.capacity.load(std::memory_order_relaxed));
  if (Count(member) <= capacity) return;
  const std::lock_guard lock(member.turning);
  while (member.oldest.load(std::memory_order_relaxed) < member.newest.load(std::memory_order_relaxed) &&
         Count(member) > capacity) {
    member.oldest.fetch_add(1, std::memory_order_relaxed);
  }
}

void Index::Predict(std::span<const uint64_t> blocks, MemberId member, conf::TimePoint now) {
  Use(blocks, member, Source::kPredicted, now);
}

void Index::Confirm(std::span<const uint64_t> blocks, MemberId member, conf::TimePoint now) {
  Use(blocks, member, Source::kConfirmed, now);
}

void Index::Hold(std::span<const uint64_t> blocks, MemberId member, conf::TimePoint now) {
  Use(blocks, member, Source::kHeld, now);
}

// A block without users becomes the most recently used. A block that is not known stays unknown: the replica
// may have restarted meanwhile.
void Index::Release(std::span<const uint64_t> blocks, MemberId id, uint32_t written) {
  Member& member = members_[Place(id)];
  if (blocks.empty() || !member.joined.load(std::memory_order_relaxed)) return;
  const uint32_t newest = Dispatch(member);
  auto idle = static_cast<int32_t>(written);
  for (const uint64_t block : blocks) {
    Shard& shard = shards_[block % kShards];
    const std::lock_guard lock(shard.mutex);
    for (uint32_t at = shard.table.Head(block); at != 0; at = shard.table[at].next) {
      Entry& entry = shard.table[at];
      if (entry.member != static_cast<uint16_t>(id)) continue;
      if (!InUse(entry, member)) break;
      if (--entry.users > 0) break;
      member.in_use.fetch_sub(1, std::memory_order_relaxed);
      entry.reported = IsReported(entry, member);
      entry.generation = newest;
      ++idle;
      break;
    }
  }
  member.counts[newest % kGenerations].fetch_add(idle, std::memory_order_relaxed);
  member.fresh.fetch_add(written, std::memory_order_relaxed);
  Trim(member);
}

void Index::AddReported(uint64_t block, MemberId member, conf::TimePoint now) {
  Use({&block, 1}, member, Source::kReported, now);
}

void Index::Remove(uint64_t block, MemberId id) {
  Shard& shard = shards_[block % kShards];
  const std::lock_guard lock(shard.mutex);
  shard.table.Remove(block, [&](const Entry& entry) {
    if (entry.member != static_cast<uint16_t>(id)) return false;
    Forget(entry);
    return true;
  });
}

bool Index::IsReported(uint64_t block, MemberId id) const {
  const Shard& shard = shards_[block % kShards];
  const std::lock_guard lock(shard.mutex);
  for (uint32_t at = shard.table.Head(block); at != 0; at = shard.table[at].next) {
    const Entry& entry = shard.table[at];
    if (entry.member == static_cast<uint16_t>(id)) return IsReported(entry, members_[Place(id)]);
  }
  return false;
}

// Takes an entry that is about to be dropped out of its member's count.
void Index::Forget(const Entry& entry) {
  Member& member = members_[entry.member];
  if (entry.predicted) return;
  if (InUse(entry, member)) {
    member.in_use.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  if (entry.generation < member.oldest.load(std::memory_order_relaxed)) return;
  member.counts[entry.generation % kGenerations].fetch_sub(1, std::memory_order_relaxed);
}

// Frees one entry: a dead one, or else the oldest of the next few in the table.
void Index::MakeRoom(Shard& shard, uint32_t now) {
  Table& table = shard.table;
  uint64_t block = 0;
  uint32_t oldest = 0;
  bool dead = false;
  table.Round(kSampled, [&](uint64_t held, uint32_t head) {
    for (uint32_t at = head; at != 0 && !dead; at = table[at].next) {
      const bool older = oldest == 0 || static_cast<int32_t>(table[at].used_at - table[oldest].used_at) < 0;
      dead = !Live(table[at], now);
      if (!dead && !older) continue;
      oldest = at;
      block = held;
    }
  });
  const Entry* const victim = &table[oldest];
  Forget(*victim);
  table.Remove(block, [&](const Entry& entry) { return &entry == victim; });
  if (!dead) ++shard.displaced;
}

// Records that the member of `fresh` holds the block, in the generation of `fresh`.
Index::Used Index::UseBlock(Shard& shard, uint64_t block, const Entry& fresh) {
  Table& table = shard.table;
  uint32_t live = 0;
  uint32_t stalest = 0;
  bool dead = false;
  for (uint32_t at = table.Head(block); at != 0; at = table[at].next) {
    Entry& entry = table[at];
    if (!Live(entry, fresh.used_at)) {
      dead = true;
      continue;
    }
    if (entry.member == fresh.member) {
      Member& member = members_[entry.member];
      entry.reported = IsReported(entry, member) || fresh.reported;
      const bool computed = entry.predicted && !fresh.predicted;
      const bool in_use = InUse(entry, member);
      const bool held = in_use || fresh.users > 0;
      const bool moved = !in_use && (held || entry.generation != fresh.generation);
      if (moved) Forget(entry);
      entry.users = in_use ? static_cast<uint8_t>(std::min(entry.users + fresh.users, 255)) : fresh.users;
      entry.generation = fresh.generation;
      entry.used_at = fresh.used_at;
      entry.predicted = entry.predicted && fresh.predicted;
      if (computed) return Used::kNew;
      return moved && !entry.predicted ? Used::kMoved : Used::kAgain;
    }
    ++live;
    if (stalest == 0 || static_cast<int32_t>(entry.used_at - table[stalest].used_at) < 0) stalest = at;
  }
  uint32_t entry = stalest;
  if (live < kMaxHolders) {
    if (dead) {
      table.Remove(block, [&](const Entry& e) {
        if (Live(e, fresh.used_at)) return false;
        Forget(e);
        return true;
      });
    }
    if (table.full()) MakeRoom(shard, fresh.used_at);
    entry = table.Add(block);
  } else {
    Forget(table[entry]);
  }
  const uint32_t next = table[entry].next;
  table[entry] = fresh;
  table[entry].next = next;
  return Used::kNew;
}

void Index::Use(std::span<const uint64_t> blocks, MemberId id, Source source, conf::TimePoint now) {
  Member& member = members_[Place(id)];
  if (blocks.empty() || !member.joined.load(std::memory_order_relaxed)) return;
  const Entry fresh{.generation = Dispatch(member),
                    .used_at = Ticks(now),
                    .member = static_cast<uint16_t>(id),
                    .users = source == Source::kHeld ? uint8_t{1} : uint8_t{0},
                    .predicted = source == Source::kPredicted,
                    .reported = source == Source::kReported};
  int32_t added = 0;
  uint32_t unknown = 0;
  for (const uint64_t block : blocks) {
    Shard& shard = shards_[block % kShards];
    const std::lock_guard lock(shard.mutex);
    const Used used = UseBlock(shard, block, fresh);
    if (fresh.predicted && used == Used::kNew) continue;
    if (used != Used::kAgain) ++added;
    if (used == Used::kNew) ++unknown;
  }
  (fresh.users > 0 ? member.in_use : member.counts[fresh.generation % kGenerations])
      .fetch_add(added, std::memory_order_relaxed);
  member.fresh.fetch_add(unknown, std::memory_order_relaxed);
  Trim(member);
}

uint32_t Index::Probe(uint64_t block, uint32_t now, std::span<MemberId, kMaxHolders> out) const {
  const Shard& shard = shards_[block % kShards];
  const std::lock_guard lock(shard.mutex);
  uint32_t count = 0;
  for (uint32_t at = shard.table.Head(block); at != 0 && count < kMaxHolders; at = shard.table[at].next) {
    if (Live(shard.table[at], now)) out[count++] = static_cast<MemberId>(shard.table[at].member);
  }
  return count;
}

size_t Index::Find(std::span<const uint64_t> blocks, conf::TimePoint now, std::span<Holder> out) const {
  struct Length {
    size_t blocks;
    uint32_t holders;
  };
  const uint32_t ticks = Ticks(now);
  std::array<MemberId, kMaxHolders> found;
  std::array<Length, 64> seen;  // probed lengths on the way up, where later rounds begin
  size_t seen_count = 0;
  size_t known = 0;
  // Advice down from the end, each bisection finds the longest prefix that more replicas hold than the last
  // one.
  size_t below = blocks.size() + 1;
  for (uint32_t rounds = 0; rounds < kMaxHolders && known < out.size() && below > 1; ++rounds) {
    while (seen_count > 0 &&
           (seen[seen_count - 1].holders <= known || seen[seen_count - 1].blocks >= below)) {
      --seen_count;
    }
    size_t held = seen_count > 0 ? seen[seen_count - 1].blocks : 0;
    for (size_t low = held + 1, high = below - 1; low <= high;) {
      const size_t middle = low + (high - low) / 2;
      const uint32_t count = Probe(blocks[middle - 1], ticks, found);
      if (count <= known) {
        high = middle - 1;
        continue;
      }
      held = middle;
      low = middle + 1;
      if (seen_count < seen.size()) seen[seen_count++] = {middle, count};
    }
    if (held == 0) break;
    const uint32_t holders = Probe(blocks[held - 1], ticks, found);
    for (uint32_t i = 0; i < holders && known < out.size(); ++i) {
      const auto same = [&](const Holder& h) { return h.member == found[i]; };
      if (std::any_of(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(known), same)) continue;
      out[known++] = Holder{found[i], static_cast<uint32_t>(held)};
    }
    below = held;
  }
  return known;
}

IndexStats Index::stats() const {
  IndexStats stats{.bytes = bytes_};
  for (const Shard& shard : std::span(shards_.get(), kShards)) {
    const std::lock_guard lock(shard.mutex);
    stats.capacity += shard.table.capacity();
    stats.entries += shard.table.size();
    stats.displaced += shard.displaced;
  }
  const std::lock_guard lock(joining_);
  stats.members = used_ - static_cast<uint32_t>(free_.size());
  return stats;
}

uint32_t Index::BlocksOf(MemberId id) const {
  return static_cast<uint32_t>(std::max<int64_t>(0, Count(members_[Place(id)])));
}

}  // namespace router::prefix
