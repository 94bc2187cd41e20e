#include "tools/engine/handover.h"

#include "conf/words.h"

namespace tidegate_engine {

HandoverRequest ReadHandover(const Fields& fields) {
  HandoverRequest out;
  if (auto params = fields.Object("kv_transfer_params")) {
    out.for_other = params->Bool("do_remote_decode", false);
    out.from_other = params->Bool("do_remote_prefill", false);
    out.engine = params->String("remote_engine_id").value_or("");
    out.host = params->String("remote_host").value_or("");
    out.port = params->Uint("remote_port", 1).value_or(0);
    if (auto ids = params->Get("remote_block_ids")) {
      simdjson::dom::array list;
      uint64_t first = 0;
      if (ids->get(list) == simdjson::SUCCESS && list.size() > 0) {
        out.blocks = (*list.begin()).get(first) == simdjson::SUCCESS;
        out.first_block = first;
      }
    }
  }
  if (auto room = fields.Get("bootstrap_room")) {
    uint64_t value = 0;
    if (room->get(value) == simdjson::SUCCESS) {
      out.room = value;
    } else {
      fields.Fail("bootstrap_room", "bootstrap_room must be an integer of at least 0.");
    }
    out.host = fields.String("bootstrap_host").value_or("");
    out.port = fields.Uint("bootstrap_port", 1).value_or(0);
  }
  return out;
}

uint64_t Held::Hold(uint32_t tokens, uint32_t blocks, conf::TimePoint until) {
  if (held_.size() == kMaxHeld) {
    held_.erase(held_.begin());
    ++expired_;
  }
  const uint64_t first = next_block_;
  next_block_ += std::max<uint32_t>(blocks, 1);
  held_.emplace(first, Prompt{tokens, until});
  return first;
}

std::optional<uint32_t> Held::Take(uint64_t first_block, conf::TimePoint now) {
  while (!held_.empty() && held_.begin()->second.until <= now) {
    held_.erase(held_.begin());
    ++expired_;
  }
  const auto found = held_.find(first_block);
  if (found == held_.end()) return std::nullopt;
  const uint32_t tokens = found->second.tokens;
  held_.erase(found);
  return tokens;
}

constexpr conf::Word<Role> kRoles[] = {
    {"prefill", Role::kPrefill}, {"decode", Role::kDecode}, {"both", Role::kBoth}};

std::string_view RoleName(Role role) {
  return conf::WordOf(kRoles, role);
}

}  // namespace tidegate_engine
