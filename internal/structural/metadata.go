package structural

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	names "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// ParseMetadata decodes metadata. It returns the names of unknown fields, with prefix. Unless strict, it
// leaves out what has the wrong type.
func ParseMetadata(v any, prefix string, strict bool) (metav1.ObjectMeta, []string, error) {
	var out metav1.ObjectMeta
	fields, ok := v.(map[string]any)
	if ok && plain(fields, &out) {
		return out, nil, nil
	}
	data, err := json.Marshal(v)
	if err != nil {
		return out, nil, err
	}
	out = metav1.ObjectMeta{}
	wrong, err := kjson.UnmarshalStrict(data, &out)
	if err != nil && !strict && ok {
		out, err = salvage(fields), nil
	}
	var unknown []string
	for _, w := range wrong {
		if f, ok := w.(kjson.FieldError); ok {
			unknown = append(unknown, prefix+"."+f.FieldPath())
		}
	}
	return out, unknown, err
}

// plain decodes metadata that has no other fields than most objects have, and reports whether it could.
func plain(fields map[string]any, out *metav1.ObjectMeta) bool {
	for name, v := range fields {
		var to *string
		switch name {
		case "name":
			to = &out.Name
		case "namespace":
			to = &out.Namespace
		case "generateName":
			to = &out.GenerateName
		case "resourceVersion":
			to = &out.ResourceVersion
		case "uid":
			text, ok := v.(string)
			if out.UID = types.UID(text); !ok {
				return false
			}
			continue
		case "labels":
			if !texts(v, &out.Labels) {
				return false
			}
			continue
		case "annotations":
			if !texts(v, &out.Annotations) {
				return false
			}
			continue
		case "generation":
			n, ok := v.(int64)
			if out.Generation = n; !ok {
				return false
			}
			continue
		case "creationTimestamp":
			if v == nil {
				continue
			}
			text, ok := v.(string)
			if !ok || out.CreationTimestamp.UnmarshalQueryParameter(text) != nil {
				return false
			}
			out.CreationTimestamp = metav1.NewTime(out.CreationTimestamp.Local())
			continue
		default:
			return false
		}
		text, ok := v.(string)
		if *to = text; !ok {
			return false
		}
	}
	return true
}

func texts(v any, to *map[string]string) bool {
	fields, ok := v.(map[string]any)
	if !ok {
		return false
	}
	*to = make(map[string]string, len(fields))
	for name, v := range fields {
		text, ok := v.(string)
		if (*to)[name] = text; !ok {
			return false
		}
	}
	return true
}

// salvage decodes the fields of metadata that can be decoded.
func salvage(fields map[string]any) metav1.ObjectMeta {
	var out metav1.ObjectMeta
	for name, v := range fields {
		data, err := json.Marshal(map[string]any{name: v})
		if err == nil && json.Unmarshal(data, &metav1.ObjectMeta{}) == nil {
			_ = json.Unmarshal(data, &out)
		}
	}
	return out
}

// CoerceMetadata decodes the metadata of embedded resources and encodes it again, so that they hold nothing
// else. It returns the names of unknown fields. root is not an embedded resource itself.
func (s *Schema) CoerceMetadata(root map[string]any) ([]string, *field.Error) {
	if s == nil || !s.embeds {
		return nil, nil
	}
	var unknown []string
	for name, v := range root {
		if metaFields[name] {
			continue
		}
		part, _ := s.field(name)
		more, err := coercion{}.value(field.NewPath(name), part, v)
		if err != nil {
			return nil, err
		}
		unknown = append(unknown, more...)
	}
	return unknown, nil
}

// appendNames appends the names of unknown fields unless there are very many.
func appendNames(all, more []string) []string {
	if len(all)+len(more) > maxUnknown {
		return all
	}
	return append(all, more...)
}

// coercion makes the metadata of embedded resources that of objects.
type coercion struct {
	// dropInvalid removes fields of the wrong type, which are errors otherwise.
	dropInvalid bool
}

func (c coercion) value(path *field.Path, s *Schema, v any) (unknown []string, err *field.Error) {
	if s == nil || !s.embeds {
		return nil, nil
	}
	switch v := v.(type) {
	case map[string]any:
		return c.object(path, s, v, s.Embedded)
	case []any:
		for i, item := range v {
			more, err := c.value(path.Index(i), s.Items, item)
			if unknown = appendNames(unknown, more); err != nil {
				return unknown, err
			}
		}
	}
	return unknown, nil
}

func (c coercion) object(path *field.Path, s *Schema, obj map[string]any, embedded bool) (unknown []string, err *field.Error) {
	if embedded {
		if unknown, err = c.resource(path, obj); err != nil {
			return unknown, err
		}
	}
	for name, value := range obj {
		at := path.Child(name)
		part, known := s.Properties[name]
		if !known {
			part, at = s.Additional, path.Key(name)
		}
		more, err := c.value(at, part, value)
		if unknown = appendNames(unknown, more); err != nil {
			return unknown, err
		}
	}
	return unknown, nil
}

func (c coercion) resource(path *field.Path, obj map[string]any) ([]string, *field.Error) {
	for _, name := range []string{"apiVersion", "kind"} {
		v, ok := obj[name]
		if _, text := v.(string); !ok || text {
			continue
		}
		if !c.dropInvalid {
			return nil, field.Invalid(path.Child(name), v, "must be a string")
		}
		delete(obj, name)
	}
	v, ok := obj["metadata"]
	if !ok {
		return nil, nil
	}
	at := path.Child("metadata")
	m, unknown, err := ParseMetadata(v, at.String(), !c.dropInvalid)
	if err == nil {
		var fields map[string]any
		if fields, err = runtime.DefaultUnstructuredConverter.ToUnstructured(&m); err == nil {
			if m.CreationTimestamp.IsZero() {
				delete(fields, "creationTimestamp")
			}
			obj["metadata"] = fields
		}
	}
	if err != nil && !c.dropInvalid {
		return nil, field.Invalid(at, v, err.Error())
	}
	return unknown, nil
}

// Resource returns the schema with its root as an embedded resource, whose values have an apiVersion and a kind.
func (s *Schema) Resource() *Schema {
	resource := *s
	resource.Embedded, resource.embeds = true, true
	return &resource
}

// ValidateMetadata returns what is wrong with the kinds and the metadata of embedded resources: at most some hundred
// errors, and one that says so if there are more.
func (s *Schema) ValidateMetadata(path *field.Path, v any, root bool) field.ErrorList {
	f := &findings{path: path}
	s.validateMetadata(f, path, v, root)
	return f.errs
}

func (s *Schema) validateMetadata(f *findings, path *field.Path, v any, root bool) {
	if s == nil || !s.embeds || f.full {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		if s.Embedded && !root {
			for _, err := range validateEmbedded(path, v) {
				if !f.add(err) {
					return
				}
			}
		}
		for name, value := range v {
			if p := s.Properties[name]; p != nil {
				p.validateMetadata(f, path.Child(name), value, false)
			} else if s.Additional != nil {
				s.Additional.validateMetadata(f, path.Key(name), value, false)
			}
		}
	case []any:
		for i, item := range v {
			s.Items.validateMetadata(f, path.Index(i), item, false)
		}
	}
}

func validateEmbedded(path *field.Path, obj map[string]any) field.ErrorList {
	var all field.ErrorList
	for _, name := range []string{"apiVersion", "kind"} {
		v, ok := obj[name]
		text, isText := v.(string)
		at := path.Child(name)
		switch {
		case !ok:
			all = append(all, field.Required(at, ""))
		case !isText:
			all = append(all, field.Invalid(at, v, "must be a string"))
		case text == "":
			all = append(all, field.Invalid(at, text, "must not be empty"))
		case name == "apiVersion":
			if _, err := schema.ParseGroupVersion(text); err != nil {
				all = append(all, field.Invalid(at, text, err.Error()))
			}
		default:
			if errs := names.IsDNS1035Label(strings.ToLower(text)); len(errs) > 0 {
				all = append(all, field.Invalid(at, text, "may have mixed case, but should otherwise match: "+strings.Join(errs, ",")))
			}
		}
	}
	v, ok := obj["metadata"]
	if !ok {
		return all
	}
	at := path.Child("metadata")
	m, _, err := ParseMetadata(v, "", true)
	if err != nil {
		return append(all, field.Invalid(at, v, fmt.Sprint(err)))
	}
	if m.Name == "" {
		m.Name = "unnamed" // a name is not required
	}
	return append(all, validation.ValidateObjectMeta(&m, m.Namespace != "", func(name string, prefix bool) []string {
		if prefix {
			return content.IsPathSegmentPrefix(name)
		}
		return content.IsPathSegmentName(name)
	}, at)...)
}
