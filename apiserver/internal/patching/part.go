package patching

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"

	"github.com/planekit/planekit/apiserver/internal/envelope"
	"github.com/planekit/planekit/apiserver/internal/wire"
	"github.com/planekit/planekit/internal/jsonscan"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// A Part is the part of an object that a patch can change. Most patches change the metadata
// or the status alone. The rest need not be written as JSON and read again then.
type Part struct {
	// Original is the part as JSON, as a whole object would be.
	Original []byte
	// Rest is a copy of the object without it.
	Rest runtime.Object
}

// topNames is the visitor that collects the names of an object's members.
type topNames struct {
	level int
	names map[string]bool
	many  bool // more than a patch that is worth taking apart has
}

func (t *topNames) Begin(open byte, _ int) error {
	if t.level++; t.level == 1 && open != '{' {
		t.many = true
	}
	return nil
}

func (t *topNames) End(int)             { t.level-- }
func (t *topNames) Scalar([]byte) error { return nil }

func (t *topNames) Name(quoted []byte) error {
	if t.level > 1 || t.many {
		return nil
	}
	if t.names == nil {
		t.names = map[string]bool{}
	}
	t.names[jsonscan.Unquote(quoted)] = true
	t.many = len(t.names) > 64
	return nil
}

// PartOf returns the part of view that patch is about. It reports false where it
// must be taken for the whole: a JSON patch can copy from anywhere, and
// directives at the top are about all fields.
func PartOf(media types.PatchType, patch []byte, view runtime.Object) (*Part, bool) {
	if media != types.MergePatchType && media != types.StrategicMergePatchType {
		return nil, false
	}
	about := topNames{}
	if jsonscan.Scan(context.Background(), patch, wire.MaxDepth, &about) != nil || about.many {
		return nil, false
	}
	rest := view.DeepCopyObject()
	fields := reflect.ValueOf(rest)
	if fields.Kind() != reflect.Pointer || fields.Elem().Kind() != reflect.Struct {
		return nil, false
	}
	fields = fields.Elem()
	kind := view.GetObjectKind().GroupVersionKind()
	original := append([]byte(nil), envelope.JSONHead(kind.GroupVersion().String(), kind.Kind)...)
	for i := range fields.NumField() {
		name, options, _ := strings.Cut(fields.Type().Field(i).Tag.Get("json"), ",")
		touched := about.names[name]
		switch {
		case name == "" && strings.Contains(options, "inline") && fields.Type().Field(i).Type == reflect.TypeFor[metav1.TypeMeta]():
			continue
		case name == "" || name == "-":
			return nil, false // a tag is not enough to find its fields
		case !touched:
			continue
		}
		value := fields.Field(i)
		if !value.IsZero() {
			data, err := json.Marshal(value.Interface())
			if err != nil {
				return nil, false
			}
			original = append(append(append(original, '"'), name...), `":`...)
			original = append(append(original, data...), ',')
		}
		value.SetZero()
	}
	for name := range about.names {
		if strings.HasPrefix(name, "$") {
			return nil, false
		}
	}
	original[len(original)-1] = '}' // in place of a comma
	return &Part{original, rest}, true
}
