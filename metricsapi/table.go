package metricsapi

import (
	"mime"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// columns lists the columns that metrics-server has.
var columns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name", Description: "Name of the resource"},
	{Name: "cpu", Type: "string", Format: "quantity"},
	{Name: "memory", Type: "string", Format: "quantity"},
	{Name: "Window", Type: "string", Format: "duration", Description: "Time over which the usage was measured"},
}

// newTable returns an empty table.
func newTable() *metav1.Table {
	return &metav1.Table{
		TypeMeta:          metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "Table"},
		ColumnDefinitions: columns, Rows: []metav1.TableRow{},
	}
}

// addRow adds a row. The object in it is what includeObject asks for.
func addRow(t *metav1.Table, meta *metav1.ObjectMeta, used corev1.ResourceList, window metav1.Duration, whole any, include metav1.IncludeObjectPolicy) {
	row := metav1.TableRow{Cells: []any{meta.Name, used.Cpu().String(), used.Memory().String(), window.Duration.String()}}
	switch include {
	case metav1.IncludeNone:
	case metav1.IncludeObject:
		row.Object = runtime.RawExtension{Raw: encode(whole)}
	default:
		row.Object = runtime.RawExtension{Raw: encode(&metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}, ObjectMeta: *meta,
		})}
	}
	t.Rows = append(t.Rows, row)
}

// sum returns the usage of all containers.
func (m *PodMetrics) sum() corev1.ResourceList {
	out := usage{}.resources()
	for _, c := range m.Containers {
		for name, quantity := range c.Usage {
			total := out[name]
			total.Add(quantity)
			out[name] = total
		}
	}
	return out
}

// negotiate returns the first form that the client accepts and that is served: JSON, as a Table if
// asked for. ok is false if there is none.
func negotiate(accept []string) (asTable, ok bool) {
	joined := strings.Join(accept, ",")
	if strings.TrimSpace(joined) == "" {
		return false, true
	}
	for clause := range strings.SplitSeq(joined, ",") {
		media, parameters, err := mime.ParseMediaType(clause)
		if err != nil || parameters["q"] == "0" || media != "application/json" && media != "application/*" && media != "*/*" {
			continue
		}
		switch parameters["as"] {
		case "":
			return false, true
		case "Table":
			if parameters["v"] == "v1" && parameters["g"] == "meta.k8s.io" {
				return true, true
			}
		}
	}
	return false, false
}
