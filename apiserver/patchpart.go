package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"strings"

	"github.com/planekit/planekit/apiserver/internal/ownership"
	"github.com/planekit/planekit/internal/jsonscan"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// part is what of an object a patch is about: most say something of the metadata
// or of the status and nothing of the rest, which need not be written as JSON and
// read again then.
type part struct {
	// original is the part as JSON, as a whole object would be.
	original []byte
	// rest is a copy of the object without it.
	rest runtime.Object
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

func (t *topNames) End(int)           { t.level-- }
func (t *topNames) Scalar(byte) error { return nil }

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

// partOf returns the part of view that patch is about. It reports false where it
// must be taken for the whole: a JSON patch can copy from anywhere, and
// directives at the top are about all fields.
func partOf(media types.PatchType, patch []byte, view runtime.Object) (*part, bool) {
	if media != types.MergePatchType && media != types.StrategicMergePatchType {
		return nil, false
	}
	about := topNames{}
	if jsonscan.Scan(context.Background(), patch, maxDepth, &about) != nil || about.many {
		return nil, false
	}
	rest := view.DeepCopyObject()
	fields := reflect.ValueOf(rest)
	if fields.Kind() != reflect.Pointer || fields.Elem().Kind() != reflect.Struct {
		return nil, false
	}
	fields = fields.Elem()
	kind := view.GetObjectKind().GroupVersionKind()
	original := append([]byte(nil), jsonHead(kind.GroupVersion().String(), kind.Kind)...)
	for i := range fields.NumField() {
		name, options, _ := strings.Cut(fields.Type().Field(i).Tag.Get("json"), ",")
		touched := about.names[name]
		switch {
		case name == "" && strings.Contains(options, "inline") && fields.Type().Field(i).Type == reflect.TypeFor[metav1.TypeMeta]():
			continue
		case name == "" || name == "-":
			return nil, false // its fields are told from others by more than a tag
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
	return &part{original, rest}, true
}

// patched returns what the patch makes of view.
func (s *Server) patched(q *request, media types.PatchType, patch []byte, fieldValidation string, view runtime.Object) (runtime.Object, error) {
	if !bytes.Contains(patch, []byte("managedFields")) {
		view = ownership.Without(view) // dear to write and to read again, and kept anyway
	}
	q.sent = sent{}
	initializes := s.config.Initializers != nil && q.sub == nil
	if initializes && media != types.JSONPatchType {
		var err error
		if patch, err = q.hearPatch(media, patch); err != nil {
			return nil, err
		}
	}
	p, ok := partOf(media, patch, view)
	if !ok {
		whole := view
		if initializes && media == types.JSONPatchType {
			whole = shown(view, q.was)
		}
		original, err := s.codec.encode(mediaJSON, whole)
		if err != nil {
			return nil, err
		}
		p = &part{original, q.newBody()}
	}
	result, err := applyPatch(q.r.Context(), s.codec, media, p.original, patch, view)
	if err != nil {
		return nil, err
	}
	if initializes && media == types.JSONPatchType {
		if err := q.hearResult(result); err != nil {
			return nil, err
		}
	}
	if err := q.decodeFrom(s, result, mediaJSON, fieldValidation, p.rest); err != nil {
		return nil, err
	}
	return p.rest, q.sameObject(p.rest)
}
