package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/planekit/planekit/apiserver/internal/pieces"
	"github.com/planekit/planekit/apiserver/internal/wire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
)

// nameColumn is the first column of every table.
var nameColumn = Column{
	Name: "Name", Type: "string", Format: "name",
	Description: metav1.ObjectMeta{}.SwaggerDoc()["name"],
	Value:       func(obj runtime.Object) any { return accessor(obj).GetName() },
	Steady:      true,
}

// AgeColumn returns the column with the time since the object was created, such as "5m" or "3d4h": the
// column Age of kubectl. It is of the type date, as that of custom objects is in Kubernetes. A resource
// without columns has it; one with Columns has it where they say.
func AgeColumn() Column {
	return Column{
		Name: "Age", Type: "date",
		Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"],
		Value:       func(obj runtime.Object) any { return age(accessor(obj).GetCreationTimestamp(), time.Now()) },
	}
}

// check returns an error if clients could not show the column.
func (c *Column) check() error {
	switch c.Type {
	case "integer", "number", "string", "boolean", "date":
	default:
		return fmt.Errorf("type %q is not integer, number, string, boolean or date", c.Type)
	}
	return required(c.Name != "" && c.Value != nil, "Name and Value must be set")
}

// age writes how long before now t was, as kubectl does: "5m", "3d4h".
func age(t metav1.Time, now time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t.Time))
}

// columns returns the columns of the kind's table in order.
func (k *servedKind) columns() []Column {
	if len(k.Columns) == 0 {
		return []Column{nameColumn, AgeColumn()}
	}
	for _, c := range k.Columns {
		if c.Name == nameColumn.Name {
			return k.Columns
		}
	}
	return append([]Column{nameColumn}, k.Columns...)
}

// table shows a listing as rows of cells.
func (k *servedKind) table(q *request, l *listing) (*metav1.Table, error) {
	include, err := includeObject(q)
	if err != nil {
		return nil, err
	}
	t, err := k.rows(q.r.Context(), l, include)
	if err != nil {
		return nil, err
	}
	t.ColumnDefinitions = k.definitions()
	return t, nil
}

// definitions are the heads of the kind's columns.
func (k *servedKind) definitions() []metav1.TableColumnDefinition {
	var heads []metav1.TableColumnDefinition
	for _, c := range k.columns() {
		heads = append(heads, metav1.TableColumnDefinition{
			Name: c.Name, Type: c.Type, Format: c.Format, Description: c.Description, Priority: c.Priority,
		})
	}
	return heads
}

// rows is a table without heads. It ends with ctx: the columns of a definition can take long for each object.
func (k *servedKind) rows(ctx context.Context, l *listing, include metav1.IncludeObjectPolicy) (*metav1.Table, error) {
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
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		obj, h := i.Object.Object, i.Object.hidden
		row := metav1.TableRow{Cells: cellsOf(columns, i)}
		switch include {
		case metav1.IncludeObject:
			row.Object.Object = shown(obj, h)
		case metav1.IncludeMetadata:
			row.Object.Object = shown(partial(obj), h)
		}
		t.Rows = append(t.Rows, row)
	}
	return t, nil
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

// checkShape fails if the result cannot have the form that the client asks for. It is called before the request has any effect.
func (q *request) checkShape() error {
	if q.out.Shape == wire.Metadata {
		return q.checkMetadata()
	}
	if q.out.Shape != wire.Table {
		return nil
	}
	_, err := includeObject(q)
	return err
}

// checkMetadata fails if the client asks for the metadata of a list where there is one object, or the other way round. Its
// message names the type that kube-apiserver has inside.
func (q *request) checkMetadata() error {
	gvk := q.bodyKind()
	name, _, _ := strings.Cut(gvk.Group, ".")
	if name == "" || name == "events" {
		name = "core"
	}
	list := q.info.Verb == "list" || q.info.Verb == "deletecollection"
	switch name += "." + gvk.Kind; {
	case q.info.Verb == "watch", q.sub != nil && q.info.Verb == "create" && !q.isQuestion(), q.info.Verb == "delete" && !q.kind.Strategy.ShowDeleted, list == q.out.List:
		return nil
	case q.kind.Schema != nil:
		name = "unstructured.Unstructured"
	}
	if list {
		return statusError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable, "you requested PartialObjectMetadata, but the requested object is a list (*%sList)", name)
	}
	return statusError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable, "you requested PartialObjectMetadataList, but the requested object is not a list (*%s)", name)
}

// isQuestion reports whether the request is for a [Question], whose response has an object.
func (q *request) isQuestion() bool {
	_, ok := as[Question](q.sub)
	return ok
}

// tableOf is a table of one row.
func (k *servedKind) tableOf(q *request, obj runtime.Object) (*metav1.Table, error) {
	revision, err := parseRevision(accessor(obj).GetResourceVersion())
	if err != nil {
		return nil, err
	}
	return k.table(q, &listing{items: []*item{asItemWith(obj, q.hiding.is)}, revision: revision})
}

// tableBody puts a table together. The objects of rows are encoded once; the cells are
// not, because some are ages.
func (k *servedKind) tableBody(q *request, l *listing) (*pieces.Body, error) {
	include, err := includeObject(q)
	if err != nil {
		return nil, err
	}
	empty, err := k.table(q, &listing{revision: l.revision, next: l.next, remaining: l.remaining})
	if err != nil {
		return nil, err
	}
	around, err := k.codec.Encode(wire.JSON, empty)
	if err != nil {
		return nil, err
	}
	tail := []byte("]}\n")
	head, ok := bytes.CutSuffix(around, tail)
	if !ok {
		return nil, fmt.Errorf("a table without rows is %s", around)
	}
	b := &pieces.Body{Head: head, Tail: tail, Items: l, Separator: []byte{','}}
	b.Size = len(head) + len(tail) + max(len(l.items)-1, 0)
	columns := k.columns()
	var cells []byte // of all rows; ends tells where those of each end
	ends, objects := make([]int, len(l.items)+1), make([][]byte, len(l.items))
	for n, i := range l.items {
		if err := q.r.Context().Err(); err != nil {
			return nil, err // as in rows
		}
		if cells, err = appendCells(cells, columns, i); err != nil {
			return nil, err
		}
		ends[n+1] = len(cells)
		if objects[n], err = k.withCells(i, include); err != nil {
			return nil, err
		}
		b.Size += len(`{"cells":,"object":}`) + ends[n+1] - ends[n] + len(objects[n])
	}
	b.Next = func(to []byte, n int) []byte {
		to = append(append(append(to, `{"cells":`...), cells[ends[n]:ends[n+1]]...), `,"object":`...)
		return append(append(to, objects[n]...), '}')
	}
	return b, nil
}

// cellsOf are the values of a row.
func cellsOf(columns []Column, i *item) []any {
	values := make([]any, len(columns))
	for n, c := range columns {
		values[n] = c.Value(i.Object.Object)
	}
	return values
}

// appendCells appends a row's cells as JSON.
func appendCells(to []byte, columns []Column, i *item) ([]byte, error) {
	kept := i.Object.cells.Load()
	if kept == nil {
		steady, err := steadyCells(columns, i)
		if err != nil {
			return nil, err
		}
		kept = &steady
		i.Object.cells.Store(kept)
	}
	to = append(to, '[')
	rest := *kept
	for _, c := range columns {
		if c.Steady {
			continue
		}
		at := bytes.IndexByte(rest, 0)
		to = append(to, rest[:at]...)
		rest = rest[at+1:]
		var err error
		if to, err = appendCell(to, c.Value(i.Object.Object)); err != nil {
			return nil, err
		}
		to = append(to, ',')
	}
	to = append(to, rest...)
	to[len(to)-1] = ']' // in place of a comma: there is a column at least
	return to, nil
}

func steadyCells(columns []Column, i *item) ([]byte, error) {
	var cells []byte
	for _, c := range columns {
		if !c.Steady {
			cells = append(cells, 0)
			continue
		}
		var err error
		if cells, err = appendCell(cells, c.Value(i.Object.Object)); err != nil {
			return nil, err
		}
		cells = append(cells, ',')
	}
	return bytes.Clone(cells), nil // without spare room
}

// appendCell appends a value as JSON. Most need no escapes.
func appendCell(to []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case int64:
		return strconv.AppendInt(to, v, 10), nil
	case string:
		if plain(v) {
			return append(append(append(to, '"'), v...), '"'), nil
		}
	}
	data, err := json.Marshal(value)
	return append(to, data...), err
}

// plain reports whether JSON has s as it is.
func plain(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ', c >= utf8.RuneSelf, c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		}
	}
	return true
}

// withCells returns the object of a row.
func (k *servedKind) withCells(i *item, include metav1.IncludeObjectPolicy) ([]byte, error) {
	switch include {
	case metav1.IncludeObject:
		return k.jsonOf(i)
	case metav1.IncludeMetadata:
		return k.partialOf(i)
	}
	return []byte("null"), nil
}
