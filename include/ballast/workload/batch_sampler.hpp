// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_WORKLOAD_BATCH_SAMPLER_HPP
#define BALLAST_WORKLOAD_BATCH_SAMPLER_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/detail/span_of.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/workload/sample_batch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

/// What unmodified data loaders read in each training step: the situation before balancing.
///
/// The trace is shuffled, steps take consecutive samples from it, and each step's samples are dealt
/// to the GPUs in contiguous blocks. The last step of a pass takes what is left, and the next one
/// begins with the trace shuffled again: no sample is in a pass twice.
///
/// Expects     a trace with at least one length; 1 <= gpus and batch < 2^32. A batch may be larger
///             than the trace, which is a step then, or smaller than the number of GPUs.
/// Ensures     (1) the samples of the steps of a pass, ceil(trace / batch) of them, are a
///                 permutation of the trace: nothing is dropped, and nothing is there twice
///             (2) a step has `batch` samples, or all that are left of its pass where these are
///                 fewer; of n, GPU r has floor(n / gpus), one more if r < n mod gpus, and sources
///                 are non-decreasing
///             (3) equal arguments give equal steps on every machine
///             (4) out.rows says which row of the trace each sample is, so that a trainer knows
///                 what to read, and can look up more about the sample than its length
///             (5) next_into(out) allocates nothing where `out` has held a step as long
/// Complexity  next: O(batch), plus O(trace) for each new pass.
class batch_sampler {
 public:
  batch_sampler(std::vector<tokens> trace, std::size_t batch, std::size_t gpus, std::uint64_t seed)
      : trace_(std::move(trace)), batch_(batch), gpus_(gpus), at_(trace_.size()), random_(seed)
  {
    BALLAST_EXPECTS(trace_.size() < (std::uint64_t{1} << 32), "the trace has ", trace_.size(),
                    " samples, and there can be fewer than 2^32");
    order_.resize(trace_.size());
    std::iota(order_.begin(), order_.end(), std::uint32_t{0});
    BALLAST_EXPECTS(!trace_.empty(), "the trace has no samples");
    BALLAST_EXPECTS(gpus_ >= 1 && gpus_ < (std::uint64_t{1} << 32), "steps were asked for over ",
                    gpus_, " GPUs, which is not from 1 to 2^32 - 1");
    BALLAST_EXPECTS(batch_ < (std::uint64_t{1} << 32), "steps were asked for of ", batch_,
                    " samples, and there can be fewer than 2^32");
  }

  /// Steps that take the samples as they stand in the trace, pass after pass.
  [[nodiscard]] static batch_sampler in_order(std::vector<tokens> trace, std::size_t batch,
                                              std::size_t gpus)
  {
    batch_sampler sampler(std::move(trace), batch, gpus, 0);
    sampler.shuffles_ = false;
    return sampler;
  }

  /// The samples of the next step, in place of what `out` held.
  void next_into(sample_batch& out)
  {
    if (at_ == order_.size()) {
      if (shuffles_) { random_.shuffle(detail::mutable_span_of(order_)); }
      at_ = 0;
    }
    std::size_t const samples = std::min(batch_, order_.size() - at_);
    out.lengths.resize(samples);
    out.rows.resize(samples);
    for (std::size_t sample = 0; sample < samples; ++sample) {
      out.rows[sample] = order_[at_++];
      out.lengths[sample] = trace_[out.rows[sample]];
    }

    out.source.clear();
    for (std::size_t gpu = 0; gpu < gpus_; ++gpu) {
      std::size_t const own = samples / gpus_ + (gpu < samples % gpus_ ? 1 : 0);
      out.source.resize(out.source.size() + own, to_id<rank_id>(gpu));
    }
  }

  [[nodiscard]] sample_batch next()
  {
    sample_batch out;
    next_into(out);
    return out;
  }

 private:
  std::vector<tokens> trace_;
  std::vector<std::uint32_t> order_;  // rows as this pass reads them
  std::size_t batch_;
  std::size_t gpus_;
  std::size_t at_;
  random_source random_;
  bool shuffles_ = true;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_WORKLOAD_BATCH_SAMPLER_HPP
