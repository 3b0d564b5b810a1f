// Standard errors by resampling, as the evaluation harness draws.
#pragma once

#include <functional>

#include "lithe/eval/zero_shot.h"

namespace lithe {

constexpr int64_t kResamples = 100000, kCorpusResamples = 100;  // of perplexity, f1, mcc; of BLEU, chrF, TER

/// A metric of n documents, with the standard deviation of `resamples` draws of n documents with replacement, where
/// there are two or more: a thousand draws of each of Python's generators with seeds 0, 1, ... `statistic` of numbers
/// of documents runs on several threads.
ZeroShotMetric bootstrapped(const std::string& name, size_t n, int64_t resamples,
                            const std::function<double(const std::vector<size_t>& drawn)>& statistic);

}  // namespace lithe
