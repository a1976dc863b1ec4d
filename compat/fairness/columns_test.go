package fairness

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/apis/flowcontrol"
	"k8s.io/kubernetes/pkg/printers"
	"k8s.io/kubernetes/pkg/printers/internalversion"
)

// TestSameColumns shows random objects in the tables of both sides.
func TestSameColumns(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := random{rand.New(rand.NewPCG(seed, 0))}
	stock := printers.NewTableGenerator().With(internalversion.AddHandlers)
	show := func(plural string, object, internal runtime.Object) {
		t.Helper()
		resource := resource(plural)
		resource.Strategy.Default(object)
		if err := scheme.Convert(object, internal, nil); err != nil {
			t.Fatal(err)
		}
		table, err := stock.GenerateTable(internal, printers.GenerateOptions{Wide: true})
		if err != nil {
			t.Fatal(err)
		}
		// The name is the server's own column.
		var heads, cells []string
		for i, c := range resource.Columns {
			head := metav1.TableColumnDefinition{Name: c.Name, Type: c.Type, Format: c.Format, Description: c.Description, Priority: c.Priority}
			heads = append(heads, fmt.Sprintf("%+v", head))
			if i+1 < len(table.ColumnDefinitions) && heads[i] != fmt.Sprintf("%+v", table.ColumnDefinitions[i+1]) {
				t.Errorf("%s: column %s, want %+v", plural, heads[i], table.ColumnDefinitions[i+1])
			}
			cells = append(cells, fmt.Sprint(c.Value(object)))
		}
		var want []string
		for _, cell := range table.Rows[0].Cells[1:] {
			want = append(want, fmt.Sprint(cell))
		}
		if !slices.Equal(cells, want) {
			t.Errorf("%s: %q, want %q", plural, cells, want)
		}
	}
	for range 1000 {
		show("prioritylevelconfigurations", r.level(), &flowcontrol.PriorityLevelConfiguration{})
		show("flowschemas", r.schema(), &flowcontrol.FlowSchema{})
		if t.Failed() {
			return
		}
	}
}
