package kubelets

import (
	"regexp"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
)

// StreamDifference is a known difference of our kubelet's streams.
type StreamDifference struct {
	// Case matches the names of cases, and Line the lines that differ.
	Case, Line *regexp.Regexp
	// Why is in COMPATIBILITY.md. It is empty if the difference is one of timing.
	Why string
}

// KnownStreams returns the known differences.
func KnownStreams() []StreamDifference {
	row := func(cases, line, why string) StreamDifference {
		return StreamDifference{Case: regexp.MustCompile(cases), Line: regexp.MustCompile(line), Why: why}
	}
	return []StreamDifference{
		row(`^exec/(no-|empty-name|a-directory).*/websocket$`, `^end: (Internal error occurred: )+error executing command`,
			"wraps the status of the runtime in another one"),
		row(`^exec/raw-(v5|v4-v5)$`, `^channel 3: .*command terminated with non-zero exit code: `,
			"wraps the status of the runtime in another one"),
		row(`^exec/refused-no-command/`, `^end: .*(args must not be empty|you must specify a command)`,
			"begins the stream; the runtime fails"),
		row(`^attach/tty-not-asked/`, `^(stdout|end): `, "refused by the runtime: it is asked for both"),
		row(`^attach/tty-asked-without/websocket$`, `^(stdout: |end: |did not end$)`, "the stream waits until the runtime gives up"),
		row(`^exec/frames-bad-size$`, `^(channel [13]: |the status is last: |end: )`, "no further input is read"),
		row(`^portforward/container-deleted`, `^problem: `, "kept for some minutes"),
		row(`^refused/kubelet$`, `/proxy/exec/default/shell-0/\{uid\}/`, "the UID is ignored by exec"),
		row(`^refused/kubelet$`, `/proxy/run/`, "runs a command and returns its output"),
		row(`^(refused/kubelet|log/wrong)$`, `/proxy/[^ ]*: 40[45] .*"40[45]`, "404: Page Not Found"),
		row(`^log/wrong$`, `/proxy/.*: 405 .*Method Not Allowed`, "404: Page Not Found"),
		row(`^log/wrong$`, `/proxy/containerLogs/.*: 4[02][02] .*(Unable to decode query|Invalid request|is not a|is less than|may not be together)`,
			"does not name the option"),
		row(`^log/wrong$`, `sinceSeconds=9223372036854775807: 200 `, "overflows: nothing is shown"),
	}
}

func knownStream(name, line string) bool {
	for _, d := range KnownStreams() {
		if d.Case.MatchString(name) && d.Line.MatchString(line) {
			return true
		}
	}
	return false
}

// DiffStreams returns the lines by which a text of a case differs from the reference, but for the
// known differences.
func DiffStreams(name, reference, text string) string {
	out, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: difflib.SplitLines(reference), B: difflib.SplitLines(text), FromFile: "reference", ToFile: "this", Context: 2,
	})
	if err != nil {
		return err.Error()
	}
	for i, line := range strings.SplitAfter(out, "\n") {
		if i > 1 && (strings.HasPrefix(line, "+") || strings.HasPrefix(line, "-")) && !knownStream(name, strings.TrimRight(line[1:], "\n")) {
			return out
		}
	}
	return ""
}
