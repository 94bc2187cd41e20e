// A library with ROCm SMI's functions that Tidegate reads: two GPUs, on the PCI bus at 0000:c1:00.0 and 0001:c1:00.0. The
// second one answers nothing but its address, as a virtual function may.
#include <cstdint>

namespace {

constexpr uint32_t kSuccess = 0;
constexpr uint32_t kNotSupported = 2;

uint32_t Give(uint32_t card, uint64_t* out, uint64_t value) {
  if (card != 0) return kNotSupported;
  *out = value;
  return kSuccess;
}

}  // namespace

extern "C" {

struct FakeErrorCount {
  uint64_t correctable, uncorrectable;
};

uint32_t rsmi_init(uint64_t) {
  return kSuccess;
}
uint32_t rsmi_shut_down() {
  return kSuccess;
}
uint32_t rsmi_num_monitor_devices(uint32_t* count) {
  *count = 2;
  return kSuccess;
}
uint32_t rsmi_dev_unique_id_get(uint32_t card, uint64_t* id) {
  return Give(card, id, 0x9246'0000'0000'0001);
}
uint32_t rsmi_dev_pci_id_get(uint32_t card, uint64_t* id) {
  *id = (uint64_t{card} << 32U) | (0xc1U << 8U);
  return kSuccess;
}
uint32_t rsmi_dev_busy_percent_get(uint32_t card, uint32_t* percent) {
  *percent = 87;
  return card == 0 ? kSuccess : kNotSupported;
}
uint32_t rsmi_dev_memory_usage_get(uint32_t card, uint32_t, uint64_t* bytes) {
  return Give(card, bytes, uint64_t{40} << 30U);
}
uint32_t rsmi_dev_memory_total_get(uint32_t card, uint32_t, uint64_t* bytes) {
  return Give(card, bytes, uint64_t{192} << 30U);
}
uint32_t rsmi_dev_power_ave_get(uint32_t card, uint32_t, uint64_t* microwatts) {
  return Give(card, microwatts, 540'000'000);
}
uint32_t rsmi_dev_power_cap_get(uint32_t card, uint32_t, uint64_t* microwatts) {
  return Give(card, microwatts, 750'000'000);
}
uint32_t rsmi_dev_temp_metric_get(uint32_t card, uint32_t, uint32_t, int64_t* thousandths) {
  *thousandths = 61'500;
  return card == 0 ? kSuccess : kNotSupported;
}
uint32_t rsmi_dev_energy_count_get(uint32_t card, uint64_t* counts, float* microjoules, uint64_t* at) {
  *microjoules = 15.25F;
  *at = 1;
  return Give(card, counts, 4'000'000);
}
uint32_t rsmi_dev_ecc_count_get(uint32_t card, uint64_t block, FakeErrorCount* errors) {
  *errors = {block, block == 1 ? 2U : 0U};
  return card == 0 ? kSuccess : kNotSupported;
}

}  // extern "C"
