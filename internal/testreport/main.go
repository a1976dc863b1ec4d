// Command testreport runs go test and says at the end which tests were not run
// and why. Where the environment variable CI is set, a test that was not run
// fails the whole: there, everything the tests need is installed.
//
//	go run ./internal/testreport [go test arguments]
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

func main() {
	cmd := exec.Command("go", append([]string{"test", "-json"}, os.Args[1:]...)...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(2)
	}
	report := newReport(os.Stdout)
	report.read(stdout)
	err = cmd.Wait()
	report.close()
	if err != nil || report.failed > 0 || (os.Getenv("CI") != "" && len(report.skipped) > 0) {
		os.Exit(1)
	}
}

// event is one line of go test -json (go doc test2json).
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

type testName struct{ pkg, test string }

// report gathers what go test says.
type report struct {
	out            io.Writer
	output         map[testName][]string
	passed, failed int
	skipped        []string
}

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
	if e.Test == "" {
		r.pkg(e, output)
		return
	}
	switch e.Action {
	case "pass":
		r.passed++
	case "fail":
		r.failed++
		fmt.Fprint(r.out, strings.Join(output, ""))
	case "skip":
		r.skipped = append(r.skipped, fmt.Sprintf("%s %s: %s", e.Package, e.Test, reason(output)))
	}
}

// pkg prints the closing line of a package, and everything where it failed
// outside its tests: a build error, a panic, a data race after the last test.
func (r *report) pkg(e event, output []string) {
	if e.Action == "fail" {
		r.failed++
		fmt.Fprint(r.out, strings.Join(output, ""))
		return
	}
	for _, line := range output {
		if strings.HasPrefix(line, "ok ") || strings.HasPrefix(line, "? ") {
			fmt.Fprint(r.out, line)
		}
	}
}

// reason returns what a test said when it skipped.
func reason(output []string) string {
	for _, line := range slices.Backward(output) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "---") && !strings.HasPrefix(line, "===") {
			return line
		}
	}
	return "no reason given"
}

func (r *report) close() {
	for name, output := range r.output { // builds that failed have no end of their own
		if name.test == "" && name.pkg == "" {
			fmt.Fprint(r.out, strings.Join(output, ""))
		}
	}
	if len(r.skipped) > 0 {
		fmt.Fprintf(r.out, "\nnot run:\n  %s\n", strings.Join(r.skipped, "\n  "))
	}
	fmt.Fprintf(r.out, "\n%d passed, %d failed, %d skipped\n", r.passed, r.failed, len(r.skipped))
}
