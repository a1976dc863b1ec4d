package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// tooFlaky is the number of flaky tests that fails a run. With so many failures, none is run again either.
const tooFlaky = 3

// A failure is a test or, without the name of a test, a package that failed.
type failure struct {
	testName
	// broken is set if chance is no excuse.
	broken bool
}

// broken matches the output of packages whose other tests may not have run, or that have a data race.
var broken = regexp.MustCompile(`(?m)^panic: |^fatal error: |^WARNING: DATA RACE|race detected during execution`)

// top is the test that f is or is in. It is the zero value for a package.
func (f failure) top() testName {
	test, _, _ := strings.Cut(f.test, "/")
	return testName{f.pkg, test}
}

// again runs the tests of r.failed[from:] once more, each alone, and takes those that pass off the list.
func (r *report) again(c command, from int) {
	var tests []testName
	for _, f := range r.failed[from:] {
		inside := slices.ContainsFunc(r.failed[from:], func(other failure) bool { return other.pkg == f.pkg && other.test != "" })
		switch {
		case f.broken, f.test == "" && !inside:
			return
		case f.test != "" && !slices.Contains(tests, f.top()):
			tests = append(tests, f.top())
		}
	}
	if len(r.flaky)+len(tests) >= tooFlaky {
		return
	}
	for _, test := range tests {
		if r.passes(c, test) {
			r.flaky = append(r.flaky, test.String())
			r.forgive(from, test)
		}
	}
}

// passes runs one test alone.
func (r *report) passes(c command, test testName) bool {
	fmt.Fprintf(r.out, "once more, alone: %s\n", test)
	c.packages = []string{test.pkg}
	c.flags = append(slices.Clone(c.flags), "-count=1", "-run=^"+regexp.QuoteMeta(test.test)+"$")
	alone := newReport(io.Discard)
	passed := false
	err := c.start(func(stdout io.Reader) {
		alone.ended = func(e event) { passed = passed || e.Action == "pass" && e.Package == test.pkg && e.Test == test.test }
		alone.read(stdout)
	})
	return err == nil && passed
}

// forgive takes a test off r.failed[from:], with the tests in it, and its package if nothing else of it failed.
func (r *report) forgive(from int, test testName) {
	kept := r.failed[:from:from]
	for _, f := range r.failed[from:] {
		if f.top() != test {
			kept = append(kept, f)
		}
	}
	if !slices.ContainsFunc(kept[from:], func(f failure) bool { return f.pkg == test.pkg && f.test != "" }) {
		kept = slices.DeleteFunc(kept, func(f failure) bool { return f.testName == testName{pkg: test.pkg} })
	}
	r.failed = kept
}
