#include "gateway/audit/focus.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "conf/json_dump.h"
#include "conf/shown.h"
#include "conf/time.h"
#include "gateway/ledger/export.h"
#include "gateway/ledger/record.h"

namespace gateway {
namespace {

using ledger::UsageBy;
using ledger::UsageRow;

constexpr std::array<std::string_view, 57> kColumns = {"AvailabilityZone",
                                                       "BilledCost",
                                                       "BillingAccountId",
                                                       "BillingAccountName",
                                                       "BillingAccountType",
                                                       "BillingCurrency",
                                                       "BillingPeriodEnd",
                                                       "BillingPeriodStart",
                                                       "CapacityReservationId",
                                                       "CapacityReservationStatus",
                                                       "ChargeCategory",
                                                       "ChargeClass",
                                                       "ChargeDescription",
                                                       "ChargeFrequency",
                                                       "ChargePeriodEnd",
                                                       "ChargePeriodStart",
                                                       "CommitmentDiscountCategory",
                                                       "CommitmentDiscountId",
                                                       "CommitmentDiscountName",
                                                       "CommitmentDiscountQuantity",
                                                       "CommitmentDiscountStatus",
                                                       "CommitmentDiscountType",
                                                       "CommitmentDiscountUnit",
                                                       "ConsumedQuantity",
                                                       "ConsumedUnit",
                                                       "ContractedCost",
                                                       "ContractedUnitPrice",
                                                       "EffectiveCost",
                                                       "InvoiceId",
                                                       "InvoiceIssuerName",
                                                       "ListCost",
                                                       "ListUnitPrice",
                                                       "PricingCategory",
                                                       "PricingCurrency",
                                                       "PricingCurrencyContractedUnitPrice",
                                                       "PricingCurrencyEffectiveCost",
                                                       "PricingCurrencyListUnitPrice",
                                                       "PricingQuantity",
                                                       "PricingUnit",
                                                       "ProviderName",
                                                       "PublisherName",
                                                       "RegionId",
                                                       "RegionName",
                                                       "ResourceId",
                                                       "ResourceName",
                                                       "ResourceType",
                                                       "ServiceCategory",
                                                       "ServiceName",
                                                       "ServiceSubcategory",
                                                       "SkuId",
                                                       "SkuMeter",
                                                       "SkuPriceDetails",
                                                       "SkuPriceId",
                                                       "SubAccountId",
                                                       "SubAccountName",
                                                       "SubAccountType",
                                                       "Tags"};

using Cells = std::map<std::string_view, std::string>;

// FOCUS writes times as 2027-01-31T00:00:00Z.
std::string Time(conf::TimePoint at) {
  return conf::FormatTime(at).substr(0, 19) + "Z";
}

// The months of UTC are the billing periods.
std::string MonthBegin(std::string_view hour, int later) {
  int year = std::stoi(std::string(hour.substr(0, 4)));
  int month = std::stoi(std::string(hour.substr(5, 2))) + later;
  if (month > 12) {
    month = 1;
    ++year;
  }
  return fmt::format("{:04}-{:02}-01T00:00:00Z", year, month);
}

// The cells that all rows of one use share.
Cells Common(const UsageRow& row) {
  const std::string& hour = row.group[0];
  const std::string& tenant = row.group[1];
  const std::string& key = row.group[2];
  const std::string& model = row.group[3];
  const std::string& job = row.group[4];
  const std::string account = tenant.substr(0, tenant.find('/'));
  const conf::TimePoint begin = conf::ParseTime(hour).value_or(conf::TimePoint());
  nlohmann::ordered_json tags = nlohmann::ordered_json::object();
  if (!key.empty()) tags["tidegate/key"] = key;
  if (!model.empty()) tags["tidegate/model"] = model;
  if (!job.empty()) tags["tidegate/job"] = job;
  return {{"BillingAccountId", account},
          {"BillingAccountName", account},
          {"BillingAccountType", "Tenant"},
          {"BillingCurrency", "USD"},
          {"BillingPeriodEnd", MonthBegin(hour, 1)},
          {"BillingPeriodStart", MonthBegin(hour, 0)},
          {"ChargeCategory", "Usage"},
          {"ChargeFrequency", "Usage-Based"},
          {"ChargePeriodEnd", Time(conf::FromUnixMicros(conf::ToUnixMicros(begin) + ledger::kHourUs))},
          {"ChargePeriodStart", Time(begin)},
          {"InvoiceIssuerName", "Tidegate"},
          {"PricingCategory", "Standard"},
          {"PricingCurrency", "USD"},
          {"ProviderName", "Tidegate"},
          {"PublisherName", "Tidegate"},
          {"ResourceId", job.empty() ? model : job},
          {"ResourceName", job.empty() ? model : job},
          {"ResourceType", job.empty() ? "Model" : "Job"},
          {"ServiceCategory", "AI and Machine Learning"},
          {"SubAccountId", tenant},
          {"SubAccountName", tenant},
          {"SubAccountType", "Tenant"},
          {"Tags", conf::DumpJson(tags)}};
}

void SetCost(Cells& cells, int64_t micro_usd) {
  const std::string cost = fmt::format("{}.{:06}", micro_usd / 1'000'000, micro_usd % 1'000'000);
  for (const std::string_view column :
       {"BilledCost", "ContractedCost", "EffectiveCost", "ListCost", "PricingCurrencyEffectiveCost"})
    cells[column] = cost;
}

void SetQuantity(Cells& cells, const std::string& quantity, const std::string& unit) {
  cells["ConsumedQuantity"] = cells["PricingQuantity"] = quantity;
  cells["ConsumedUnit"] = cells["PricingUnit"] = unit;
}

std::string Counted(int64_t count, std::string_view noun) {
  return conf::Counted(static_cast<uint64_t>(count), noun);
}

void AppendRow(const Cells& cells, std::string& out) {
  for (size_t i = 0; i < kColumns.size(); ++i) {
    if (i > 0) out += ',';
    const auto cell = cells.find(kColumns[i]);
    if (cell != cells.end() && !cell->second.empty()) ledger::AppendCsvField(&out, cell->second);
  }
  out += "\r\n";
}

}  // namespace

std::vector<UsageBy> FocusGroups() {
  return {UsageBy::kHour, UsageBy::kTenant, UsageBy::kKey, UsageBy::kModel, UsageBy::kJob};
}

std::string FocusCsv(const std::vector<UsageRow>& rows) {
  std::string out = fmt::format("{}\r\n", fmt::join(kColumns, ","));
  for (const UsageRow& row : rows) {
    // What nobody pays for is no charge.
    if (row.group[1].empty() || row.group[1] == ledger::kIdle) continue;
    const Cells common = Common(row);
    if (row.input + row.output > 0 || row.cost_micro_usd > 0) {
      Cells cells = common;
      SetCost(cells, row.cost_micro_usd);
      // Images and audio are priced without tokens: a charge needs a quantity that is not 0.
      const bool counts_tokens = row.input + row.output > 0;
      SetQuantity(cells, std::to_string(counts_tokens ? row.input + row.output : row.requests),
                  counts_tokens ? "Tokens" : "Requests");
      cells["ChargeDescription"] =
          fmt::format("{}: {}, {} ({} of them cached), {}", row.group[3], Counted(row.requests, "request"),
                      Counted(row.input, "input token"), row.cached, Counted(row.output, "output token"));
      cells["ServiceName"] = "Tidegate model serving";
      cells["ServiceSubcategory"] = "Generative AI";
      // The model's prices are the price list.
      cells["SkuId"] = cells["SkuPriceId"] = row.group[3];
      cells["SkuMeter"] = counts_tokens ? "Tokens" : "Requests";
      AppendRow(cells, out);
    }
    for (const auto& [kind, us] : row.device_us) {
      Cells cells = common;
      SetCost(cells, 0);
      // Millionths of an hour, rounded to the nearest.
      const int64_t micro_hours = (us + 1800) / 3600;
      SetQuantity(cells, fmt::format("{}.{:06}", micro_hours / 1'000'000, micro_hours % 1'000'000), "Hours");
      cells["ChargeDescription"] = fmt::format("Device time of {}", kind);
      cells["ServiceName"] = "Tidegate devices";
      cells["ServiceSubcategory"] = "Other (AI and Machine Learning)";
      cells["SkuId"] = cells["SkuPriceId"] = kind;
      cells["SkuMeter"] = "Device hours";
      AppendRow(cells, out);
    }
  }
  return out;
}

}  // namespace gateway
