// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_PIPELINE_STEP_REPORT_HPP
#define BALLAST_RUNTIME_DETAIL_PIPELINE_STEP_REPORT_HPP

#include <ballast/comm/communicator.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/runtime/detail/pipeline/pipeline_job.hpp>
#include <ballast/runtime/detail/thrown_text.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// What the ranks tell each other at the end of a step: their losses, and whether a stage threw.
class step_report {
 public:
  void start(pipeline_job const& job, std::size_t positions)
  {
    positions_ = positions;
    losses_.assign(job.most_chunks() * positions, 0.0);
    threw_ = false;
  }

  void add_loss(std::size_t chunk, std::size_t position, double loss)
  {
    losses_[chunk * positions_ + position] += loss;
  }

  void threw(std::string const& text)
  {
    if (threw_) { return; }
    threw_ = true;
    text_ = told_text(text);
  }

  /// The sum of all losses, in the order of microbatches, then stages, then replicas: so it does
  /// not depend on the order of the step.
  ///
  /// Errors   failed: a stage threw; `ranks` are where.
  template <communicator C>
  [[nodiscard]] result<double> exchange(C& comm, pipeline_job const& job,
                                        std::span<microbatch_id const> order)
  {
    std::size_t const numbers = losses_.size() * sizeof(double);
    std::size_t const bytes = sizeof(text_) + numbers;
    auto const memory = comm.scratch(bytes * (comm.size() + 1));
    if (!threw_) { text_ = {}; }
    std::memcpy(memory.data(), &text_, sizeof(text_));
    if (numbers > 0) { std::memcpy(memory.data() + sizeof(text_), losses_.data(), numbers); }
    auto const all = memory.subspan(bytes, bytes * comm.size());
    if (auto done = comm.all_gather(memory.first(bytes), all); !done) {
      return tl::unexpected(done.error());
    }
    if (auto done = comm.wait(); !done) { return tl::unexpected(done.error()); }
    if (auto sound = told(all, bytes, comm.size()); !sound) {
      return tl::unexpected(sound.error());
    }

    by_microbatch_.resize(order.size());
    for (std::uint32_t at = 0; at < order.size(); ++at) { by_microbatch_[at] = at; }
    std::sort(by_microbatch_.begin(), by_microbatch_.end(),
              [&](std::uint32_t a, std::uint32_t b) { return order[a] < order[b]; });
    double sum = 0;
    for (std::uint32_t const position : by_microbatch_) {
      for (std::size_t each = 0; each < job.stages().stages(); ++each) {
        auto const stage = to_id<stage_id>(each);
        for (std::uint32_t data = 0; data < job.grid()[job.module_of(stage)].data; ++data) {
          double loss = 0;
          std::size_t const at = job.chunk_of(stage) * positions_ + position;
          std::memcpy(
              &loss,
              &all[to_index(job.rank(stage, data)) * bytes + sizeof(text_) + at * sizeof(double)],
              sizeof(loss));
          sum += loss;
        }
      }
    }
    return sum;
  }

 private:
  [[nodiscard]] result<void> told(std::span<std::byte const> all, std::size_t bytes,
                                  std::size_t size) const
  {
    std::vector<rank_id> ranks;
    for (std::size_t rank = 0; rank < size; ++rank) {
      if (all[rank * bytes] != std::byte{0}) { ranks.push_back(to_id<rank_id>(rank)); }
    }
    if (ranks.empty()) { return {}; }
    std::string message(reinterpret_cast<char const*>(&all[to_index(ranks.front()) * bytes]));
    message += "; the step came to nothing, and the next one can run";
    return comm_failure::with_ranks(error_code::failed, std::move(message), std::move(ranks));
  }

  std::size_t positions_ = 0;
  std::vector<double> losses_;  // most chunks x positions
  bool threw_ = false;
  told_text text_;  // what was thrown where, or nothing
  std::vector<std::uint32_t> by_microbatch_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_PIPELINE_STEP_REPORT_HPP
