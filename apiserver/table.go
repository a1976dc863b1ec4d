package apiserver

import (
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
)

// nameColumn is the first column of every table, ageColumn the last of those
// whose resource has no columns of its own.
var (
	nameColumn = Column{
		Name: "Name", Type: "string", Format: "name",
		Description: "Name must be unique within a namespace.",
		Value:       func(obj runtime.Object) any { return accessor(obj).GetName() },
		Steady:      true,
	}
	ageColumn = Column{
		Name: "Age", Type: "string",
		Description: "How long ago the object was created.",
		Value:       func(obj runtime.Object) any { return Age(accessor(obj).GetCreationTimestamp(), time.Now()) },
	}
)

// Age writes how long before now t was, as kubectl does: "5m", "3d4h".
func Age(t metav1.Time, now time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t.Time))
}

// columns are those of the kind's table in order.
func (k *kind) columns() []Column {
	if len(k.Columns) == 0 {
		return []Column{nameColumn, ageColumn}
	}
	for _, c := range k.Columns {
		if c.Name == nameColumn.Name {
			return k.Columns
		}
	}
	return append([]Column{nameColumn}, k.Columns...)
}

// table shows a listing as rows of cells.
func (k *kind) table(q *request, l *listing) (*metav1.Table, error) {
	include, err := includeObject(q)
	if err != nil {
		return nil, err
	}
	t := k.rows(l, include)
	t.ColumnDefinitions = k.definitions()
	return t, nil
}

// definitions are the heads of the kind's columns.
func (k *kind) definitions() []metav1.TableColumnDefinition {
	var heads []metav1.TableColumnDefinition
	for _, c := range k.columns() {
		heads = append(heads, metav1.TableColumnDefinition{
			Name: c.Name, Type: c.Type, Format: c.Format, Description: c.Description, Priority: c.Priority,
		})
	}
	return heads
}

// rows is a table without heads.
func (k *kind) rows(l *listing, include metav1.IncludeObjectPolicy) *metav1.Table {
	t := &metav1.Table{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "Table"},
		ListMeta: metav1.ListMeta{
			ResourceVersion: formatRevision(l.revision), Continue: l.next, RemainingItemCount: l.remaining,
		},
		ColumnDefinitions: []metav1.TableColumnDefinition{},
		Rows:              make([]metav1.TableRow, 0, len(l.items)),
	}
	columns := k.columns()
	for _, i := range l.items {
		obj, state := i.Object.Object, i.Object.initializers
		row := metav1.TableRow{Cells: cellsOf(columns, i)}
		switch include {
		case metav1.IncludeObject:
			row.Object.Object = shown(obj, state)
		case metav1.IncludeMetadata:
			row.Object.Object = shown(partial(obj), state)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func includeObject(q *request) (metav1.IncludeObjectPolicy, error) {
	switch p := metav1.IncludeObjectPolicy(q.r.URL.Query().Get("includeObject")); p {
	case "":
		return metav1.IncludeMetadata, nil
	case metav1.IncludeNone, metav1.IncludeMetadata, metav1.IncludeObject:
		return p, nil
	default:
		return "", badRequest("Invalid value: %q: includeObject must be None, Metadata or Object", p)
	}
}

// respond sends one object in the shape that the client asked for.
func (s *Server) respond(q *request, code int, obj runtime.Object) error {
	switch q.out.shape {
	case asTable:
		t, err := q.kind.tableOf(q, obj)
		if err != nil {
			return err
		}
		obj = t
	case asPartial:
		obj = partial(obj)
	}
	if q.out.shape != asTable && q.out.media != mediaProto && !q.ownType() {
		obj = shown(obj, q.state)
	}
	s.write(q.w, q.r, code, q.out, obj)
	return nil
}

// tableOf is a table of one row. What is not of the kind (a subresource's own
// type) is shown by its metadata alone.
func (k *kind) tableOf(q *request, obj runtime.Object) (*metav1.Table, error) {
	if q.sub != nil && q.sub.New != nil {
		return nil, statusError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable, "subresource %s has no table", q.sub.Name)
	}
	revision, err := parseRevision(accessor(obj).GetResourceVersion())
	if err != nil {
		return nil, err
	}
	return k.table(q, &listing{items: []*item{asItemWith(obj, q.state)}, revision: revision})
}
