package kube_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/planekit/planekit/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestColumns reads testdata/columns: after the heads of the table on a line
// "=> a | b", objects, each followed by its row in the same form. Priority 1
// heads are in brackets. Now is the first second of the year 2000.
func TestColumns(t *testing.T) {
	files, err := filepath.Glob("testdata/columns/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		plural := strings.TrimSuffix(filepath.Base(file), ".yaml")
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(plural, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { expectRows(t, resource(plural), string(data)) })
		})
	}
}

func expectRows(t *testing.T, r apiserver.Resource, data string) {
	head, data, _ := strings.Cut(strings.TrimPrefix(data, "=> "), "\n")
	expect(t, "heads", heads(r), head)
	for data != "" {
		doc, rest, ok := strings.Cut(data, "\n=> ")
		if !ok {
			t.Fatalf("no row after %s", data)
		}
		row, next, _ := strings.Cut(rest, "\n")
		obj := decode(t, r.New, doc)
		if r.Strategy.Default != nil {
			r.Strategy.Default(obj)
		}
		expect(t, doc, cells(r, obj), row)
		data = next
	}
}

func expect(t *testing.T, what, have, want string) {
	t.Helper()
	if have != want {
		t.Errorf("%s\nhave %s\nwant %s", what, have, want)
	}
}

func heads(r apiserver.Resource) string {
	var out []string
	for _, c := range r.Columns {
		if c.Priority > 0 {
			out = append(out, "("+c.Name+")")
		} else {
			out = append(out, c.Name)
		}
	}
	return strings.Join(out, " | ")
}

func cells(r apiserver.Resource, obj runtime.Object) string {
	var out []string
	for _, c := range r.Columns {
		out = append(out, fmt.Sprint(c.Value(obj)))
	}
	return strings.Join(out, " | ")
}
