package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// write creates a tree with the files.
func write(t *testing.T, files map[string]string) (root string) {
	root = t.TempDir()
	for name, content := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestShape(t *testing.T) {
	root := write(t, map[string]string{
		"a/a.go":            "package a\n\n// T is a type.\ntype T[K any] struct{}\n\n// Get gets.\nfunc (t *T[K]) Get() {}\n\nfunc (t *T[K]) put() {}\n\nfunc Bare() {}\n",
		"a/b.go":            "package a\n\n// Names.\nconst (\n\tA = 1\n\tb = 2\n)\n",
		"a/a_test.go":       "package a\n",
		"a/internal/c.go":   "package internal\n\nfunc Hidden() {}\n",
		"examples/e/e.go":   "package main\n\nfunc Main() {}\n",
		"bench/x.go":        "package bench\n",
		"a/testdata/bad.go": "not Go\n",
		"ARCHITECTURE.md":   "# A\n\n## Where do I add ...\n\n### a list\n\n1. one\n2. two, or\n   3.5\n\n### a diff\n\n1. see\n\n+++ b/x\n+++ b/y\n\n## Other\n\n### not this\n",
	})
	rows, err := shape(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []row{
		{"lines of Go: library", "21"},
		{"lines of Go: examples", "3"},
		{"lines of Go: tests", "1"},
		{"lines of Go: bench and compat", "1"},
		{"files without tests", "4"},
		{"the ten fullest folders (files)", "a 2, a/internal 1, examples/e 1"},
		{"the types with the most methods", "a.T 2"},
		{"exported names", "4"},
		{"exported names without a comment", "1"},
		{"functions over 60 lines", "0"},
		{"lines of the longest function", "1"},
		{"places to touch for a list", "2"},
		{"places to touch for a diff", "2"},
	} {
		if !slices.Contains(rows, want) {
			t.Errorf("no row %q in %q", want, rows)
		}
	}
	if len(rows) != 14 {
		t.Errorf("%d rows", len(rows))
	}
}

func TestPrint(t *testing.T) {
	var out bytes.Buffer
	print(&out, []string{"old", "."}, [][]row{{{"x", "1"}, {"gone", "2"}}, {{"x", "3"}, {"new", "4"}}})
	want := "| | old | . |\n|---|---:|---:|\n| x | 1 | 3 |\n| new | - | 4 |\n| gone | 2 | - |\n"
	if out.String() != want {
		t.Errorf("%s, want\n%s", &out, want)
	}
}

func TestUntilReady(t *testing.T) {
	root := write(t, map[string]string{
		"good": "#!/bin/sh\ntrap 'exit 0' INT\necho ready in 1ms: x\nwhile :; do sleep 0.01; done\n",
		"bad":  "#!/bin/sh\nexit 3\n",
	})
	for _, name := range []string{"good", "bad"} {
		if err := os.Chmod(filepath.Join(root, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if ready, _, err := untilReady(filepath.Join(root, "good"), nil); err != nil || ready <= 0 || ready > patience {
		t.Error(ready, err)
	}
	if _, _, err := untilReady(filepath.Join(root, "bad"), nil); err == nil {
		t.Error("a program that fails is ready")
	}
	if got := spread([]time.Duration{3e6, 1e6, 2e6}); got != "1, 2" {
		t.Error(got)
	}
}
