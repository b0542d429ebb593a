// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_WORKLOAD_DATA_CODE_HPP
#define BALLAST_WORKLOAD_DATA_CODE_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/uint128.hpp>
#include <ballast/text/detail/text_error.hpp>
#include <ballast/workload/sample_batch.hpp>

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace ballast::inline v0 {

/// What some GPUs read in each step: every one `samples` images or videos of one size, and a text
/// with each. Written g{gpus}b{samples}i{pixels}f{frames}s{smoothness}.
struct data_code {
  std::uint32_t gpus = 1;
  std::uint32_t samples = 1;     ///< per GPU; 0 is a GPU that reads nothing
  std::uint32_t pixels = 256;    ///< a sample has the area of a square of this side
  std::uint32_t frames = 1;      ///< 1 is an image
  std::uint32_t smoothness = 0;  ///< 0: each frame is encoded by itself; else compressed in time

  friend bool operator==(data_code const&, data_code const&) = default;
};

/// How many tokens pixels, frames and texts become; the defaults are KnapFormer's.
///
/// Expects     pixels_per_token >= 1; frames_per_token >= 1; smallest_aspect <= largest_aspect;
///             0 <= shortest_text <= longest_text <= longest_sample.
struct data_code_options {
  std::uint32_t pixels_per_token = 16;       ///< along each side
  ratio frames_per_token = {17, 5};          ///< where frames are compressed in time
  std::uint32_t smallest_aspect = 960'000;   ///< factor on the tokens of an image, in millionths
  std::uint32_t largest_aspect = 1'040'000;  ///< both bounds can occur
  tokens shortest_text = 0;
  tokens longest_text = 392;
};

/// Reads codes separated by commas, for example `g16b4i256f1s0,g8b2i256f85s1`.
///
/// Errors      syntax or out_of_range with a byte offset: no code, a part that is missing or out of
///             order, a number above 2^32 - 1, a code for no GPU.
/// Complexity  O(bytes).
/// Source      K. Zhang et al., "KnapFormer: An Online Load Balancer for Efficient Diffusion
///             Transformers Training", arXiv 2508.06001, 2025, and its public simulator.
[[nodiscard]] inline result<std::vector<data_code>> parse_data_codes(std::string_view text)
{
  using number_of_code = std::uint32_t data_code::*;
  struct part {
    char letter;
    char const* meaning;
    number_of_code number;
  };
  static constexpr std::array<part, 5> parts = {{
      {'g', "the number of GPUs", &data_code::gpus},
      {'b', "the number of samples per GPU", &data_code::samples},
      {'i', "the side of the image in pixels", &data_code::pixels},
      {'f', "the number of frames", &data_code::frames},
      {'s', "0, or more for frames compressed in time", &data_code::smoothness},
  }};

  std::size_t at = 0;
  auto const refuse = [&at, text](error_code code, std::string const& reason) {
    return tl::unexpected(detail::text_error(
        code, text, at, reason + "; data codes look like g4b5i512f1s0,g8b2i256f85s1"));
  };

  std::vector<data_code> codes;
  while (true) {
    data_code& code = codes.emplace_back();
    for (part const& next : parts) {
      if (at == text.size() || text[at] != next.letter) {
        return refuse(
            error_code::syntax,
            std::string("expected '").append(1, next.letter).append("' and ") + next.meaning);
      }
      ++at;
      char const* const end = text.data() + text.size();
      auto const parsed = std::from_chars(text.data() + at, end, code.*next.number);
      if (parsed.ec == std::errc::invalid_argument) {
        return refuse(error_code::syntax, std::string("expected ") + next.meaning);
      }
      if (parsed.ec != std::errc{}) {
        return refuse(error_code::out_of_range, "this number does not fit 32 bits");
      }
      if (code.gpus == 0) { return refuse(error_code::out_of_range, "a code needs a GPU"); }
      at = static_cast<std::size_t>(parsed.ptr - text.data());
    }
    if (at == text.size()) { return codes; }
    if (text[at] != ',') { return refuse(error_code::syntax, "expected ',' or the end"); }
    ++at;
  }
}

namespace detail {

// Below 2^128, since it is at most a product of four 32-bit numbers.
[[nodiscard]] constexpr uint128 visual_tokens(data_code const& code,
                                              data_code_options const& options,
                                              std::uint32_t aspect) noexcept
{
  uint128 const side = code.pixels / options.pixels_per_token;
  uint128 frames = code.frames;
  if (code.smoothness != 0) {
    ratio const rate = options.frames_per_token;
    frames = frames * static_cast<std::uint64_t>(rate.denominator) /
             static_cast<std::uint64_t>(rate.numerator);
    if (frames == 0) { frames = 1; }
  }
  return side * side * frames * aspect / 1'000'000;
}

}  // namespace detail

/// Draws the batch of one step. The GPUs of the codes, in their order, repeat over the job.
///
/// In, out     random advances; out is replaced, but stays as it was where there is an error.
/// Expects     at least one code; gpus < 2^32; what the options expect.
/// Ensures     (1) a sample has side * side * time * aspect / 10^6 visual tokens, rounded down, and
///                 a text; side = floor(pixels / pixels_per_token), and time = frames, or
///                 max(1, floor(frames / frames_per_token)) where they are compressed
///             (2) aspect is uniform and drawn once per GPU and step, the text once per sample
///             (3) numbers are drawn GPU after GPU: its aspect, then its texts
///             (4) it allocates nothing where `out` has held such a batch before
/// Errors      out_of_range: gpus is no multiple of the codes' GPUs; a sample could be longer than
///             longest_sample (position is the code's index); there are 2^32 samples or more.
/// Complexity  O(codes + gpus + samples).
[[nodiscard]] inline result<void> draw_batch_into(sample_batch& out,
                                                  std::span<data_code const> codes,
                                                  std::size_t gpus,
                                                  data_code_options const& options,
                                                  random_source& random)
{
  BALLAST_EXPECTS(!codes.empty(), "there are no data codes to draw a batch from");
  BALLAST_EXPECTS(gpus < (std::uint64_t{1} << 32), "a batch was asked for over ", gpus,
                  " GPUs, and there can be fewer than 2^32");
  BALLAST_EXPECTS(options.pixels_per_token >= 1, "pixels_per_token is ", options.pixels_per_token,
                  ", and the least is 1");
  BALLAST_EXPECTS(options.frames_per_token >= (ratio{1, 1}), "frames_per_token is ",
                  options.frames_per_token.numerator, " / ", options.frames_per_token.denominator,
                  ", and the least is 1");
  BALLAST_EXPECTS(options.smallest_aspect <= options.largest_aspect, "aspects go from ",
                  options.smallest_aspect, " to ", options.largest_aspect, ", which is downwards");
  BALLAST_EXPECTS(options.shortest_text >= 0 && options.shortest_text <= options.longest_text,
                  "texts have ", options.shortest_text, " to ", options.longest_text,
                  " tokens, which are no lengths");
  BALLAST_EXPECTS(options.longest_text <= longest_sample, "texts have up to ", options.longest_text,
                  " tokens, and samples at most ", longest_sample);

  uint128 group_gpus = 0;
  uint128 group_samples = 0;
  auto const longest_visual = static_cast<uint128>(longest_sample - options.longest_text);
  for (std::size_t index = 0; index < codes.size(); ++index) {
    group_gpus += codes[index].gpus;
    group_samples += static_cast<uint128>(codes[index].gpus) * codes[index].samples;
    if (detail::visual_tokens(codes[index], options, options.largest_aspect) > longest_visual) {
      return fail(error_code::out_of_range, index, "data code ", index,
                  " can give samples of more than ", longest_sample,
                  " tokens; lower its pixels or frames");
    }
  }
  BALLAST_EXPECTS(group_gpus >= 1, "the data codes describe no GPUs");
  if (gpus == 0 || gpus % group_gpus != 0) {
    auto const group = std::to_string(static_cast<std::uint64_t>(group_gpus));
    return fail(error_code::out_of_range, 0, "the data codes describe ", group, " GPUs, and ", gpus,
                " is not a multiple of that; choose a multiple of ", group);
  }
  if (gpus / group_gpus * group_samples >> 32 != 0) {
    return fail(error_code::out_of_range, 0,
                "the data codes give 2^32 samples or more per step; lower their samples");
  }

  out.lengths.clear();
  out.source.clear();
  out.rows.clear();
  for (std::size_t gpu = 0; gpu < gpus;) {
    for (data_code const& code : codes) {
      for (std::size_t const end = gpu + code.gpus; gpu < end; ++gpu) {
        auto const aspect = static_cast<std::uint32_t>(
            random.between(options.smallest_aspect, options.largest_aspect));
        auto const visual = static_cast<tokens>(detail::visual_tokens(code, options, aspect));
        for (std::uint32_t sample = 0; sample < code.samples; ++sample) {
          out.lengths.push_back(visual +
                                random.between(options.shortest_text, options.longest_text));
        }
        out.source.resize(out.lengths.size(), to_id<rank_id>(gpu));
      }
    }
  }
  return {};
}

/// The same as a value.
[[nodiscard]] inline result<sample_batch> draw_batch(std::span<data_code const> codes,
                                                     std::size_t gpus,
                                                     data_code_options const& options,
                                                     random_source& random)
{
  sample_batch out;
  auto const drawn = draw_batch_into(out, codes, gpus, options, random);
  if (!drawn) { return tl::unexpected(drawn.error()); }
  return out;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_WORKLOAD_DATA_CODE_HPP
