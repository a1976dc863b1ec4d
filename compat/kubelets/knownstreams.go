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
func KnownStreams() []StreamDifference { return nil }

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
