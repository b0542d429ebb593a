// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_DATA_DATA_MESSAGE_HPP
#define BALLAST_RUNTIME_DETAIL_DATA_DATA_MESSAGE_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/runtime/data/data_step.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// What ranks of a data pipeline tell each other. `one`, `two` and the body are, in this order:
enum class data_word : std::uint64_t {
  // whoever has said nothing for a while
  alive,
  // trainers and loaders to the proxy, first
  hello,  // 1 of a loader
  // the proxy to trainers and loaders
  stop,  // code, position; 1 if nothing follows, why, the ranks that are missing
  // the proxy to a loader
  load,  // ticket, sample
  send,  // ticket, trainer
  drop,  // ticket
  end,   // 1 if it is given up
  // a loader to the proxy
  loaded,  // ticket, bytes of the payload; nanoseconds, lengths
  broken,  // ticket; why
  gone,    // why
  bye,     // the proxy to a trainer too; nothing follows
  // the proxy to a trainer
  step,      // the step; of each sample its loader and bytes
  redirect,  // step, entry; loader, bytes
  over,
  // a trainer to the proxy
  received,  // step, entry
  taken,     // step, nanoseconds of computing
  missing,   // step, entry; loader
  finish,
  left,
};

struct data_message {
  data_word word{};
  std::uint64_t one = 0;
  std::uint64_t two = 0;
  std::vector<std::uint64_t> body = {};

  void add(std::string_view text)
  {
    body.push_back(text.size());
    std::size_t const begin = body.size();
    body.resize(begin + (text.size() + 7) / 8);
    if (!text.empty()) { std::memcpy(&body[begin], text.data(), text.size()); }
  }
};

/// Reads the body of a message, word by word. Both ends are of one program: it is as was written.
class data_body {
 public:
  explicit data_body(data_message const& message) : left_(message.body) {}

  std::uint64_t word()
  {
    std::uint64_t const first = left_.front();
    left_ = left_.subspan(1);
    return first;
  }
  std::string text()
  {
    std::string read(word(), ' ');
    if (!read.empty()) { std::memcpy(read.data(), left_.data(), read.size()); }
    left_ = left_.subspan((read.size() + 7) / 8);
    return read;
  }
  std::vector<tokens> rest()
  {
    std::vector<tokens> all;
    while (!left_.empty()) { all.push_back(static_cast<tokens>(word())); }
    return all;
  }

 private:
  std::span<std::uint64_t const> left_;
};

/// `parts`: nothing follows.
[[nodiscard]] inline data_message write_stop(error const& reason, bool parts)
{
  data_message out{
      data_word::stop, static_cast<std::uint64_t>(reason.code), reason.position, {parts ? 1U : 0U}};
  out.add(reason.message);
  for (rank_id const rank : reason.ranks) { out.body.push_back(to_index(rank)); }
  return out;
}

[[nodiscard]] inline error read_stop(data_message const& message)
{
  data_body in(message);
  (void)in.word();
  error reason{static_cast<error_code>(message.one), message.two, in.text(), {}};
  for (tokens const rank : in.rest()) {
    reason.ranks.push_back(to_id<rank_id>(static_cast<std::size_t>(rank)));
  }
  return reason;
}

inline constexpr std::uint64_t no_loader = ~std::uint64_t{0};

/// Where the payload of a sample is: its loader's rank, or no_loader, and its bytes.
using payload_place = std::pair<std::uint64_t, std::uint64_t>;

[[nodiscard]] inline data_message write_step(data_step const& step,
                                             std::span<payload_place const> places)
{
  data_message out{data_word::step, step.number, step.epoch, {}};
  out.body = {step.position, step.left_out, step.ends_epoch ? 1U : 0U, step.modules,
              step.samples.size()};
  for (std::size_t entry = 0; entry < step.samples.size(); ++entry) {
    out.body.push_back(step.samples[entry]);
    out.body.push_back(to_index(step.owner[entry]));
    out.body.push_back(places[entry].first);
    out.body.push_back(places[entry].second);
  }
  for (tokens const length : step.lengths) {
    out.body.push_back(static_cast<std::uint64_t>(length));
  }
  out.body.push_back(step.news.size());
  for (std::string const& each : step.news) { out.add(each); }
  out.add(step.saved);
  return out;
}

[[nodiscard]] inline data_step read_step(data_message const& message,
                                         std::vector<payload_place>& places)
{
  data_body in(message);
  data_step step;
  step.number = message.one;
  step.epoch = message.two;
  step.position = in.word();
  step.left_out = in.word();
  step.ends_epoch = in.word() != 0;
  step.modules = in.word();
  std::size_t const samples = in.word();
  for (std::size_t entry = 0; entry < samples; ++entry) {
    step.samples.push_back(in.word());
    step.owner.push_back(to_id<rank_id>(in.word()));
    std::uint64_t const loader = in.word();
    places.emplace_back(loader, in.word());
  }
  for (std::size_t length = 0; length < samples * step.modules; ++length) {
    step.lengths.push_back(static_cast<tokens>(in.word()));
  }
  for (std::uint64_t news = in.word(); news > 0; --news) { step.news.push_back(in.text()); }
  step.saved = in.text();
  return step;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_DATA_DATA_MESSAGE_HPP
