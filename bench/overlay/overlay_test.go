//go:build linux

package main

import (
	"strings"
	"testing"
	"time"
)

// TestReport runs a short round of each side. It has no bar, for the machine may be busy.
func TestReport(t *testing.T) {
	var out strings.Builder
	report(t, &out, 1, 20*time.Millisecond, 10)
	if lines := strings.Count(out.String(), "\n"); lines != 7 || strings.Contains(out.String(), " 0.00 Gbit/s") {
		t.Errorf("the table is\n%s", out.String())
	}
}
