// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cuda/staged.hpp>

#include <cstring>

namespace ballast_test {

/// A staged plan and its memory, where the device is the host.
template <class Plan>
class staged_on_host {
 public:
  using bound_type = typename ballast::staged<Plan>::bound_type;

  explicit staged_on_host(bound_type bound)
      : bytes_(ballast::staged<Plan>::bytes(bound)),
        device_(lines()),
        pinned_(lines()),
        there_(bound, device(), pinned())
  {}
  staged_on_host(staged_on_host const&) = delete;
  staged_on_host& operator=(staged_on_host const&) = delete;

  [[nodiscard]] std::span<std::byte> device() { return span_of(device_); }
  [[nodiscard]] std::span<std::byte> pinned() { return span_of(pinned_); }

  [[nodiscard]] ballast::staged<Plan>& operator*() { return there_; }
  [[nodiscard]] ballast::staged<Plan>* operator->() { return &there_; }

  /// What upload() queues, at once.
  void upload() { device_ = pinned_; }

  /// Stages a plan and uploads it.
  void hold(Plan const& plan)
  {
    BALLAST_EXPECTS(there_.stage(plan).has_value(), "the plan is beyond the bound");
    upload();
  }

 private:
  struct alignas(256) line {
    std::byte bytes[256];
  };

  [[nodiscard]] std::vector<line> lines() const
  {
    std::vector<line> memory(bytes_ / sizeof(line) + 1);
    std::memset(memory.data(), 0xee, memory.size() * sizeof(line));
    return memory;
  }

  [[nodiscard]] std::span<std::byte> span_of(std::vector<line>& memory) const
  {
    return std::as_writable_bytes(std::span(memory)).first(bytes_);
  }

  std::size_t bytes_;
  std::vector<line> device_;
  std::vector<line> pinned_;
  ballast::staged<Plan> there_;
};

}  // namespace ballast_test
