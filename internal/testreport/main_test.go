package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	var out bytes.Buffer
	r := newReport(&out)
	r.read(strings.NewReader(`
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"noise\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"=== RUN   TestB\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:7: not running as root\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"--- SKIP: TestB (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestC","Output":"    c_test.go:9: wrong\n"}
{"Action":"fail","Package":"p","Test":"TestC"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p"}
{"Action":"output","Package":"q","Output":"ok  \tq\t0.1s\n"}
{"Action":"pass","Package":"q","Test":"TestD","Elapsed":7.2}
{"Action":"pass","Package":"q","Test":"TestE/sub","Elapsed":31}
{"Action":"pass","Package":"q","Test":"TestF","Elapsed":1}
{"Action":"pass","Package":"q"}
`))
	r.close()
	for _, want := range []string{
		"c_test.go:9: wrong", "FAIL\tp\t0.1s", "ok  \tq\t0.1s",
		"not run:\n  p TestB: b_test.go:7: not running as root\n", "failed:\n  p TestC\n  p\n", "\n4 passed, 2 failed, 1 skipped\n",
		"slowest:\n   31 s q TestE/sub\n    7 s q TestD\n\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in the report:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "noise") {
		t.Errorf("a passing test's output is in the report:\n%s", out.String())
	}
}

func TestGroups(t *testing.T) {
	have := groups([]string{"-race", "./...", "--", "-C", "compat", "./...", "--", "-C", "bench"})
	want := [][]string{{"-race", "./..."}, {"-C", "compat", "./..."}, {"-C", "bench"}}
	if !slices.EqualFunc(have, want, slices.Equal) {
		t.Errorf("%q, want %q", have, want)
	}
}

// TestEveryGroupRuns: a package that does not build hides neither the names of failed tests nor the
// later runs.
func TestEveryGroupRuns(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"bad/go.mod":          "module example.com/bad\n\ngo 1.26\n",
		"bad/bad_test.go":     "package bad\n\nvar x int = \"text\"\n",
		"good/go.mod":         "module example.com/good\n\ngo 1.26\n",
		"good/good_test.go":   "//go:build chosen\n\npackage good\n\nimport \"testing\"\n\nfunc TestGood(*testing.T) {}\n",
		"worse/go.mod":        "module example.com/worse\n\ngo 1.26\n\nrequire (\n",
		"worse/worse_test.go": "package worse\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	r := newReport(&out)
	for _, module := range []string{"worse", "bad", "good"} {
		if err := r.run([]string{"GOFLAGS=-tags=chosen", "-C", filepath.Join(dir, module), "./..."}); err != nil {
			t.Fatal(err)
		}
	}
	r.close()
	for _, want := range []string{"go test -C " + dir + "/worse", "  example.com/bad\n", "\n1 passed, 2 failed, 0 skipped\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in the report:\n%s", want, out.String())
		}
	}
}

// TestFlaky: a test that fails by chance passes the run and is listed. Others fail it: one that always fails, one
// of a package with a data race or a panic, and three that are flaky.
func TestFlaky(t *testing.T) {
	const header = "package x\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nvar _ = os.Remove\n"
	// The first run of a test leaves a file, and the next finds it.
	once := func(name, fail string) string {
		return "\nfunc Test" + name + "(t *testing.T) {\n\tt.Run(\"sub\", func(t *testing.T) {\n\t\tif _, err := os.Stat(\"" + name + "\"); err == nil {\n\t\t\treturn\n\t\t}\n\t\tos.WriteFile(\"" + name + "\", nil, 0o644)\n\t\t" + fail + "\n\t})\n}\n"
	}
	for name, test := range map[string]struct {
		tests         string
		flaky, failed []string
	}{
		"flaky":  {once("A", `t.Error("wrong")`) + "func TestB(t *testing.T) {}\n", []string{"TestA"}, nil},
		"wrong":  {once("A", `t.Error("wrong")`) + "func TestB(t *testing.T) { t.Error() }\n", []string{"TestA"}, []string{"TestB", ""}},
		"panics": {once("A", `panic("wrong")`), nil, []string{"TestA/sub", "TestA", ""}},
		"races":  {once("A", "t.Error(`testing.go:1: race detected during execution of test`)"), nil, []string{"TestA/sub", "TestA", ""}},
		"three": {once("A", "t.Fail()") + once("B", "t.Fail()") + once("C", "t.Fail()"), nil,
			[]string{"TestA/sub", "TestA", "TestB/sub", "TestB", "TestC/sub", "TestC", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{"go.mod": "module example.com/x\n\ngo 1.26\n", "x_test.go": header + test.tests} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			var out bytes.Buffer
			r := newReport(&out)
			if err := r.run([]string{"-C", dir, "-timeout", "1m", "./..."}); err != nil {
				t.Fatal(err)
			}
			r.close()
			var failed []string
			for _, f := range r.failed {
				failed = append(failed, f.test)
			}
			var flaky []string
			for _, name := range test.flaky {
				flaky = append(flaky, "example.com/x "+name)
			}
			if !slices.Equal(failed, test.failed) || !slices.Equal(r.flaky, flaky) {
				t.Errorf("run() leaves failed = %q, flaky = %q, want %q, %q:\n%s", failed, r.flaky, test.failed, flaky, &out)
			}
		})
	}
}
