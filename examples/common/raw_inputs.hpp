// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/text/column_expression.hpp>
#include <ballast/text/csv.hpp>
#include <ballast/text/excerpt.hpp>
#include <ballast/text/read_file.hpp>

#include <charconv>
#include <system_error>

namespace model_inputs {

/// Width and height of an image in pixels: 1 to most_pixels each.
struct image_size {
  std::int64_t width = 1;
  std::int64_t height = 1;

  friend bool operator==(image_size const&, image_size const&) = default;
};

/// The longest side of an image that rules compute with.
inline constexpr std::int64_t most_pixels = std::int64_t{1} << 24;

/// What a sample consists of before a model's rules turn it into items and tokens.
struct raw_input {
  ballast::tokens text = 0;
  std::vector<image_size> images{};
  std::int64_t video_frames = 0;

  friend bool operator==(raw_input const&, raw_input const&) = default;
};

/// Which columns of a trace say what its samples consist of; an empty name: none does. The first
/// three are expressions, see `column_expression`: text in tokens, and width and height of an image
/// that every sample has.
struct input_columns {
  std::string text{};
  std::string width{};
  std::string height{};
  std::string images{};        ///< a list such as 640x480;1920x1080, empty for none
  std::string video_frames{};  ///< an expression
};

/// Reads the samples row by row.
class raw_input_reader {
 public:
  raw_input_reader(std::string_view csv, input_columns columns)
      : rows_(csv), columns_(std::move(columns))
  {}

  [[nodiscard]] ballast::result<std::vector<raw_input>> read()
  {
    if (auto found = find_columns(); !found) { return tl::unexpected(found.error()); }
    std::vector<raw_input> samples;
    while (true) {
      auto const row = rows_.next();
      if (!row) { return tl::unexpected(row.error()); }
      if (row->fields.empty()) { break; }
      line_ = row->line;
      if (row->fields.size() != fields_) {
        return refuse("the number of fields is ", row->fields.size(), ", but the header has ",
                      fields_, "; quote fields that hold commas, or remove the row");
      }
      auto sample = read_row(*row);
      if (!sample) { return tl::unexpected(sample.error()); }
      samples.push_back(std::move(*sample));
    }
    if (samples.empty()) { return refuse("no row follows the header; add samples"); }
    return samples;
  }

 private:
  using expression = std::optional<ballast::column_expression>;

  template <class... Pieces>
  [[nodiscard]] tl::unexpected<ballast::error> refuse(Pieces const&... why) const
  {
    return ballast::fail(ballast::error_code::bad_row, line_, "line ", line_, ": ", why...);
  }

  [[nodiscard]] ballast::result<void> find_columns()
  {
    auto const header = rows_.next();
    if (!header) { return tl::unexpected(header.error()); }
    fields_ = header->fields.size();
    if (fields_ == 0) {
      return refuse("there is no header; write the column names in the first row");
    }
    line_ = header->line;
    if (columns_.width.empty() != columns_.height.empty()) {
      return ballast::fail(
          ballast::error_code::unknown_name, 0,
          "an image has a column of its width or of its height but not of both; name both");
    }
    for (auto const& [text, parsed] :
         {std::pair(&columns_.text, &text_), std::pair(&columns_.width, &width_),
          std::pair(&columns_.height, &height_), std::pair(&columns_.video_frames, &frames_)}) {
      if (text->empty()) { continue; }
      auto read = ballast::parse_column_expression(*text, header->fields);
      if (!read) { return tl::unexpected(read.error()); }
      *parsed = std::move(*read);
    }
    if (columns_.images.empty()) { return {}; }
    auto const found = std::ranges::find(header->fields, columns_.images);
    if (found == header->fields.end()) {
      return ballast::fail(ballast::error_code::unknown_name, 0, "there is no column ",
                           ballast::excerpt(columns_.images), "; name one of the header's");
    }
    images_ = static_cast<std::size_t>(found - header->fields.begin());
    return {};
  }

  /// The number in a row, 0 where no column was named.
  [[nodiscard]] ballast::result<std::int64_t> number(expression const& of, std::string const& name,
                                                     ballast::csv_row const& row, std::int64_t low,
                                                     std::int64_t high) const
  {
    if (!of) { return 0; }
    auto value = of->evaluate(row);
    if (value && (*value < low || *value > high)) {
      return refuse(ballast::excerpt(name), " is ", *value, ", expected ", low, " to ", high,
                    "; fix the row or choose other columns");
    }
    return value;
  }

  [[nodiscard]] ballast::result<raw_input> read_row(ballast::csv_row const& row) const
  {
    raw_input sample;
    auto const text = number(text_, columns_.text, row, 0, ballast::longest_sample);
    if (!text) { return tl::unexpected(text.error()); }
    sample.text = *text;
    if (width_) {
      auto const width = number(width_, columns_.width, row, 1, most_pixels);
      if (!width) { return tl::unexpected(width.error()); }
      auto const height = number(height_, columns_.height, row, 1, most_pixels);
      if (!height) { return tl::unexpected(height.error()); }
      sample.images.push_back({*width, *height});
    }
    if (images_) {
      if (auto added = add_images(sample.images, row.fields[*images_]); !added) {
        return tl::unexpected(added.error());
      }
    }
    auto const frames = number(frames_, columns_.video_frames, row, 0, ballast::longest_sample);
    if (!frames) { return tl::unexpected(frames.error()); }
    sample.video_frames = *frames;
    return sample;
  }

  [[nodiscard]] ballast::result<void> add_images(std::vector<image_size>& images,
                                                 std::string_view list) const
  {
    std::string_view const all = list;
    while (!list.empty()) {
      std::string_view const one = list.substr(0, list.find(';'));
      list.remove_prefix(std::min(one.size() + 1, list.size()));
      std::size_t const cross = std::min(one.find('x'), one.size());
      image_size size;
      bool const good = read_side(size.width, one.substr(0, cross)) && cross < one.size() &&
                        read_side(size.height, one.substr(cross + 1));
      if (!good) {
        return refuse("column ", ballast::excerpt(columns_.images), " holds ",
                      ballast::excerpt(all),
                      ", expected sizes such as 640x480;1920x1080 with sides from 1 to ",
                      most_pixels, "; fix the row");
      }
      images.push_back(size);
    }
    return {};
  }

  [[nodiscard]] static bool read_side(std::int64_t& side, std::string_view text)
  {
    auto const [end, problem] = std::from_chars(text.data(), text.data() + text.size(), side);
    return problem == std::errc{} && end == text.data() + text.size() && side >= 1 &&
           side <= most_pixels;
  }

  ballast::csv_reader rows_;
  input_columns columns_;
  expression text_, width_, height_, frames_;
  std::optional<std::size_t> images_;
  std::size_t fields_ = 0;
  std::size_t line_ = 1;
};

/// What real samples consist of: one per row of a CSV text, in its order.
///
/// Ensures     (1) one sample per row below the header; of several bad rows, the first is reported
/// Errors      bad_row with the line: no header, no row below it, a number of fields other than the
///             header's, a field that is no number or size, or out of range, bad quoting.
///             unknown_name: a column that is not there. From expressions: their own errors.
/// Complexity  O(bytes), in one pass.
[[nodiscard]] inline ballast::result<std::vector<raw_input>> read_raw_inputs(
    std::string_view csv, input_columns const& columns)
{
  return raw_input_reader(csv, columns).read();
}

}  // namespace model_inputs
