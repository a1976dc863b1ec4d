package main

import (
	"strings"
	"testing"
)

// TestBothKnow: both sides authenticate the user in every measured way.
func TestBothKnow(t *testing.T) {
	var out strings.Builder
	if err := run(&out, 1, 10); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(out.String(), "\n"); lines != 6 {
		t.Errorf("%d lines:\n%s", lines, &out)
	}
}
