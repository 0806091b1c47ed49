#include "shade/data/records.h"

#include "shade/base/error.h"
#include "shade/io/errors.h"

namespace shade::data {
namespace {

// What `work` says is wrong with a row, with its place.
template <class Work>
auto at_row(const TextFile& file, const Row& row, const Work& work) {
  try {
    return work();
  } catch (const io::FormatError& fault) {
    throw io::FormatError(text(place_in(file, row.line), ": ", fault.what()));
  } catch (const UsageError& fault) {
    throw UsageError(text(place_in(file, row.line), ": ", fault.what()));
  }
}

}  // namespace

bool Records::read(const TextFile& file, const Visitor& visitor) {
  if (!fields_) {
    const auto rows = open_rows(file, options_.unit, std::vector<std::string>{});
    const auto* const first = rows->next();
    if (first == nullptr) return true;
    at_row(file, *first, [&] { fields_.emplace(options_.fields, *first); });
  }
  const auto rows = open_rows(file, options_.unit, fields_->names());
  while (auto* const row = rows->next())
    if (!visitor(at_row(file, *row, [&] { return fields_->record(*row, options_.chat_template); }), rows->position()))
      return false;
  return true;
}

}  // namespace shade::data
