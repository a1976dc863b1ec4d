// Command testreport runs go test in one or more modules and then reports which tests failed,
// which were skipped and why, and which took longest. If the environment variable CI is set, a skipped test is a failure,
// because CI has everything that the tests need.
//
//	go run ./internal/testreport [go test arguments] [-- more go test arguments ...]
//
// Each group of arguments is one run of go test. It may begin with NAME=VALUE, which is added to
// the environment, and then with "-C DIR", which runs the tests of another module. Every group
// runs, even if an earlier one failed.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
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
	if len(report.failed) > 0 || (os.Getenv("CI") != "" && len(report.skipped) > 0) {
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

// run runs go test and adds its results. It returns an error only if go test cannot be started.
func (r *report) run(arguments []string) error {
	environment := os.Environ()
	for len(arguments) > 0 && assignment.MatchString(arguments[0]) {
		environment, arguments = append(environment, arguments[0]), arguments[1:]
	}
	full := []string{"test"}
	if len(arguments) > 1 && arguments[0] == "-C" { // go requires it first
		full, arguments = append(full, arguments[:2]...), arguments[2:]
	}
	cmd := exec.Command("go", append(append(full, "-json"), arguments...)...)
	cmd.Env, cmd.Stderr = environment, os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	before := len(r.failed)
	r.read(stdout)
	if err := cmd.Wait(); err != nil && len(r.failed) == before {
		// No test and no package has failed, so go test itself has, and has printed why.
		r.failed = append(r.failed, fmt.Sprintf("go %s: %v", strings.Join(cmd.Args[1:], " "), err))
	}
	return nil
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

// report collects the results of go test.
type report struct {
	out             io.Writer
	output          map[testName][]string
	passed          int
	failed, skipped []string
	slow            []timed
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
		r.failed = append(r.failed, e.Package+" "+e.Test)
		fmt.Fprint(r.out, strings.Join(output, ""))
	case "skip":
		r.skipped = append(r.skipped, fmt.Sprintf("%s %s: %s", e.Package, e.Test, reason(output)))
	}
}

// pkg prints the last line of a package, and all its output if it failed outside its tests: a build
// error, a panic, a data race after the last test.
func (r *report) pkg(e event, output []string) {
	if e.Action == "fail" {
		r.failed = append(r.failed, e.Package)
		fmt.Fprint(r.out, strings.Join(output, ""))
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
	r.names("failed", r.failed)
	fmt.Fprintf(r.out, "\n%d passed, %d failed, %d skipped\n", r.passed, len(r.failed), len(r.skipped))
}

func (r *report) names(title string, names []string) {
	if len(names) > 0 {
		fmt.Fprintf(r.out, "\n%s:\n  %s\n", title, strings.Join(names, "\n  "))
	}
}
