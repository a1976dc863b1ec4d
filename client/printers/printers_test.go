package printers_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/planekit/planekit/client/printers"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func pods(rows ...[]any) *metav1.Table {
	t := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name"}, {Name: "Ready", Type: "string"}, {Name: "Restarts", Type: "integer"},
		{Name: "Node", Type: "string", Priority: 1},
	}}
	for _, cells := range rows {
		t.Rows = append(t.Rows, metav1.TableRow{Cells: cells,
			Object: runtime.RawExtension{Raw: []byte(`{"metadata":{"namespace":"shop"}}`)}})
	}
	return t
}

func Example() {
	p := printers.NewTable(os.Stdout, printers.TableOptions{})
	if err := p.Print(pods([]any{"web-1", "1/1", int64(0), "a"}, []any{"a-longer-name", "0/1", int64(12), "b"})); err != nil {
		fmt.Println(err)
	}
	// Output:
	// NAME            READY   RESTARTS
	// web-1           1/1     0
	// a-longer-name   0/1     12
}

func TestTable(t *testing.T) {
	row := []any{"web", "1/1", int64(0), "node-a"}
	for name, test := range map[string]struct {
		options printers.TableOptions
		tables  []*metav1.Table
		want    string
	}{
		"wide": {printers.TableOptions{Wide: true}, []*metav1.Table{pods(row)},
			"NAME   READY   RESTARTS   NODE\nweb    1/1     0          node-a\n"},
		"namespace": {printers.TableOptions{WithNamespace: true}, []*metav1.Table{pods(row)},
			"NAMESPACE   NAME   READY   RESTARTS\nshop        web    1/1     0\n"},
		"no headers": {printers.TableOptions{NoHeaders: true}, []*metav1.Table{pods(row)},
			"web   1/1   0\n"},
		"kind": {printers.TableOptions{Kind: "pod"}, []*metav1.Table{pods(row)},
			"NAME      READY   RESTARTS\npod/web   1/1     0\n"},
		"nothing": {printers.TableOptions{}, []*metav1.Table{pods()}, ""},
		"watch": {printers.TableOptions{}, []*metav1.Table{pods([]any{"longer-name", "1/1", int64(0)}), {Rows: pods(row).Rows}, pods(row)},
			"NAME          READY   RESTARTS\nlonger-name   1/1     0\nweb           1/1     0\nweb           1/1     0\n"},
		"few cells": {printers.TableOptions{}, []*metav1.Table{pods([]any{"web"})},
			"NAME   READY   RESTARTS\nweb            \n"},
		"many cells": {printers.TableOptions{}, []*metav1.Table{pods([]any{"web", nil, "x", "y", "z"})},
			"NAME   READY   RESTARTS\nweb            x\n"},
		"harmless": {printers.TableOptions{}, []*metav1.Table{pods([]any{"a\x1b[31m", "two\nlines", "t\ta"})},
			"NAME      READY    RESTARTS\na^[[31m   two...   t a\n"},
	} {
		var b bytes.Buffer
		p := printers.NewTable(&b, test.options)
		for _, table := range test.tables {
			if err := p.Print(table); err != nil {
				t.Errorf("%s: Print: %v", name, err)
			}
		}
		if b.String() != test.want || p.Printed() != (test.want != "") {
			t.Errorf("%s:\n%s\nwant\n%s", name, b.String(), test.want)
		}
	}
}

func TestNamespaceNeedsMetadata(t *testing.T) {
	table := pods([]any{"web"})
	table.Rows[0].Object.Raw = nil
	if err := printers.NewTable(&bytes.Buffer{}, printers.TableOptions{WithNamespace: true}).Print(table); err == nil {
		t.Error("no error")
	}
}

func TestObjects(t *testing.T) {
	o, err := printers.Parse([]byte(`{"kind":"Pod","metadata":{"name":"web","managedFields":[{}],"generation":9007199254740993},"spec":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, write := range []error{
		printers.YAML(&b, o), printers.JSON(&b, printers.List(o)), printers.Name(&b, "deployment.apps", "nginx", "created"),
		printers.Name(&b, "pod", "web", ""), printers.None(&b, "default"), printers.None(&b, ""),
	} {
		if write != nil {
			t.Error(write)
		}
	}
	want := `kind: Pod
metadata:
  generation: 9007199254740993
  name: web
spec: {}
{
    "apiVersion": "v1",
    "items": [
        {
            "kind": "Pod",
            "metadata": {
                "generation": 9007199254740993,
                "name": "web"
            },
            "spec": {}
        }
    ],
    "kind": "List",
    "metadata": {
        "resourceVersion": ""
    }
}
deployment.apps/nginx created
pod/web
No resources found in default namespace.
No resources found
`
	if b.String() != want {
		t.Errorf("the printers wrote\n%s\nwant\n%s", b.String(), want)
	}
	if _, ok := o["metadata"].(printers.Object)["managedFields"]; !ok {
		t.Error("the object was changed")
	}
	for _, bad := range []string{"", "null", "[]", "1", "{"} {
		if _, err := printers.Parse([]byte(bad)); err == nil {
			t.Errorf("%q is parsed", bad)
		}
	}
}

// FuzzTable shows that no cell breaks the layout or reaches the terminal raw.
func FuzzTable(f *testing.F) {
	f.Add("web", "1/1")
	f.Add("a\nb", "\x1b]0;x\x07")
	f.Fuzz(func(t *testing.T, a, b string) {
		var out bytes.Buffer
		if err := printers.NewTable(&out, printers.TableOptions{NoHeaders: true}).Print(pods([]any{a, b, "end"})); err != nil {
			t.Fatal(err)
		}
		text, ok := strings.CutSuffix(out.String(), "end\n")
		if !ok || strings.ContainsAny(text, "\n\x1b\r\x07\t") {
			t.Fatalf("Print of %q and %q wrote %q, want one line without control characters that ends with \"end\"", a, b, out.String())
		}
		if utf8.RuneCountInString(text) < 2*6 {
			t.Fatalf("columns too narrow: %q", text)
		}
	})
}
