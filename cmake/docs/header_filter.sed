# SPDX-License-Identifier: Apache-2.0
# A header as Doxygen has to read it: it is a page of its own, by its path; the inline namespace is no part
# of names; each label of a comment, and each of its numbered promises, begins a line.
1s|.*|/// @file|
s|^namespace ballast::inline v0|namespace ballast|
s#^\( *///\) \(Shapes\|Units\|In/out\|Expects\|Ensures\|Errors\|Complexity\|Source\)  *#\1 <br><b>\2</b> #
s#^\( *///\)  *(\([0-9]*\)) #\1 <br>(\2) #
