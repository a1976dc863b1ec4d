package kindtest

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/planekit/planekit/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
)

// columns reads testdata/columns: after the heads of the table on a line "=> a | b", objects, each
// followed by its row in the same form. Heads of priority 1 are in brackets. Now is the first second
// of the year 2000.
func columns(t *testing.T, resources []apiserver.Resource) {
	for file, data := range read(t, "columns") {
		t.Run(file, func(t *testing.T) {
			r := find(t, resources, strings.TrimSuffix(file, ".yaml"))
			synctest.Test(t, func(t *testing.T) { expectRows(t, r, data) })
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
		obj := Decode(t, r.New, doc)
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
