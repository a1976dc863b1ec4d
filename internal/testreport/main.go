// Command testreport runs go test in one or more modules and then reports which tests failed,
// which were skipped and why, and which took longest. If the environment variable CI is set, a skipped test is a failure,
// because CI has everything that the tests need.
//
//	go run ./internal/testreport [go test arguments] [-- more go test arguments ...]
//
// Each group of arguments is one run of go test. It may begin with NAME=VALUE, which is added to
// the environment, and then with "-C DIR", which runs the tests of another module. Packages are given as
// paths that begin with a dot. Every group runs, even if an earlier one failed.
//
// A test that fails is run once more, alone. If it passes then, it is listed as flaky and the run passes,
// unless three tests are flaky. Packages that panic, time out, have a data race or do not build are not run again.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

func main() {
	report := newReport(os.Stdout)
	for _, arguments := range groups(os.Args[1:]) {
		if err := report.run(arguments); err != nil {
			fmt.Fprintln(os.Stderr, "testreport:", err)
			os.Exit(2)
		}
	}
	report.close()
	if len(report.failed) > 0 || len(report.flaky) >= tooFlaky || (os.Getenv("CI") != "" && len(report.skipped) > 0) {
		os.Exit(1)
	}
}

// groups splits the arguments at each "--".
func groups(arguments []string) [][]string {
	var out [][]string
	for {
		i := slices.Index(arguments, "--")
		if i < 0 {
			return append(out, arguments)
		}
		out = append(out, arguments[:i])
		arguments = arguments[i+1:]
	}
}

// assignment matches an assignment to an environment variable.
var assignment = regexp.MustCompile(`^[A-Z][A-Z0-9_]*=`)

// run runs go test, and the tests that failed once more, and adds the results. It returns an error only
// if go test cannot be started.
func (r *report) run(arguments []string) error {
	c := commandOf(arguments)
	before := len(r.failed)
	err := c.start(func(stdout io.Reader) { r.read(stdout) })
	var exit *exec.ExitError
	switch {
	case err == nil:
	case !errors.As(err, &exit):
		return err
	case len(r.failed) == before:
		// No test and no package has failed, so go test itself has, and has printed why.
		r.failed = append(r.failed, failure{testName{pkg: fmt.Sprintf("%v: %v", c, err)}, true})
	}
	r.again(c, before)
	return nil
}

// command is one run of go test.
type command struct {
	environment []string
	folder      []string // -C and a directory, or nothing: go requires it first
	flags       []string
	packages    []string
}

func commandOf(arguments []string) command {
	var c command
	for len(arguments) > 0 && assignment.MatchString(arguments[0]) {
		c.environment, arguments = append(c.environment, arguments[0]), arguments[1:]
	}
	if len(arguments) > 1 && arguments[0] == "-C" {
		c.folder, arguments = arguments[:2], arguments[2:]
	}
	for _, a := range arguments {
		if strings.HasPrefix(a, ".") {
			c.packages = append(c.packages, a)
		} else {
			c.flags = append(c.flags, a)
		}
	}
	return c
}

func (c command) String() string {
	return strings.Join(slices.Concat([]string{"go", "test"}, c.folder, []string{"-json"}, c.flags, c.packages), " ")
}

// start runs the command and has read read its output.
func (c command) start(read func(io.Reader)) error {
	cmd := exec.Command("go", slices.Concat([]string{"test"}, c.folder, []string{"-json"}, c.flags, c.packages)...)
	cmd.Env, cmd.Stderr = append(os.Environ(), c.environment...), os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	read(stdout)
	return cmd.Wait()
}

// event is one line of go test -json (go doc test2json).
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64 // seconds
}

type testName struct{ pkg, test string }

func (n testName) String() string { return strings.TrimSpace(n.pkg + " " + n.test) }

// report collects the results of go test.
type report struct {
	out     io.Writer
	output  map[testName][]string
	passed  int
	failed  []failure
	flaky   []string
	skipped []string
	slow    []timed
	ended   func(event) // is called at the end of each test and package; nil if nothing is
}

// timed is a test or a package that took long.
type timed struct {
	seconds float64
	name    string
}

// Tests that take at least slowest seconds are listed, the first mostSlow of them.
const (
	slowest  = 5
	mostSlow = 30
)

func newReport(out io.Writer) *report {
	return &report{out: out, output: map[testName][]string{}}
}

func (r *report) read(stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Fprintln(r.out, lines.Text()) // a build error from before -json
			continue
		}
		r.add(e)
	}
}

func (r *report) add(e event) {
	name := testName{e.Package, e.Test}
	switch e.Action {
	case "output", "build-output":
		r.output[name] = append(r.output[name], e.Output)
		return
	case "pass", "fail", "skip":
	default:
		return
	}
	if r.ended != nil {
		r.ended(e)
	}
	output := r.output[name]
	delete(r.output, name)
	if e.Elapsed >= slowest && e.Test != "" {
		r.slow = append(r.slow, timed{e.Elapsed, e.Package + " " + e.Test})
	}
	if e.Test == "" {
		r.pkg(e, output)
		return
	}
	switch e.Action {
	case "pass":
		r.passed++
	case "fail":
		r.fail(name, output)
	case "skip":
		r.skipped = append(r.skipped, fmt.Sprintf("%s %s: %s", e.Package, e.Test, reason(output)))
	}
}

// pkg prints the last line of a package, and all its output if it failed outside its tests: a build
// error, a panic, a data race after the last test.
func (r *report) pkg(e event, output []string) {
	if e.Action == "fail" {
		r.fail(testName{pkg: e.Package}, output)
		return
	}
	for _, line := range output {
		if strings.HasPrefix(line, "ok ") || strings.HasPrefix(line, "? ") {
			fmt.Fprint(r.out, line)
		}
	}
}

// reason returns the message of a skipped test.
func reason(output []string) string {
	for _, line := range slices.Backward(output) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "---") && !strings.HasPrefix(line, "===") {
			return line
		}
	}
	return "no reason given"
}

// fail adds a test or package that failed, and prints its output.
func (r *report) fail(name testName, output []string) {
	text := strings.Join(output, "")
	r.failed = append(r.failed, failure{name, broken.MatchString(text)})
	fmt.Fprint(r.out, text)
}

// close prints the remaining output and the summary.
func (r *report) close() {
	for name, output := range r.output { // failed builds have no end event
		if name.test == "" && name.pkg == "" {
			fmt.Fprint(r.out, strings.Join(output, ""))
		}
	}
	slices.SortFunc(r.slow, func(a, b timed) int { return cmp.Compare(b.seconds, a.seconds) })
	var slow []string
	for _, one := range r.slow[:min(len(r.slow), mostSlow)] {
		slow = append(slow, fmt.Sprintf("%3.0f s %s", one.seconds, one.name))
	}
	r.names("slowest", slow)
	r.names("not run", r.skipped)
	r.names("flaky: failed, and passed alone", r.flaky)
	var failed []string
	for _, f := range r.failed {
		failed = append(failed, f.String())
	}
	r.names("failed", failed)
	fmt.Fprintf(r.out, "\n%d passed, %d failed, %d skipped\n", r.passed, len(r.failed), len(r.skipped))
}

func (r *report) names(title string, names []string) {
	if len(names) > 0 {
		fmt.Fprintf(r.out, "\n%s:\n  %s\n", title, strings.Join(names, "\n  "))
	}
}
