// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_STRUCTURE_PRECOMPILED_HPP
#define BALLAST_TESTS_STRUCTURE_PRECOMPILED_HPP

#include "source_tree.hpp"
#include "tokens.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace structure {

/// The headers that the lists `standard_headers` and `precompiled_headers` of CMake name.
inline std::set<std::string> precompiled_headers(std::string_view cmake)
{
  std::set<std::string> headers;
  for (std::string_view const list : {"set(standard_headers", "set(precompiled_headers"}) {
    std::size_t const first = std::min(cmake.find(list), cmake.size());
    std::string_view const body = cmake.substr(first, cmake.find(')', first) - first);
    for (std::size_t at = body.find('<'); at != body.npos; at = body.find('<', at + 1)) {
      headers.emplace(body.substr(at + 1, body.find('>', at) - at - 1));
    }
  }
  return headers;
}

/// What tests name of each precompiled header: of std and std::ranges without that, and macros.
inline std::map<std::string, std::vector<std::string>> const& names_by_header()
{
  static std::map<std::string, std::vector<std::string>> const names = [] {
    std::map<std::string, std::string> const text = {
        {"algorithm",
         "adjacent_find all_of any_of binary_search clamp contains copy copy_backward copy_if "
         "copy_n "
         "count count_if ends_with equal equal_range fill fill_n find find_end find_first_of "
         "find_if "
         "find_if_not fold_left for_each for_each_n generate generate_n includes inplace_merge "
         "is_heap "
         "is_partitioned is_permutation is_sorted is_sorted_until iter_swap "
         "lexicographical_compare "
         "lower_bound make_heap max max_element merge min min_element minmax minmax_element "
         "mismatch "
         "move_backward next_permutation none_of nth_element partial_sort partial_sort_copy "
         "partition "
         "partition_point pop_heap prev_permutation push_heap remove_copy remove_if replace "
         "replace_if reverse reverse_copy rotate sample search set_difference set_intersection "
         "set_symmetric_difference set_union shift_left shift_right shuffle sort sort_heap "
         "stable_partition stable_sort starts_with swap_ranges transform unique unique_copy "
         "upper_bound"},
        {"array", "array to_array"},
        {"bit",
         "bit_cast bit_ceil bit_floor bit_width countl_one countl_zero countr_one countr_zero "
         "endian has_single_bit popcount rotl rotr"},
        {"charconv", "from_chars from_chars_result to_chars to_chars_result"},
        {"chrono", "chrono chrono_literals"},
        {"cmath",
         "acos asin atan atan2 cbrt ceil cos cosh erf erfc exp exp2 expm1 fabs floor fma fmod "
         "frexp hypot isfinite isinf isnan ldexp lgamma llrint llround log log10 log1p log2 "
         "lrint lround nearbyint nextafter pow remainder rint round signbit sin sinh sqrt tan "
         "tanh tgamma trunc"},
        {"cstddef", "byte max_align_t ptrdiff_t size_t to_integer"},
        {"cstdint",
         "int16_t int32_t int64_t int8_t intmax_t intptr_t uint16_t uint32_t uint64_t uint8_t "
         "uintmax_t uintptr_t"},
        {"functional",
         "bind_front bit_and bit_or bit_xor cref divides equal_to function greater greater_equal "
         "identity invoke less less_equal logical_and logical_not logical_or mem_fn minus modulus "
         "multiplies negate not_equal_to not_fn plus ref reference_wrapper"},
        {"limits", "numeric_limits"},
        {"map", "map multimap"},
        {"memory",
         "addressof align allocator allocator_traits construct_at default_delete destroy_at "
         "destroy_n enable_shared_from_this make_shared make_unique shared_ptr "
         "uninitialized_copy uninitialized_fill unique_ptr weak_ptr"},
        {"numeric",
         "accumulate adjacent_difference exclusive_scan gcd inclusive_scan inner_product iota "
         "lcm midpoint partial_sum reduce transform_reduce"},
        {"optional", "make_optional nullopt nullopt_t optional"},
        {"random",
         "bernoulli_distribution discrete_distribution exponential_distribution gamma_distribution "
         "geometric_distribution lognormal_distribution minstd_rand mt19937 mt19937_64 "
         "normal_distribution poisson_distribution random_device uniform_int_distribution "
         "uniform_random_bit_generator uniform_real_distribution"},
        {"ranges", "subrange view_interface views"},
        {"set", "multiset set"},
        {"span", "as_bytes as_writable_bytes dynamic_extent span"},
        {"sstream", "istringstream ostringstream stringbuf stringstream"},
        {"string", "getline stod stof stoi stol stoll stoul stoull string to_string"},
        {"string_view", "string_view string_view_literals"},
        {"thread", "jthread this_thread thread"},
        {"tuple", "apply forward_as_tuple make_from_tuple make_tuple tie tuple tuple_cat"},
        {"utility",
         "as_const cmp_equal cmp_greater cmp_less declval exchange in_range "
         "index_sequence integer_sequence make_index_sequence"},
        {"vector", "vector"},
        {"gtest/gtest.h",
         "ADD_FAILURE ASSERT_DEATH ASSERT_DOUBLE_EQ ASSERT_EQ ASSERT_FALSE ASSERT_GE ASSERT_GT "
         "ASSERT_LE "
         "ASSERT_LT ASSERT_NE ASSERT_NEAR ASSERT_TRUE EXPECT_DEATH EXPECT_DOUBLE_EQ EXPECT_EQ "
         "EXPECT_EXIT "
         "EXPECT_FALSE EXPECT_GE EXPECT_GT EXPECT_LE EXPECT_LT EXPECT_NE EXPECT_NEAR EXPECT_STREQ "
         "EXPECT_THROW EXPECT_TRUE FAIL GTEST_SKIP SCOPED_TRACE SUCCEED TEST TEST_F TEST_P "
         "TYPED_TEST "
         "TYPED_TEST_SUITE"},
        {"gmock/gmock.h", "ASSERT_THAT EXPECT_THAT MATCHER MATCHER_P MATCHER_P2"},
        {"rapidcheck.h", "RC_ASSERT RC_FAIL RC_PRE RC_TAG rc"},
        {"rapidcheck/gtest.h", "RC_GTEST_FIXTURE_PROP RC_GTEST_PROP"},
        {"tl/expected.hpp", "tl"}};
    std::map<std::string, std::vector<std::string>> split;
    for (auto const& [header, all] : text) {
      std::istringstream words(all);
      for (std::string word; words >> word;) { split[header].push_back(word); }
    }
    return split;
  }();
  return names;
}

/// What compiles only because of the precompiled header: files under tests/ that use a name whose
/// header neither they nor headers of the repository behind them include.
class hidden_includes {
 public:
  explicit hidden_includes(std::vector<source_file> const& tree)
  {
    for (source_file const& file : tree) { files_.emplace(file.path, &file); }
    for (auto const& [header, names] : names_by_header()) {
      for (std::string const& name : names) { header_of_.emplace(name, header); }
    }
  }

  [[nodiscard]] problems operator()() const
  {
    problems found;
    for (auto const& [path, file] : files_) {
      if (!path.starts_with("tests/")) { continue; }
      std::set<std::string> seen;
      read(*file, seen);
      if (seen.contains("gmock/gmock.h") || seen.contains("rapidcheck/gtest.h")) {
        seen.insert("gtest/gtest.h");
      }
      if (seen.contains("rapidcheck/gtest.h")) { seen.insert("rapidcheck.h"); }
      for (std::string const& name : used(file->text)) {
        std::string const& header = header_of_.at(name);
        if (!seen.contains(header)) {
          found.push_back(path + ": " + name + " needs <" + header + ">");
        }
      }
    }
    return found;
  }

 private:
  // All that a file includes, itself or through others.
  void read(source_file const& file, std::set<std::string>& seen) const
  {
    for (included const& inner : includes_of(file)) {
      std::string name = inner.name;
      if (inner.quoted) {
        std::filesystem::path const folder = std::filesystem::path(file.path).parent_path();
        name = (folder / name).lexically_normal().generic_string();
      }
      auto const next = files_.find(name);
      if (seen.insert(name).second && next != files_.end()) { read(*next->second, seen); }
    }
  }

  // The names of the table that a text uses.
  [[nodiscard]] std::set<std::string> used(std::string_view text) const
  {
    std::set<std::string> names;
    token_list const tokens = tokens_of(text);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      bool const is_first = tokens.is_word(i) && (i == 0 || tokens.at(i - 1) != "::");
      if (!is_first) { continue; }
      std::size_t last = i;
      if (tokens.at(i) == "std") {
        last += tokens.at(i + 2) == "ranges" ? 4 : 2;
      } else if (bool const is_scope = tokens.at(i) == "rc" || tokens.at(i) == "tl"; is_scope) {
        if (tokens.at(i + 1) != "::") { continue; }
      } else if (!std::ranges::all_of(tokens.at(i), is_of_macros)) {
        continue;
      }
      std::string const name(tokens.at(last));
      if (header_of_.contains(name)) { names.insert(name); }
    }
    return names;
  }

  static bool is_of_macros(char c) { return c == '_' || (c >= 'A' && c <= 'Z'); }

  std::map<std::string, source_file const*> files_;
  std::map<std::string, std::string> header_of_;
};

}  // namespace structure

#endif  // BALLAST_TESTS_STRUCTURE_PRECOMPILED_HPP
