// What one step shows about one record: the pair of distributions that an observer has to tell apart, at worst.
//
// Poisson. The record joins with probability q and moves the sum by at most 1 (in clip norms): the step without the
// record is N(0, sigma^2), with it (1 - q) N(0, sigma^2) + q N(1, sigma^2). One branch.
//
// Truncated Poisson, at most B records kept in an order drawn without looking at them. Let T be the other records
// drawn. If |T| < B nothing is cut with or without the record: the Poisson branch. If |T| >= B the record, where drawn,
// either is cut (nothing changes) or takes the place of one other record: the sum moves by at most 2. So, T and the
// order being equally distributed on both sides, the pair given |T| >= B is no worse than N(0, sigma^2) against
// (1 - q) N(0, sigma^2) + q N(2, sigma^2). To tell the observer which of the two cases it is can only help it (joint
// convexity), and makes the step a branch drawn with a public probability. That probability, P(Bin(n, q) >= B) for the
// n records of the smaller data set, grows with n, and the second branch is the worse one: a bound on n is enough.
//
// Branches of a step add: in moments, and in distributions of the privacy loss. That is the bound both accountants
// use; it replaces Chua et al.'s (2024) delta + T (1 + e^epsilon) P(cut), which gives up all privacy of a cut step.
#pragma once

#include <vector>

#include "shade/accounting/event.h"

namespace shade::privacy {

struct Branch {
  double probability;  // of this branch; the branches of a step sum to 1
  double rate;         // with which the record joins
  double shift;        // how far it then moves the sum, in clip norms
};

// Throws UsageError for a sampler that no accountant supports.
std::vector<Branch> branches(const Mechanism& mechanism);

// P(Bin(trials, rate) >= least), to a relative 1e-9 or above it.
double binomial_tail(int64_t trials, double rate, int64_t least);

}  // namespace shade::privacy
