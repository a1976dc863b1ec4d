package server

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// contentType names the text format of Prometheus, version 0.0.4
// (https://prometheus.io/docs/instrumenting/exposition_formats/).
const contentType = "text/plain; version=0.0.4; charset=utf-8"

// An exposition is a set of metrics in Prometheus' text format. Families appear in the order in
// which they were added, each with all of its samples.
type exposition struct{ families []*family }

// A family is a metric with its samples.
type family struct {
	header  string
	name    string
	labels  []string
	samples bytes.Buffer
}

// add adds a family of a kind ("counter" or "gauge") whose samples have the labels.
func (e *exposition) add(name, kind, help string, labels ...string) *family {
	f := &family{header: "# HELP " + name + " " + help + "\n# TYPE " + name + " " + kind + "\n", name: name, labels: labels}
	e.families = append(e.families, f)
	return f
}

// escaper escapes the value of a label.
var escaper = strings.NewReplacer("\\", `\\`, "\n", `\n`, `"`, `\"`)

// sample adds a sample with the values of the labels, in their order. A zero time is left out.
func (f *family) sample(value float64, at time.Time, values ...string) {
	b := &f.samples
	b.WriteString(f.name)
	for i, label := range f.labels {
		b.WriteString([]string{"{", ","}[min(i, 1)])
		b.WriteString(label)
		b.WriteString(`="`)
		b.WriteString(escaper.Replace(strings.ToValidUTF8(values[i], "�")))
		b.WriteByte('"')
	}
	if len(f.labels) > 0 {
		b.WriteByte('}')
	}
	b.WriteByte(' ')
	b.WriteString(strconv.FormatFloat(value, 'g', -1, 64))
	if !at.IsZero() {
		b.WriteByte(' ')
		b.WriteString(strconv.FormatInt(at.UnixMilli(), 10))
	}
	b.WriteByte('\n')
}

// serve writes the families that have samples.
func (e *exposition) serve(w http.ResponseWriter) {
	w.Header().Set("Content-Type", contentType)
	for _, f := range e.families {
		if f.samples.Len() > 0 {
			w.Write([]byte(f.header))
			w.Write(f.samples.Bytes())
		}
	}
}
