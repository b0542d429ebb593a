// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <chrono>

namespace python {

namespace py = pybind11;

/// Arrays as src/ballast/__init__.py hands them over: read where they lie.
using integers = py::array_t<std::int64_t, py::array::c_style>;
using numbers = py::array_t<double, py::array::c_style>;
using optional_integers = std::optional<integers>;

inline constexpr std::int64_t most_32_bits = 0xffff'ffff;

template <class... Pieces>
[[noreturn]] void refuse(Pieces const&... pieces)
{
  throw py::value_error(
      ballast::fail(ballast::error_code::out_of_range, 0, pieces...).value().message);
}

/// The value, or a ValueError with the library's sentence.
template <class T>
T value(ballast::result<T> result)
{
  if (!result) { throw py::value_error(result.error().message); }
  return *std::move(result);
}

inline std::size_t in_range(char const* name, std::int64_t given, std::int64_t least,
                            std::int64_t most)
{
  if (given < least || given > most) {
    refuse(name, " is ", given, "; give a number from ", least, " to ", most);
  }
  return static_cast<std::size_t>(given);
}

/// A plan, and the seconds that C++ took to make it.
template <class Plan>
struct timed : Plan {
  double seconds = 0;
};

/// The interpreter's lock, given up while this lives. On Python's main thread it is taken now and then
/// to run the handlers of signals, such as that of Ctrl-C.
class released_lock {
 public:
  released_lock()
      : runs_handlers_(py::module_::import("threading")
                           .attr("main_thread")()
                           .attr("ident")
                           .cast<unsigned long>() == PyThread_get_thread_ident()),
        thread_(PyEval_SaveThread())
  {}
  released_lock(released_lock const&) = delete;
  released_lock& operator=(released_lock const&) = delete;
  ~released_lock() { PyEval_RestoreThread(thread_); }

  /// Whether a handler has raised: the exception is this thread's then. Asked as often as searches do.
  [[nodiscard]] bool has_raised()
  {
    ++polls_;
    if (!runs_handlers_ || polls_ % every_ != 0 || clock::now() < next_) { return false; }
    PyEval_RestoreThread(thread_);
    bool const raised = PyErr_CheckSignals() != 0;
    thread_ = PyEval_SaveThread();
    next_ = clock::now() + pause;
    every_ = polls_ > many ? 16 : 1;
    polls_ = 0;
    return raised;
  }

 private:
  using clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds pause{20};
  static constexpr std::uint32_t many = 20'000;  // in a pause: the clock would take a part of it

  bool runs_handlers_;
  PyThreadState* thread_;
  std::uint32_t polls_ = 0;
  std::uint32_t every_ = 1;
  clock::time_point next_ = clock::now() + pause;
};

/// Calls a planner without the interpreter's lock. Throws what a handler of a signal raised meanwhile.
template <class Planner>
auto unlocked(Planner const& planner)
{
  auto found = [&] {
    released_lock lock;
    ballast::cancellable const until([&lock] { return lock.has_raised(); });
    return planner();
  }();
  if (PyErr_Occurred() != nullptr) { throw py::error_already_set(); }
  return found;
}

/// Makes a plan. Each thread keeps the memory of its largest step.
template <class Plan, class Make>
timed<Plan> planned(Make const& make)
{
  static thread_local ballast::workspace memory;
  timed<Plan> plan;
  auto const done = unlocked([&] {
    auto const start = std::chrono::steady_clock::now();
    auto made = make(plan, memory);
    plan.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return made;
  });
  if (!done) { throw py::value_error(done.error().message); }
  return plan;
}

template <class T>
std::span<T const> numbers_of(py::array_t<T, py::array::c_style> const& array)
{
  return {array.data(), static_cast<std::size_t>(array.size())};
}

inline std::span<std::int64_t const> numbers_of(optional_integers const& array)
{
  return array ? numbers_of(*array) : std::span<std::int64_t const>();
}

template <class Id>
std::vector<Id> identifiers_of(char const* name, optional_integers const& array)
{
  std::vector<Id> ids;
  for (std::int64_t const each : numbers_of(array)) {
    ids.push_back(ballast::to_id<Id>(in_range(name, each, 0, most_32_bits)));
  }
  return ids;
}

/// An array that looks into what `owner` holds and keeps it alive; it cannot be written.
template <class T>
py::array view(std::span<T const> values, py::handle owner)
{
  py::object array;
  auto const count = static_cast<py::ssize_t>(values.size());
  if constexpr (ballast::identifier<T>) {
    using number = std::uint32_t;
    static_assert(sizeof(T) == sizeof(number));
    array = py::array_t<number>(count, reinterpret_cast<number const*>(values.data()), owner);
  } else {
    array = py::array_t<T>(count, values.data(), owner);
  }
  array.attr("setflags")(false);
  return array;
}

/// The property that shows a vector of a plan.
template <class Self, class Plan, class Vector>
auto array_of(Vector Plan::* member)
{
  return [member](py::object const& self) {
    auto const& values = self.cast<Self const&>().*member;
    return view(std::span<typename Vector::value_type const>(values), self);
  };
}

/// len(plan), plan[row] and the two arrays that the rows lie in.
template <class Plan>
void add_rows(py::class_<Plan>& type)
{
  type.def("__len__", [](Plan const& self) { return self.samples.size(); })
      .def("__getitem__",
           [](py::object const& self, std::int64_t row) {
             auto const& samples = self.cast<Plan const&>().samples;
             auto const rows = static_cast<std::int64_t>(samples.size());
             if (row < -rows || row >= rows) {
               throw py::index_error("row " + std::to_string(row) + " of " + std::to_string(rows));
             }
             auto const offsets = samples.offsets();
             auto const at = static_cast<std::size_t>(row < 0 ? row + rows : row);
             return view(samples.values().subspan(offsets[at], offsets[at + 1] - offsets[at]),
                         self);
           })
      .def_property_readonly("samples",
                             [](py::object const& self) {
                               return view(self.cast<Plan const&>().samples.values(), self);
                             })
      .def_property_readonly("offsets",
                             [](py::object const& self) {
                               return view(self.cast<Plan const&>().samples.offsets(), self);
                             })
      .def_property_readonly("digest", [](Plan const& self) { return self.digest(); })
      .def_property_readonly("seconds", [](Plan const& self) { return self.seconds; });
}

/// How good the plan is.
template <class Plan>
void add_certificate(py::class_<Plan>& type)
{
  type.def_property_readonly("makespan",
                             [](Plan const& self) { return ballast::ratio{self.makespan}.value(); })
      .def_property_readonly(
          "lower_bound", [](Plan const& self) { return ballast::ratio{self.lower_bound}.value(); })
      .def_property_readonly("gap", [](Plan const& self) { return self.gap(); })
      .def_property_readonly("proven_optimal",
                             [](Plan const& self) { return self.proven_optimal(); })
      .def_property_readonly("digest", [](Plan const& self) { return self.digest(); })
      .def_property_readonly("seconds", [](Plan const& self) { return self.seconds; });
}

}  // namespace python
