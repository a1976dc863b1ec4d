package ownership_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// random makes objects. Its values are few, so that they meet.
type random struct{ *rand.Rand }

func seeded(seed uint64) random { return random{rand.New(rand.NewPCG(seed, 1))} }

func (r random) chance(in int) bool { return r.IntN(in) == 0 }

var words = []string{"a", "b", "c", "web", "http", "TCP", "UDP", `q"uo\te`, "<&>", "ü", "line\nbreak", "x y", "<", "\u2028"}

func (r random) word() string {
	if r.chance(8) {
		return words[r.IntN(len(words))]
	}
	return words[r.IntN(7)]
}

// fill sets v and what is below it, down to depth.
func (r random) fill(v reflect.Value, depth int) {
	if r.special(v) {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && (f.Anonymous || !r.chance(3)) {
				r.fill(v.Field(i), depth)
			}
		}
	case reflect.Pointer:
		if depth <= 0 || r.chance(3) {
			v.SetZero()
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		r.fill(v.Elem(), depth-1)
	case reflect.Slice:
		n := r.IntN(4)
		if depth <= 0 || n == 3 && r.chance(2) {
			v.SetZero()
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			r.fill(v.Index(i), depth-1)
		}
	case reflect.Map:
		if depth <= 0 || r.chance(3) {
			v.SetZero()
			return
		}
		v.Set(reflect.MakeMap(v.Type()))
		for range r.IntN(3) {
			key, one := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			r.fill(key, depth-1)
			r.fill(one, depth-1)
			v.SetMapIndex(key, one)
		}
	default:
		r.scalar(v)
	}
}

func (r random) scalar(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(r.word())
	case reflect.Bool:
		v.SetBool(r.chance(2))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(r.IntN(3)) / 2)
	default:
		switch {
		case v.CanInt():
			v.SetInt(int64(r.IntN(4)))
		case v.CanUint():
			v.SetUint(uint64(r.IntN(4)))
		}
	}
}

// special sets types that are more than their fields.
func (r random) special(v reflect.Value) bool {
	if !v.CanAddr() {
		return false
	}
	switch p := v.Addr().Interface().(type) {
	case *metav1.Time:
		*p = metav1.Time{}
		if !r.chance(3) {
			*p = metav1.Unix(int64(r.IntN(3)), int64(r.IntN(2)))
		}
	case *metav1.MicroTime:
		*p = metav1.MicroTime{Time: time.Unix(0, int64(r.IntN(3))*1000)}
	case *metav1.Duration:
		p.Duration = time.Duration(r.IntN(3)) * time.Second
	case *resource.Quantity:
		*p = resource.MustParse([]string{"1", "1000m", "2Gi", "0"}[r.IntN(4)])
	case *intstr.IntOrString:
		*p = intstr.Parse([]string{"80", "http", "1"}[r.IntN(3)])
	case *runtime.RawExtension:
		*p = runtime.RawExtension{}
		if raw := []string{"", `{}`, `{"a":{"b":1,"c":[1]}}`, `{"a":{"b":2},"d":"x"}`, `null`}[r.IntN(5)]; raw != "" {
			p.Raw = []byte(raw)
		}
	case *metav1.TypeMeta:
	case *metav1.FieldsV1:
		*p = *metav1.NewFieldsV1(`{"f:a":{}}`)
	default:
		return false
	}
	return true
}

func (r random) fieldsText() string {
	texts := []string{`{}`, `{"f:metadata":{"f:labels":{"f:a":{}}}}`, `{"f:metadata":{"f:labels":{".":{},"f:b":{},"f:a":{}}}}`,
		`{"f:spec":{}}`, `{"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:image":{},"f:ports":{"k:{\"containerPort\":1,\"protocol\":\"TCP\"}":{}}}}}}`,
		`{"f:metadata":{"f:finalizers":{"v:\"a\"":{},"v:1.5":{}}},"f:data":{"f:a":{},"f:<&>":{}},"x:1":{}}`,
		`{"f:metadata":{"f:name":{},"f:ownerReferences":{"k:{\"uid\":\"a\"}":{}}},"f:none":{"i:1":{}}}`,
		`{"f:spec":{"f:selector":{"f:matchLabels":{"f:a":{}}},"f:template":{"f:metadata":{"f:labels":{}}}}}`,
		`{"f:spec":{"f:x":{"v:[1]":{},"k:{\"a\":null}":{}}}}`, `nonsense`, ``}
	return texts[r.IntN(len(texts))]
}

// edit changes some of what is below v.
func (r random) edit(v reflect.Value, depth int) {
	if r.chance(12) {
		r.fill(v, depth)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		if v.CanAddr() && r.leafy(v) {
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && r.chance(4) {
				r.edit(v.Field(i), depth)
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			r.edit(v.Elem(), depth-1)
		}
	case reflect.Slice:
		r.editSlice(v, depth)
	case reflect.Map:
		if v.Len() > 0 && r.chance(2) {
			v.SetMapIndex(v.MapKeys()[0], reflect.Value{})
		}
	}
}

func (r random) leafy(v reflect.Value) bool {
	switch v.Addr().Interface().(type) {
	case *metav1.Time, *metav1.MicroTime, *resource.Quantity, *metav1.TypeMeta, *intstr.IntOrString, *runtime.RawExtension:
		return true
	}
	return false
}

func (r random) editSlice(v reflect.Value, depth int) {
	if v.Len() == 0 || v.Type().Elem().Kind() == reflect.Uint8 {
		return
	}
	switch r.IntN(4) {
	case 0:
		v.Set(v.Slice(0, v.Len()-1))
	case 1:
		one := reflect.New(v.Type().Elem()).Elem()
		r.fill(one, depth-1)
		v.Set(reflect.Append(v, one))
	case 2:
		v.Set(reflect.AppendSlice(v.Slice(v.Len()/2, v.Len()), v.Slice(0, v.Len()/2)))
	default:
		r.edit(v.Index(r.IntN(v.Len())), depth-1)
	}
}

// entries are managedFields that a client sends.
func (r random) entries(live []metav1.ManagedFieldsEntry, version string) []metav1.ManagedFieldsEntry {
	out := slices.Clone(live)
	switch r.IntN(14) {
	case 0:
		return nil
	case 1:
		return []metav1.ManagedFieldsEntry{}
	case 2:
		return []metav1.ManagedFieldsEntry{{}}
	case 3, 4:
		e := metav1.ManagedFieldsEntry{Manager: r.word(), Operation: "Update", APIVersion: version, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(r.fieldsText())}
		switch r.IntN(9) {
		case 0:
			e.Operation = "Apply"
		case 1:
			e.APIVersion = []string{"", "v0", "apps/v0", "a/b/c"}[r.IntN(4)]
		case 2:
			e.FieldsType = ""
		case 3:
			e.Subresource = "status"
		case 4:
			e.FieldsV1 = nil
		case 5:
			e.Operation = "Other"
		}
		out = append(out, e)
	case 5:
		if len(out) > 0 {
			out = append(out[1:], out[0], out[len(out)-1])
		}
	}
	return out
}

func describe(entries []metav1.ManagedFieldsEntry) string {
	out := ""
	for _, e := range entries {
		text := "none"
		if e.FieldsV1 != nil {
			text = e.FieldsV1.GetRawString()
		}
		out += fmt.Sprintf("%q %s %s %q %s %v\n  %s\n", e.Manager, e.Operation, e.APIVersion, e.Subresource, e.FieldsType, e.Time, text)
	}
	return out
}
