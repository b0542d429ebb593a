// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/route/ulysses.hpp>

namespace ballast::inline v0 {

/// What one rank computes in a step of hybrid sharding: a pack for each group that contains it and
/// has tokens, from the largest group to the rank alone. Of a plan of slots it is the pack of the
/// rank's one group in a slot.
///
/// Between attentions a rank's arrays lie as place(plan, all) has them: pack by pack, all heads.
/// In attention a second array has the shared packs, one after the other, with all rows of the
/// group's sequences and the rank's share of the heads. The rank's own sequences are computed where
/// they lie.
///
/// Groups are nested. So all GPUs of a group have the same packs before the group's, and an
/// exchange has the same number on all of them.
///
/// Expects     a plan over these groups, as hybrid_sharding() makes one; rank below all.gpus();
///             query_heads >= 1; with kv_heads, groups of attention stay whole (head_split), and
///             the plan is of a cost with whole_groups.
/// Ensures     (1) the packs are by descending number of GPUs; none is without tokens, and those of
///                 the group's GPUs are equal but for gpu and row
///             (2) the rows of the packs, one after the other, are the rank's rows of place(plan,
///                 all)
///             (3) all GPUs of a group have equally many packs before it
/// Complexity  assign: O(sequences of the rank x GPUs of their groups); it allocates only where
///             there are more of them than ever before. Members O(packs).
class sharded_packs {
 public:
  /// The sequences that one group of GPUs computes together.
  struct group_pack {
    group_id id{};
    device_group group;
    std::uint32_t gpu = 0;  ///< which of the group's GPUs this rank is
    tokens row = 0;         ///< of the rank's arrays: where its chunks of the sequences begin
    ulysses_plan plan;      ///< which of the group's GPUs has which tokens, and which heads

    /// Whether several GPUs share the sequences. If not, tokens and heads lie in the same place.
    [[nodiscard]] bool is_shared() const noexcept { return group.gpus > 1; }

    /// Rows of the rank between attentions.
    [[nodiscard]] tokens rows() const { return plan.rows(gpu); }

    /// Heads of an array on the rank in attention: all rows of the group x the rank's share.
    [[nodiscard]] std::size_t heads_of_sequences(std::uint32_t heads) const
    {
      return plan.heads_of_sequences(gpu, heads);
    }
  };

  /// What a rank does with one pack of its sequences, in the order in which it does it.
  enum class phase : std::uint8_t {
    begin_to_heads,   ///< packs queries, keys and values, and begins to send and to receive them
    end_to_heads,     ///< waits for them, and unpacks them
    compute,          ///< attention
    begin_to_tokens,  ///< packs the output, and begins to send and to receive it
    end_to_tokens,    ///< waits for it, and unpacks it
  };

  /// A phase of a rank's pack begins, or it is over. What reads a clock at each event has the
  /// timeline of a layer; a rank's phases do not overlap.
  struct event {
    sharded_packs::phase phase{};
    bool is_over = false;
    group_id group{};  ///< whose pack it is

    friend constexpr bool operator==(event, event) = default;
  };

  /// For layers that nobody watches.
  struct ignore_events {
    constexpr void operator()(event) const {}
  };

  void assign(sharding_plan const& plan, device_groups const& all, rank_id rank,
              std::uint32_t query_heads, std::uint32_t kv_heads = 0)
  {
    BALLAST_EXPECTS(plan.samples.size() == all.size(), "the plan has sequences of ",
                    detail::counted(plan.samples.size(), "group"), " for ",
                    detail::counted(all.size(), "group"), " of GPUs");
    auto const own = all.groups_of(rank);
    start(rank, all.gpus(), own.size());
    for (std::size_t place = own.size(); place > 0; --place) {
      group_id const id = own[place - 1];
      add(id, all[id], detail::span_of(plan.lengths), plan.samples[id], query_heads, kv_heads);
    }
  }

  /// What the rank computes in one slot: the pack of its group, which is all that it has.
  ///
  /// Expects     rank below plan.ranks, slot below plan.slots.
  void assign(slots_plan const& plan, std::size_t slot, rank_id rank, std::uint32_t query_heads,
              std::uint32_t kv_heads = 0)
  {
    group_id const id = plan.group_of(rank, slot);
    start(rank, plan.ranks, 1);
    add(id, plan.groups[to_index(id)].ranks, detail::span_of(plan.lengths), plan.samples[id],
        query_heads, kv_heads);
  }

  [[nodiscard]] rank_id rank() const noexcept { return rank_; }

  /// Ranks of the job.
  [[nodiscard]] std::size_t ranks() const noexcept { return ranks_; }

  /// Number of packs.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// Packs that several GPUs share; the rank's own, if it has sequences, is behind them.
  [[nodiscard]] std::size_t shared() const noexcept
  {
    return size_ > 0 && !packs_[size_ - 1].is_shared() ? size_ - 1 : size_;
  }

  [[nodiscard]] group_pack const& operator[](std::size_t pack) const
  {
    BALLAST_EXPECTS(pack < size_, "pack ", pack, " of ", size_);
    return packs_[pack];
  }

  /// Rows of the rank between attentions.
  [[nodiscard]] tokens rows() const noexcept { return rows_; }

  /// Heads of an array on the rank in attention, of all shared packs: rows x share of the heads.
  /// Times dim: its elements.
  [[nodiscard]] std::size_t heads_of_sequences(std::uint32_t heads) const
  {
    return heads_before(shared(), heads);
  }

  /// Returns a pack's part of an array between attentions, elements[rows()][heads][dim].
  template <class T>
  [[nodiscard]] std::span<T> between_attentions(std::size_t pack, std::span<T> elements,
                                                std::uint32_t heads, std::size_t dim) const
  {
    group_pack const& part = (*this)[pack];
    std::size_t const row = heads * dim;
    return elements.subspan(static_cast<std::size_t>(part.row) * row,
                            static_cast<std::size_t>(part.rows()) * row);
  }

  /// Returns what attention reads or writes of an array for a pack: a part of `in_attention`,
  /// [heads_of_sequences(heads)][dim], or if the sequences are the rank's own, of `between`.
  template <class T>
  [[nodiscard]] std::span<T> for_attention(std::size_t pack, std::span<T> between,
                                           std::span<T> in_attention, std::uint32_t heads,
                                           std::size_t dim) const
  {
    group_pack const& part = (*this)[pack];
    if (!part.is_shared()) { return between_attentions(pack, between, heads, dim); }
    return in_attention.subspan(heads_before(pack, heads) * dim,
                                part.heads_of_sequences(heads) * dim);
  }

 private:
  [[nodiscard]] std::size_t heads_before(std::size_t pack, std::uint32_t heads) const
  {
    std::size_t all = 0;
    for (std::size_t before = 0; before < pack; ++before) {
      all += packs_[before].heads_of_sequences(heads);
    }
    return all;
  }

  void start(rank_id rank, std::size_t ranks, std::size_t groups)
  {
    rank_ = rank;
    ranks_ = ranks;
    rows_ = 0;
    size_ = 0;
    if (packs_.size() < groups) { packs_.resize(groups); }
  }

  /// Appends the pack of a group's samples, if these have tokens.
  void add(group_id id, device_group group, std::span<tokens const> lengths,
           std::span<sample_id const> samples, std::uint32_t query_heads, std::uint32_t kv_heads)
  {
    if (std::none_of(samples.begin(), samples.end(),
                     [&](sample_id sample) { return lengths[to_index(sample)] > 0; })) {
      return;
    }
    group_pack& pack = packs_[size_];
    pack.id = id;
    pack.group = group;
    pack.gpu = static_cast<std::uint32_t>(to_index(rank_) - to_index(group.first));
    pack.row = rows_;
    pack.plan.assign(lengths, samples, group.gpus, query_heads, kv_heads);
    rows_ += pack.rows();
    ++size_;
  }

  std::vector<group_pack> packs_;  ///< the first size_ of them
  std::size_t size_ = 0;
  std::size_t ranks_ = 0;
  rank_id rank_{};
  tokens rows_ = 0;
};

}  // namespace ballast::inline v0
