// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "block_attention.hpp"
#include "block_math.hpp"
#include "block_weights.hpp"

#include <ballast/comm/communicator.hpp>
#include <ballast/core.hpp>
#include <ballast/route/head_array.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/sharded_exchange.hpp>
#include <ballast/route/sharded_packs.hpp>

namespace block {

/// The block of transformer_block, over sequences each of which is split to a degree of its own.
///
/// A rank calls forward() and then backward() with its rows of all packs; all ranks of the
/// communicator call them.
template <ballast::point_to_point C, class Watch = ballast::sharded_packs::ignore_events>
class sharded_block {
 public:
  sharded_block(shape const& s, parameters const& weights, C& comm,
                ballast::sharded_packs const& packs, Watch watch = {})
      : s_(s), weights_(s, weights), comm_(comm), packs_(packs), watch_(watch)
  {}

  ballast::result<void> forward(in x, out y)
  {
    for (values* const each : {&q_, &o_}) { *each = between(s_.query_heads); }
    for (values* const each : {&k_, &v_}) { *each = between(s_.kv_heads); }
    for (values* const each : {&q_whole_, &o_whole_}) { *each = whole(s_.query_heads); }
    for (values* const each : {&k_whole_, &v_whole_}) { *each = whole(s_.kv_heads); }
    weights_.enter(x, q_, k_, v_);
    std::array const inputs{queries(q_, q_whole_), keys(k_, k_whole_), keys(v_, v_whole_)};
    std::array const outputs{queries(o_whole_, o_)};
    auto const attend = [this](std::size_t pack) {
      attention(pack).forward(packs_[pack].plan.lengths(), query_part(pack, q_, q_whole_),
                              key_part(pack, k_, k_whole_), key_part(pack, v_, v_whole_),
                              query_part(pack, o_, o_whole_));
    };
    if (auto done = exchange_.forward(comm_, packs_, inputs, outputs, attend, watch_); !done) {
      return done;
    }
    weights_.leave(o_, y);
    return {};
  }

  /// Writes the gradient of x and adds to those of the parameters.
  ballast::result<void> backward(in dy, out dx, parameters& gradients)
  {
    values do_ = between(s_.query_heads), dq = do_;
    values dk = between(s_.kv_heads), dv = dk;
    values do_whole = whole(s_.query_heads), dq_whole = do_whole;
    values dk_whole = whole(s_.kv_heads), dv_whole = dk_whole;
    weights_.leave_gradient(dy, do_, gradients);
    std::array const inputs{queries(do_, do_whole)};
    std::array const outputs{queries(dq_whole, dq), keys(dk_whole, dk), keys(dv_whole, dv)};
    auto const attend = [&](std::size_t pack) {
      attention(pack).gradient(packs_[pack].plan.lengths(), query_part(pack, q_, q_whole_),
                               key_part(pack, k_, k_whole_), key_part(pack, v_, v_whole_),
                               query_part(pack, do_, do_whole), query_part(pack, dq, dq_whole),
                               key_part(pack, dk, dk_whole), key_part(pack, dv, dv_whole));
    };
    if (auto done = exchange_.backward(comm_, packs_, inputs, outputs, attend, watch_); !done) {
      return done;
    }
    weights_.enter_gradient(dq, dk, dv, dx, gradients);
    return {};
  }

 private:
  /// An array between attentions, and one in attention.
  [[nodiscard]] values between(std::uint32_t heads) const
  {
    return values(static_cast<std::size_t>(packs_.rows()) * heads * s_.head_dim);
  }
  [[nodiscard]] values whole(std::uint32_t heads) const
  {
    return values(packs_.heads_of_sequences(heads) * s_.head_dim);
  }

  [[nodiscard]] ballast::head_array queries(in from, out to) const
  {
    return ballast::heads_of(from, to, s_.query_heads, s_.head_dim);
  }
  [[nodiscard]] ballast::head_array keys(in from, out to) const
  {
    return ballast::heads_of(from, to, s_.kv_heads, s_.head_dim);
  }

  [[nodiscard]] out query_part(std::size_t pack, out rows, out heads) const
  {
    return packs_.for_attention(pack, rows, heads, s_.query_heads, s_.head_dim);
  }
  [[nodiscard]] out key_part(std::size_t pack, out rows, out heads) const
  {
    return packs_.for_attention(pack, rows, heads, s_.kv_heads, s_.head_dim);
  }

  /// Attention with this GPU's share of the heads.
  [[nodiscard]] block_attention attention(std::size_t pack) const
  {
    auto const& [id, group, gpu, row, plan] = packs_[pack];
    ballast::chunk const query_share = plan.share(gpu, s_.query_heads);
    ballast::chunk const key_share = plan.share(gpu, s_.kv_heads);
    std::vector<std::size_t> used;
    for (std::int64_t head = 0; head < query_share.count; ++head) {
      std::int64_t const key = plan.split().used_by(query_share.first + head, s_.kv_heads);
      used.push_back(static_cast<std::size_t>(key - key_share.first));
    }
    return {s_.head_dim, static_cast<std::size_t>(key_share.count), std::move(used)};
  }

  shape s_;
  block_weights weights_;
  C& comm_;
  ballast::sharded_packs const& packs_;
  Watch watch_;
  ballast::sharded_exchange<> exchange_;
  values q_, k_, v_, o_;
  values q_whole_, k_whole_, v_whole_, o_whole_;
};

}  // namespace block
