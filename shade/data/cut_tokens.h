// What is lost where records are cut at the sequence length.
#pragma once

#include "shade/data/token_store.h"

namespace shade::data {

// Share of the tokens that lie beyond the first `seq_length` of their record. `frame`: tokens set around a record. Of
// more than 65536 records, of as many at even distances.
double share_cut(const TokenStore& store, int64_t seq_length, int64_t frame);

}  // namespace shade::data
