//go:build linux

package main

import (
	"os"
	"strings"
	"testing"
)

// TestReport runs the program in a short form. It checks no times.
func TestReport(t *testing.T) {
	if os.Getuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("network namespaces need root")
		}
		t.Skip("network namespaces need root")
	}
	var out strings.Builder
	if _, err := report(t.Context(), &out, 2, 4, 1); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2*6+1 {
		t.Fatalf("%d lines:\n%s", len(lines), out.String())
	}
	for _, line := range lines {
		if line != "" && strings.Count(line, "|") != 13 {
			t.Errorf("a row of another width: %s", line)
		}
	}
}
