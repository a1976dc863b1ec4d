package unsupported

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/planekit/planekit/admission"
)

// warnings bounds the number of warnings for one request.
const warnings = 20

// compiled is a row that is ready to be evaluated for objects of one resource.
type compiled struct {
	Row
	kind  reflect.Type // of the object; nil for a row about a whole kind
	steps []step
}

// step leads from a struct to one of its fields, and into each element if it is a list.
type step struct {
	name  string
	index []int
	list  bool
}

// compileAll returns the rows of each resource. Rows about pods apply to pods and to the
// templates of all workloads, those about containers also to init containers.
func compileAll(table []Row) (map[string][]compiled, error) {
	all := map[string][]compiled{}
	for _, row := range table {
		if row.In != Pods {
			one, err := compile(row, row.In, "")
			if err != nil {
				return nil, err
			}
			all[row.In] = append(all[row.In], one)
			continue
		}
		for resource, prefix := range templates {
			for _, path := range row.paths() {
				own := row
				own.Path = path
				one, err := compile(own, resource, prefix)
				if err != nil {
					return nil, err
				}
				all[resource] = append(all[resource], one)
			}
		}
	}
	return all, nil
}

// compile resolves the path of a row below prefix.
func compile(row Row, resource, prefix string) (compiled, error) {
	c := compiled{Row: row}
	if row.Path == "" {
		return c, nil
	}
	object := objects[resource]
	if object == nil {
		return c, fmt.Errorf("unsupported: the type of %s is not known", resource)
	}
	c.kind = reflect.TypeOf(object).Elem()
	t := c.kind
	for name := range strings.SplitSeq(prefix+row.Path, ".") {
		name, list := strings.CutSuffix(name, "[]")
		field, ok := fieldByJSON(t, name)
		if !ok {
			return c, fmt.Errorf("unsupported: %s has no field %s%s", resource, prefix, row.Path)
		}
		c.steps = append(c.steps, step{name: name, index: field.Index, list: list})
		t = field.Type
		for t.Kind() == reflect.Pointer || list && t.Kind() == reflect.Slice {
			t = t.Elem()
		}
	}
	return c, nil
}

// fieldByJSON finds a field of a struct, or of one embedded in it, by its name in JSON.
func fieldByJSON(t reflect.Type, name string) (reflect.StructField, bool) {
	if t.Kind() != reflect.Struct {
		return reflect.StructField{}, false
	}
	for _, field := range reflect.VisibleFields(t) {
		if tag, _, _ := strings.Cut(field.Tag.Get("json"), ","); tag == name && tag != "" {
			return field, true
		}
	}
	return reflect.StructField{}, false
}

// find returns a text for each row that applies to object.
func find(rows []compiled, kind admission.GroupVersionKind, object any) []string {
	v := reflect.ValueOf(object)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return nil
	}
	var found []string
	for i := range rows {
		row := &rows[i]
		if row.Path == "" {
			if row.When == nil || row.When(object, nil) {
				found = append(found, fmt.Sprintf("kind %s: %s", kind.Kind, row.Effect))
			}
			continue
		}
		if v.Elem().Type() != row.kind {
			continue
		}
		first, n := "", 0
		row.walk(v.Elem(), row.steps, "", nil, func(at string) {
			if n == 0 {
				first = at
			}
			n++
		})
		switch {
		case n == 1:
			found = append(found, first+": "+row.Effect)
		case n > 1:
			found = append(found, fmt.Sprintf("%s (and %d more): %s", first, n-1, row.Effect))
		}
	}
	return found
}

// walk calls yield with the path of each value below v that the row applies to.
func (c *compiled) walk(v reflect.Value, steps []step, at string, parents []any, yield func(at string)) {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	next := steps[0]
	parents = append(parents, v.Addr().Interface())
	field, err := v.FieldByIndexErr(next.index)
	if err != nil { // an embedded pointer that is nil
		return
	}
	if at != "" {
		at += "."
	}
	at += next.name
	if !next.list {
		c.visit(field, steps[1:], at, parents, yield)
		return
	}
	for i := range field.Len() {
		c.visit(field.Index(i), steps[1:], fmt.Sprintf("%s[%d]", at, i), parents, yield)
	}
}

// visit walks the remaining steps below field, or evaluates the row.
func (c *compiled) visit(field reflect.Value, left []step, at string, parents []any, yield func(at string)) {
	switch {
	case len(left) > 0:
		c.walk(field, left, at, parents, yield)
	case field.IsZero(), field.Kind() == reflect.Slice && field.Len() == 0, field.Kind() == reflect.Map && field.Len() == 0:
	case c.When == nil || c.When(field.Interface(), parents):
		yield(at)
	}
}

// atMost returns at most limit texts, with a note about the number left out.
func atMost(texts []string, limit int) []string {
	if len(texts) <= limit {
		return texts
	}
	return append(texts[:limit-1:limit-1], fmt.Sprintf("%d more fields have no effect here yet", len(texts)-limit+1))
}
