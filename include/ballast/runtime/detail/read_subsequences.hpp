// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_READ_SUBSEQUENCES_HPP
#define BALLAST_RUNTIME_DETAIL_READ_SUBSEQUENCES_HPP

#include <ballast/comm/gather_samples.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/detail/concat.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/runtime/multimodal_samples.hpp>
#include <ballast/runtime/orchestrated_step.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace ballast::inline v0::detail {

/// Sorts what all ranks have read by modality, and lays out the sequence of each sample: `lengths`,
/// `source` and `parts` of the step.
///
/// Shapes      rates[encoders]; the modality after the last encoder's is text, which has no rate.
/// Expects     every rate is at least 1; the entries of each rank are those of a multimodal_samples.
/// Errors      out_of_range: sample `position` has a subsequence of a modality that is none, or of a
///             length outside [0, longest_sample], or is longer than that in the language model.
/// Complexity  O(entries); no allocation after a step as large.
[[nodiscard]] inline result<void> read_subsequences(orchestrated_step& step,
                                                    gathered_samples<subsequence> const& all,
                                                    std::span<std::uint32_t const> rates)
{
  step.modalities.resize(rates.size() + 1);
  for (modality_step& each : step.modalities) {
    each.lengths.clear();
    each.source.clear();
    each.parts.clear();
  }
  step.lengths.clear();
  step.source.clear();
  auto const refuse = [&step](std::string const& what) {
    std::size_t const sample = step.lengths.size() - 1;
    return fail(error_code::out_of_range, sample, "sample ", sample, ", which rank ",
                to_index(step.source.back()), " has read, has ", what);
  };
  for (std::size_t entry = 0; entry < all.samples.size(); ++entry) {
    auto const [modality, length] = all.samples[entry];
    if (modality == multimodal_samples::begins_sample) {
      step.lengths.push_back(0);
      step.source.push_back(all.source[entry]);
      continue;
    }
    BALLAST_EXPECTS(!step.lengths.empty(), "entry ", entry, " is before the first sample");
    if (modality > rates.size()) {
      return refuse(concat("a subsequence of modality ", modality, ", and there are ", rates.size(),
                           " encoders; number modalities as the encoders, and text after them"));
    }
    if (length < 0 || length > longest_sample) {
      return refuse(concat("a subsequence of ", length, " tokens of modality ", modality,
                           "; give lengths from 0 to ", longest_sample));
    }
    tokens const rate = modality < rates.size() ? rates[modality] : 1;
    tokens const outputs = (length + rate - 1) / rate;
    tokens& whole = step.lengths.back();
    modality_step& own = step.modalities[modality];
    own.lengths.push_back(length);
    own.source.push_back(all.source[entry]);
    own.parts.push_back({to_id<sample_id>(step.lengths.size() - 1), whole, outputs});
    if (outputs > longest_sample - whole) {
      return refuse(concat("more than ", longest_sample, " tokens in the language model; cut it"));
    }
    whole += outputs;
  }
  return {};
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_READ_SUBSEQUENCES_HPP
