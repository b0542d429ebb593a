// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "block_math.hpp"

#include <ballast/core.hpp>

namespace block {

/// Attention within each of several sequences: arrays hold their rows one after the other, a
/// row all heads that there are, and those of dk and dv are added to.
class block_attention {
 public:
  block_attention() = default;

  /// Query head h reads key head keys[h] of kv_heads.
  block_attention(std::size_t head_dim, std::size_t kv_heads, std::vector<std::size_t> keys,
                  attends to = attends::to_earlier)
      : head_dim_(head_dim), kv_heads_(kv_heads), keys_(std::move(keys)), to_(to)
  {}

  /// o holds zeros.
  void forward(std::span<ballast::tokens const> lengths, in q, in k, in v, out o) const
  {
    for_each_head(lengths, [&](std::size_t rows, auto const& query, auto const& key) {
      attention(query(q), key(k), key(v), rows, head_dim_, to_, query(o));
    });
  }

  void gradient(std::span<ballast::tokens const> lengths, in q, in k, in v, in do_, out dq, out dk,
                out dv) const
  {
    for_each_head(lengths, [&](std::size_t rows, auto const& query, auto const& key) {
      attention_gradient(query(q), key(k), key(v), rows, head_dim_, to_, query(do_), query(dq),
                         key(dk), key(dv));
    });
  }

 private:
  /// Calls visit(rows, query, key) for every sequence and query head, where query(array) and
  /// key(array) are that head's part of an array with query or with key heads.
  template <class Visit>
  void for_each_head(std::span<ballast::tokens const> lengths, Visit const& visit) const
  {
    auto const part = [this](std::size_t first_row, std::size_t heads, std::size_t head) {
      return [=, dim = head_dim_]<class T>(std::span<T> array) {
        std::size_t const stride = heads * dim;
        return head_view<T>{array.subspan(first_row * stride), stride, head * dim};
      };
    };
    std::size_t first_row = 0;
    for (ballast::tokens const length : lengths) {
      for (std::size_t head = 0; head < keys_.size(); ++head) {
        visit(static_cast<std::size_t>(length), part(first_row, keys_.size(), head),
              part(first_row, kv_heads_, keys_[head]));
      }
      first_row += static_cast<std::size_t>(length);
    }
  }

  std::size_t head_dim_ = 1;
  std::size_t kv_heads_ = 0;
  std::vector<std::size_t> keys_;
  attends to_ = attends::to_earlier;
};

}  // namespace block
