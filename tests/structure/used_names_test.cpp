// SPDX-License-Identifier: Apache-2.0
#include "used_names.hpp"
#include "declared_names.hpp"
#include "tokens.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Uses of `a` and `b`, in code of namespaces `ours` and `detail`.
std::vector<std::string> uses_in(std::string_view code)
{
  auto const tokens = structure::tokens_of(code);
  std::vector<std::string> uses;
  for (auto const& [name, space] :
       structure::names_used_by(tokens, structure::names_declared_by(tokens), {"ours", "detail"},
                                [](std::string_view name) { return name == "a" || name == "b"; })) {
    uses.push_back(std::string(space) + (space.empty() ? "" : "::") + std::string(name));
  }
  return uses;
}

TEST(UsedNames, AreThoseOfOurNamespaces)
{
  EXPECT_THAT(uses_in("a x = b(1);"), ElementsAre("a", "b"));
  EXPECT_THAT(uses_in("ours::detail::a x; ours::b y;"), ElementsAre("detail::a", "ours::b"));
  EXPECT_THAT(uses_in("std::a x; type::b y; ::a z; type<int>::b w;"), IsEmpty());
  EXPECT_THAT(uses_in("void f() { namespace fixed = ours; fixed::a(); }"), ElementsAre("fixed::a"));
  EXPECT_THAT(uses_in("template <a T, class U = b> struct s {};"), ElementsAre("a", "b"));
}

TEST(UsedNames, AreNeitherMembersNorOwnDeclarations)
{
  EXPECT_THAT(uses_in("int f() { return x.a + y->b() + z{.a = 1}; }"), IsEmpty());
  EXPECT_THAT(uses_in("struct a {}; int b(int x) { return x; }"), IsEmpty());
  EXPECT_THAT(uses_in("struct s { friend class a; };"), IsEmpty());
  EXPECT_THAT(uses_in("#define X a\n// a\nchar const* s = \"b\";"), IsEmpty());
}

TEST(UsedNames, AreHiddenByMembersInTheWholeClass)
{
  EXPECT_THAT(uses_in("struct s { int f() { return a + b(1); } int a; int b(int x); };"),
              IsEmpty());
  EXPECT_THAT(uses_in("struct s { std::vector<int> a{}; auto* b = nullptr; }; a x;"),
              ElementsAre("a"));
  EXPECT_THAT(uses_in("struct s { int x = a; ours::b b; };"), ElementsAre("a", "ours::b"));
  EXPECT_THAT(uses_in("struct s { void (*a)(int) = nullptr; int f() { return a(1); } };"),
              IsEmpty());
  EXPECT_THAT(uses_in("enum class e { a, b }; e x = e::a; b y;"), ElementsAre("b"));
}

TEST(UsedNames, AreHiddenByParametersInTheFunction)
{
  EXPECT_THAT(uses_in("int f(int a, t const& b) noexcept { return a + b; }"), IsEmpty());
  EXPECT_THAT(uses_in("int f(int a); int g = a;"), ElementsAre("a"));
  EXPECT_THAT(uses_in("struct s { s(int a) : x(a), y{a} { z = a; } int w = a; };"),
              ElementsAre("a"));
  EXPECT_THAT(uses_in("auto f = [](auto&& a) { return a; }(b);"), ElementsAre("b"));
  EXPECT_THAT(uses_in("template <int a> struct s { int x = a; }; int y = a;"), ElementsAre("a"));
}

TEST(UsedNames, AreHiddenByVariablesToTheEndOfTheBlock)
{
  EXPECT_THAT(uses_in("void f() { { int a = 1; g(a); } a(); }"), ElementsAre("a"));
  EXPECT_THAT(uses_in("void f() { a(); int a = 1; g(a); }"), ElementsAre("a"));
  EXPECT_THAT(uses_in("void f() { for (auto const& [a, b] : x) { g(a, b); } }"), IsEmpty());
  EXPECT_THAT(uses_in("void f() { auto const [a, b] = x; g(a, b); }"), IsEmpty());
  EXPECT_THAT(uses_in("void f() { if (int const a = g()) { h(a); } b(a); }"),
              ElementsAre("b", "a"));
  EXPECT_THAT(uses_in("auto f = [a = 1] { return a; };"), IsEmpty());
}

TEST(UsedNames, StandInExpressionsToo)
{
  EXPECT_THAT(uses_in("int x() { return a(1); }"), ElementsAre("a"));
  EXPECT_THAT(uses_in("bool x = y && a(1) && z > b;"), ElementsAre("a", "b"));
  EXPECT_THAT(uses_in("int x = y * a; int z = y & b;"), ElementsAre("a", "b"));
  EXPECT_THAT(uses_in("void f() { if (x) { y(); } else { a(); } throw b{}; }"),
              ElementsAre("a", "b"));
}

}  // namespace
