package compat

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/planekit/planekit/compat/stock"
	"github.com/planekit/planekit/internal/scenario"
)

var update = flag.Bool("update", false, "write what ran into COMPATIBILITY.md")

// programs is the directory of the cluster's programs.
var programs string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "planekit-programs-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = scenario.Build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	programs = dir
	if code := m.Run(); code != 0 {
		return code
	}
	if err := compareTable(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// row is a row of the table in COMPATIBILITY.md, which a test has just shown.
type row struct{ client, feature, test string }

var shown struct {
	sync.Mutex
	rows map[row]bool
}

// shows records that the test, if it passes with all its subtests, shows a feature of a client.
func shows(t *testing.T, client, feature string) {
	t.Helper()
	showsBy(t, client, feature, t.Name())
}

func showsBy(t *testing.T, client, feature, test string) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() || t.Skipped() {
			return
		}
		shown.Lock()
		defer shown.Unlock()
		if shown.rows == nil {
			shown.rows = map[row]bool{}
		}
		shown.rows[row{client, feature, test}] = true
	})
}

// The table is between these lines.
const (
	document   = "../COMPATIBILITY.md"
	tableBegin = "<!-- begin: written by the tests of compat (go test . -update) -->\n"
	tableEnd   = "<!-- end -->\n"
)

// modules are the modules of the clients in the table.
var modules = map[string]string{
	"kubectl":            "k8s.io/kubectl",
	"client-go":          "k8s.io/client-go",
	"controller-runtime": "sigs.k8s.io/controller-runtime",
}

// compareTable fails unless the document has the shown rows: exactly these if everything ran,
// otherwise at least these.
func compareTable() error {
	have, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(have), tableBegin)
	table, after, ended := strings.Cut(rest, tableEnd)
	if !ok || !ended {
		return fmt.Errorf("%s has no table between %q and %q", document, tableBegin, tableEnd)
	}
	lines, err := tableLines()
	if err != nil {
		return err
	}
	all := true
	for _, name := range []string{"test.run", "test.skip", "test.list", "test.bench"} {
		all = all && flag.Lookup(name).Value.String() == ""
	}
	if !all {
		for _, line := range lines {
			if !strings.Contains(table, line) {
				return fmt.Errorf("%s does not have this line; run all of the tests with -update:\n%s", document, line)
			}
		}
		return nil
	}
	want := "| client | what works | shown by |\n|---|---|---|\n" + strings.Join(lines, "")
	switch {
	case table == want:
		return nil
	case *update:
		return os.WriteFile(document, []byte(before+tableBegin+want+tableEnd+after), 0o644)
	}
	return fmt.Errorf("the table in %s is not what ran; run with -update. It should be:\n%s", document, want)
}

// tableLines returns the lines of the table for the shown rows.
func tableLines() ([]string, error) {
	versions := map[string]string{}
	for client, module := range modules {
		out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", module).Output()
		if err != nil {
			return nil, fmt.Errorf("version of %s: %w", module, err)
		}
		versions[client] = string(bytes.TrimSpace(out))
		if client == "kubectl" { // released as v1, while its module is v0
			versions[client] = strings.Replace(versions[client], "v0.", "v1.", 1)
		}
	}
	release, err := stock.Version(context.Background())
	if err != nil {
		return nil, err
	}
	for _, program := range []string{"kube-controller-manager", "kube-apiserver", "kubelet"} {
		versions[program] = release
	}
	shown.Lock()
	defer shown.Unlock()
	rows := slices.SortedFunc(maps.Keys(shown.rows), func(a, b row) int {
		return strings.Compare(a.client+"\x00"+a.test, b.client+"\x00"+b.test)
	})
	var lines []string
	for _, r := range rows {
		lines = append(lines, fmt.Sprintf("| %s %s | %s | `%s` |\n", r.client, versions[r.client], r.feature, r.test))
	}
	return lines, nil
}

// showsScripts records the features that the scripts in a directory show, from the comment in the
// first line of each.
func showsScripts(t *testing.T, client, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in %s: %v", dir, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(data), "\n")
		feature, ok := strings.CutPrefix(first, "# ")
		if !ok {
			t.Fatalf("%s does not begin with a comment that says what it shows", file)
		}
		showsBy(t, client, strings.TrimSuffix(feature, "."), t.Name()+"/"+strings.TrimSuffix(filepath.Base(file), ".txtar"))
	}
}
