// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cuda/detail/row_copies.hpp>
#include <ballast/cuda/detail/temporary_storage.hpp>
#include <ballast/gpu/streams.hpp>

#include <cuda_runtime_api.h>  // cudaMemcpyAsync

namespace ballast::inline v0 {

/// The largest plan of any step: ranks, and the most ranges of rows that a rank sends, receives or
/// keeps.
struct route_bound {
  std::uint32_t ranks = 1;
  std::uint32_t ranges = 0;
};

/// A bag's GPUs and query heads, which are the same in every step, and the most sequences of any
/// step.
struct ulysses_bound {
  std::uint32_t sequences = 1;
  std::uint32_t gpus = 1;
  std::uint32_t query_heads = 1;
  std::uint32_t kv_heads = 0;  ///< as of head_split

  [[nodiscard]] head_split split() const noexcept { return {query_heads, gpus, kv_heads}; }
};

namespace detail {

/// What staged<Plan> must know of a kind of plan:
///
///   bound_type                   what bounds the plans of all steps
///   arrays, cut(storage, bound)  what lies in the device's and in pinned memory, in one order
///   tables, tables_of            the same, as kernels read it
///   host_part                    what the host needs of the plan
///   expect(bound), nothing(bound)  refuses what is no bound; a plan that moves nothing
///   bound_for(plan)              a bound with room to spare, so that few steps make it grow
///   fits(bound, plan)            whether the plan is within the bound, or what is above it
///   write(arrays, host_part, bound, plan)  stages it in pinned memory
template <class Plan>
struct staging;

template <>
struct staging<route_plan> {
  using bound_type = route_bound;
  using host_part = row_traffic;

  struct counts {
    std::uint32_t sent = 0;
    std::uint32_t received = 0;
    std::uint32_t kept = 0;
  };
  struct arrays {
    counts* count;
    device_ranges::peer_rows* sent;
    device_ranges::peer_rows* received;
    route_plan::kept_rows* kept;
    tokens* sent_rows;
    tokens* received_rows;
  };
  struct tables {
    device_ranges sent;
    device_ranges received;
    device_kept kept;
  };

  static void expect(route_bound bound)
  {
    BALLAST_EXPECTS(bound.ranks >= 1, "the bound is that of a route over no ranks");
    // Copies, one for each range that comes or stays and each array, are numbered in 32 bits.
    constexpr auto most = std::numeric_limits<std::uint32_t>::max() / (2 * device_rows::most);
    BALLAST_EXPECTS(bound.ranges <= most, "the bound is that of a route of ", bound.ranges,
                    " ranges, and the most is ", most);
  }

  [[nodiscard]] static arrays cut(temporary_storage& storage, route_bound bound)
  {
    auto* const count = storage.take<counts>(1);
    auto* const sent = storage.take<device_ranges::peer_rows>(bound.ranges);
    auto* const received = storage.take<device_ranges::peer_rows>(bound.ranges);
    auto* const kept = storage.take<route_plan::kept_rows>(bound.ranges);
    auto* const sent_rows = storage.take<tokens>(bound.ranks);
    return {count, sent, received, kept, sent_rows, storage.take<tokens>(bound.ranks)};
  }

  [[nodiscard]] static tables tables_of(arrays const& at, route_bound bound)
  {
    return {{at.sent, &at.count->sent, at.sent_rows, bound.ranges, bound.ranks},
            {at.received, &at.count->received, at.received_rows, bound.ranges, bound.ranks},
            {at.kept, &at.count->kept, bound.ranges}};
  }

  [[nodiscard]] static route_plan nothing(route_bound /*bound*/) { return {}; }

  [[nodiscard]] static route_bound bound_for(route_plan const& plan)
  {
    auto const [sent, received, kept] = counts_of(plan);
    return {static_cast<std::uint32_t>(plan.ranks()), 2 * std::max({sent, received, kept}) + 1};
  }

  [[nodiscard]] static result<void> fits(route_bound bound, route_plan const& plan)
  {
    auto const [sent, received, kept] = counts_of(plan);
    for (auto const& [count, what, most] :
         {std::tuple(static_cast<std::uint32_t>(plan.ranks()), "ranks", bound.ranks),
          std::tuple(sent, "ranges of rows to send", bound.ranges),
          std::tuple(received, "ranges of rows to receive", bound.ranges),
          std::tuple(kept, "ranges of rows to keep", bound.ranges)}) {
      if (count > most) {
        return fail(error_code::out_of_range, 0, "the plan has ", count, " ", what,
                    ", and what holds it on the device is made for ", most,
                    "; make it for the most of any step");
      }
    }
    return {};
  }

  static void write(arrays const& to, row_traffic& host, route_bound bound, route_plan const& plan)
  {
    *to.count = counts_of(plan);
    write(plan.sent, to.sent, to.sent_rows, bound.ranks);
    write(plan.received, to.received, to.received_rows, bound.ranks);
    std::copy(plan.kept.begin(), plan.kept.end(), to.kept);
    host = {plan.rank,
            plan.rows_before,
            plan.rows_after,
            {to.sent_rows, plan.ranks()},
            {to.received_rows, plan.ranks()},
            plan.word};
  }

 private:
  [[nodiscard]] static counts counts_of(route_plan const& plan)
  {
    counts all{0, 0, static_cast<std::uint32_t>(plan.kept.size())};
    for (std::size_t peer = 0; peer < plan.ranks(); ++peer) {
      all.sent += static_cast<std::uint32_t>(plan.sent[to_id<rank_id>(peer)].size());
      all.received += static_cast<std::uint32_t>(plan.received[to_id<rank_id>(peer)].size());
    }
    return all;
  }

  static void write(route_table const& table, device_ranges::peer_rows* ranges, tokens* rows,
                    std::uint32_t ranks)
  {
    for (std::uint32_t peer = 0; peer < table.rows().size(); ++peer) {
      for (route_table::range const range : table[to_id<rank_id>(peer)]) {
        BALLAST_EXPECTS(range.count >= 0 && range.count <= longest_sample,
                        "the route has a range of ", range.count, " rows for rank ", peer,
                        ", which is not from 0 to ", longest_sample);
        *ranges++ = {range.first, static_cast<std::uint32_t>(range.count), peer};
      }
    }
    std::fill(std::copy(table.rows().begin(), table.rows().end(), rows), rows + ranks, tokens{0});
  }
};

template <>
struct staging<ulysses_plan> {
  using bound_type = ulysses_bound;
  using host_part = ulysses_plan;
  using tables = ulysses_tables;

  struct arrays {
    tokens* lengths;
    tokens* first_rows;
    std::int32_t* cu_seqlens;
  };

  static void expect(ulysses_bound bound)
  {
    BALLAST_EXPECTS(bound.sequences >= 1 && bound.gpus >= 1 && bound.query_heads >= 1,
                    "the bound is that of a bag of ", counted(bound.gpus, "GPU"), " with ",
                    counted(bound.sequences, "sequence"), " and ",
                    counted(bound.query_heads, "query head"), ", and the least of each is 1");
    // Copies, one for each GPU, sequence and array, are numbered in 32 bits.
    BALLAST_EXPECTS((std::uint64_t{bound.gpus} + 1) * (std::uint64_t{bound.sequences} + 1) <
                        std::numeric_limits<std::uint32_t>::max() / (2 * device_heads::most),
                    "the bound is that of a bag of ", counted(bound.gpus, "GPU"), " with ",
                    counted(bound.sequences, "sequence"),
                    ", whose copies are too many to be numbered in 32 bits");
  }

  [[nodiscard]] static arrays cut(temporary_storage& storage, ulysses_bound bound)
  {
    std::size_t const line = std::size_t{bound.sequences} + 1;
    auto* const lengths = storage.take<tokens>(line);
    auto* const first_rows = storage.take<tokens>((std::size_t{bound.gpus} + 1) * line);
    return {lengths, first_rows, storage.take<std::int32_t>(line)};
  }

  [[nodiscard]] static ulysses_tables tables_of(arrays const& at, ulysses_bound bound)
  {
    return {at.lengths, at.first_rows, at.cu_seqlens, bound.sequences, bound.split()};
  }

  [[nodiscard]] static ulysses_plan nothing(ulysses_bound bound)
  {
    ulysses_plan plan;
    plan.assign(std::vector<tokens>(bound.sequences), bound.gpus, bound.query_heads,
                bound.kv_heads);
    return plan;
  }

  [[nodiscard]] static ulysses_bound bound_for(ulysses_plan const& plan)
  {
    return {static_cast<std::uint32_t>(2 * plan.lengths().size() + 1), plan.gpus(),
            plan.query_heads(), plan.split().kv_heads};
  }

  [[nodiscard]] static result<void> fits(ulysses_bound bound, ulysses_plan const& plan)
  {
    if (plan.split() != bound.split()) {
      return fail(error_code::out_of_range, 0, "the plan is for ", counted(plan.gpus(), "GPU"),
                  ", ", counted(plan.query_heads(), "query head"), " and whole groups of ",
                  counted(plan.split().kv_heads, "key-value head"),
                  ", and what holds it on the device is made for ", bound.gpus, ", ",
                  bound.query_heads, " and ", bound.kv_heads, "; make another for this bag");
    }
    if (plan.lengths().size() > bound.sequences) {
      return fail(error_code::out_of_range, bound.sequences, "the bag has ",
                  counted(plan.lengths().size(), "sequence"),
                  ", and what holds its plan on the device is made for ", bound.sequences,
                  "; make it for the most of any step");
    }
    if (plan.rows() > std::numeric_limits<std::int32_t>::max()) {
      return fail(error_code::out_of_range, 0, "the bag has ", plan.rows(),
                  " rows, and cu_seqlens counts them in 32 bits; give it fewer sequences");
    }
    return {};
  }

  static void write(arrays const& to, ulysses_plan& host, ulysses_bound bound,
                    ulysses_plan const& plan)
  {
    std::size_t const line = std::size_t{bound.sequences} + 1;
    std::fill(std::copy(plan.lengths().begin(), plan.lengths().end(), to.lengths),
              to.lengths + line, tokens{0});
    plan.write_cu_seqlens({to.cu_seqlens, line});
    for (std::uint32_t gpu = 0; gpu <= bound.gpus; ++gpu) {  // the last line is the bag's
      tokens row = 0;
      auto* next = to.first_rows + gpu * line;
      for (tokens const length : plan.lengths()) {
        *next++ = row;
        row += gpu == bound.gpus ? length : chunk_of(length, bound.gpus, gpu).count;
      }
      std::fill(next, to.first_rows + (gpu + 1) * line, row);
    }
    host = plan;
  }
};

template <>
struct staging<sequence_rows> {
  using bound_type = std::uint32_t;  ///< sequences
  using tables = repeat_table;
  struct host_part {};

  struct arrays {
    tokens* count;
    tokens* begins;
  };

  static void expect(std::uint32_t /*bound*/) {}

  [[nodiscard]] static arrays cut(temporary_storage& storage, std::uint32_t bound)
  {
    auto* const memory = storage.take<tokens>(std::size_t{bound} + 2);
    return {memory, memory == nullptr ? nullptr : memory + 1};
  }

  [[nodiscard]] static repeat_table tables_of(arrays const& at, std::uint32_t /*bound*/)
  {
    return {at.count, at.begins};
  }

  [[nodiscard]] static sequence_rows nothing(std::uint32_t /*bound*/) { return {}; }

  [[nodiscard]] static result<void> fits(std::uint32_t bound, sequence_rows const& plan)
  {
    if (plan.copies.size() <= bound) { return {}; }
    return fail(error_code::out_of_range, 0, "there are rows of ", plan.copies.size(),
                " sequences, and their table on the device is made for ", bound,
                "; make it for the most of any step");
  }

  static void write(arrays const& to, host_part& /*host*/, std::uint32_t /*bound*/,
                    sequence_rows const& plan)
  {
    *to.count = static_cast<tokens>(plan.copies.size());
    to.begins[0] = 0;
    std::partial_sum(plan.copies.begin(), plan.copies.end(), to.begins + 1);
  }
};

}  // namespace detail

/// A plan in memory that kernels read: a route_plan, a ulysses_plan, or how many copies each row of
/// sequence_rows has. A rank has one and gives it every step's plan.
///
///     staged<route_plan> there(bound, device.span(), pinned);  // of bytes(bound) each
///     there.stage(plan);                                       // writes pinned memory
///     there.upload(stream);                                    // one copy; a graph can hold it
///
/// Work that is queued after the upload reads the plan that was staged when the upload ran. So a
/// graph that was captured with one plan can be replayed with another plan after the next stage().
///
/// The bound is a route_bound, a ulysses_bound, or the most sequences of one rank and step.
///
/// Shapes      device[bytes(bound)], pinned[bytes(bound)], of any alignment.
/// Expects     a route of at least one rank, and less than 2^28 ranges; a bag of at least one
///             sequence, GPU and query head, and less than 2^28 (GPUs + 1) x (sequences + 1); device
///             memory and page-locked memory that outlive this object. stage() is called when the
///             last upload is done: wait for the stream, or for an event after the upload. One
///             thread at a time.
/// Ensures     (1) an upload does the same copy, whatever the plan; without a stage(), of a plan that
///                 moves nothing
///             (2) a plan that is refused changes nothing
///             (3) the steady state allocates nothing
/// Errors      stage: out_of_range if the plan is not within the bound, or a bag has 2^31 rows.
///             upload: CUDA's.
/// Complexity  stage O(ranks + ranges), O(GPUs x sequences) or O(sequences) of the plan. bytes: 16 a
///             rank and 56 a range; 12 + 8 (GPUs + 1) a sequence; 8 a sequence; and less than 2 kB.
template <class Plan>
class staged {
  using kind = detail::staging<Plan>;

 public:
  using bound_type = typename kind::bound_type;

  [[nodiscard]] static std::size_t bytes(bound_type bound)
  {
    kind::expect(bound);
    detail::temporary_storage none(nullptr);
    (void)kind::cut(none, bound);
    return none.bytes();
  }

  staged(bound_type bound, std::span<std::byte> device, std::span<std::byte> pinned)
      : bound_(bound), bytes_(bytes(bound) - detail::temporary_storage::alignment)
  {
    for (auto const& [memory, name] : {std::pair(device, "device"), std::pair(pinned, "pinned")}) {
      BALLAST_EXPECTS(memory.size() >= bytes(bound), "there are ", memory.size(), " bytes of ",
                      name, " memory for a plan that takes ", bytes(bound));
    }
    detail::temporary_storage on_device(device.data());
    detail::temporary_storage on_host(pinned.data());
    to_ = on_device.begin();
    from_ = on_host.begin();
    device_ = kind::cut(on_device, bound);
    pinned_ = kind::cut(on_host, bound);
    kind::write(pinned_, host_, bound, kind::nothing(bound));
  }

  /// Writes a plan to pinned memory, for upload().
  [[nodiscard]] result<void> stage(Plan const& plan)
  {
    if (auto within = kind::fits(bound_, plan); !within) { return within; }
    kind::write(pinned_, host_, bound_, plan);
    return {};
  }

  [[nodiscard]] cudaError_t upload(cudaStream_t stream) const
  {
    nvtx_range const range("ballast::staged::upload");
    return cudaMemcpyAsync(to_, from_, bytes_, cudaMemcpyHostToDevice, stream);
  }

  [[nodiscard]] bound_type bound() const noexcept { return bound_; }

  /// A bound with room for more than a plan of a route or of a bag, so that few steps exceed it.
  [[nodiscard]] static bound_type bound_for(Plan const& plan) { return kind::bound_for(plan); }

  /// Whether stage() would take a plan.
  [[nodiscard]] bool holds(Plan const& plan) const { return kind::fits(bound_, plan).has_value(); }

  /// What kernels read, of a route `sent`, `received` and `kept`, of a bag its ulysses_tables.
  [[nodiscard]] typename kind::tables tables() const { return kind::tables_of(device_, bound_); }

  /// What the host needs of the plan that was staged last, valid until the next stage(): of a route
  /// its row_traffic, of a bag the plan.
  [[nodiscard]] typename kind::host_part const& plan() const noexcept { return host_; }

  /// Host memory for the sizes of messages.
  [[nodiscard]] workspace& memory() noexcept { return memory_; }

 private:
  bound_type bound_;
  std::size_t bytes_;
  std::byte* to_ = nullptr;
  std::byte* from_ = nullptr;
  typename kind::arrays device_{};
  typename kind::arrays pinned_{};
  typename kind::host_part host_{};
  workspace memory_;
};

}  // namespace ballast::inline v0
