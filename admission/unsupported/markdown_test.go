package unsupported

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table into COMPATIBILITY.md")

const (
	document = "../../COMPATIBILITY.md"
	begin    = "<!-- begin: written by the table of admission/unsupported (go test ./admission/unsupported -update) -->\n"
	end      = "<!-- end of the table of admission/unsupported -->\n"
)

// TestDocument: COMPATIBILITY.md has the table as it is.
func TestDocument(t *testing.T) {
	have, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(have), begin)
	table, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Fatalf("%s has no table between %q and %q", document, begin, end)
	}
	want := Markdown(Table())
	if table == want {
		return
	}
	if !*update {
		t.Fatalf("the table in %s is not that of admission/unsupported: run this test with -update. It should be:\n%s", document, want)
	}
	if err := os.WriteFile(document, []byte(before+begin+want+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestRows: each row can be a cell of a table and a sentence after a colon.
func TestRows(t *testing.T) {
	resource := regexp.MustCompile(`^[a-z]+(\.[a-z0-9.-]+)?$`)
	seen := map[string]int{}
	for _, row := range Table() {
		seen[row.In+" "+row.Path]++
		switch {
		case row.In != Pods && !resource.MatchString(row.In),
			row.Effect == "", strings.ContainsAny(row.Effect, "|\n\""), strings.HasSuffix(row.Effect, "."):
			t.Errorf("row %+v, want In to be %q or to match %v, and a non-empty Effect with no newline, pipe, quote or final full stop",
				row, Pods, resource)
		case seen[row.In+" "+row.Path] > 1 && row.When == nil:
			t.Errorf("%s %s comes twice", row.In, row.Path)
		}
	}
}

// eachSource calls f with each file of Go below dir that is no test.
func eachSource(dir string, f func(file string)) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			f(path)
		}
		return err
	})
}
