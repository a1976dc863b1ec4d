package kubeletfields

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/kubeletconfig"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// field is a field of a KubeletConfiguration, or a field of one.
type field struct {
	path []string
	kind reflect.Type
}

// fields returns the fields of a struct, down to those that are not structs.
func fields(kind reflect.Type, path []string) []field {
	var list []field
	for f := range kind.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Type == reflect.TypeFor[metav1.TypeMeta]():
			continue
		case name == "" && f.Anonymous:
			list = append(list, fields(f.Type, path)...)
			continue
		}
		at := append(slices.Clone(path), name)
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct && !leaf(inner) {
			list = append(list, fields(inner, at)...)
			continue
		}
		list = append(list, field{at, inner})
	}
	return list
}

// leaf reports whether a struct is one value in JSON.
func leaf(kind reflect.Type) bool {
	return slices.Contains([]reflect.Type{reflect.TypeFor[metav1.Duration](), reflect.TypeFor[resource.QuantityValue]()}, kind) ||
		reflect.PointerTo(kind).Implements(reflect.TypeFor[json.Unmarshaler]())
}

// special are values of fields that take no others, or to which the others are equal.
var special = map[string]any{
	"enforceNodeAllocatable":  []string{"none"},
	"evictionHard":            map[string]string{"memory.available": "3Gi"},
	"evictionSoft":            map[string]string{"memory.available": "3Gi"},
	"evictionSoftGracePeriod": map[string]string{"memory.available": "3s"},
	"evictionMinimumReclaim":  map[string]string{"memory.available": "3Gi"},
	"kubeReserved":            map[string]string{"cpu": "1"},
	"systemReserved":          map[string]string{"cpu": "1"},
	"reservedSystemCPUs":      "0",
	"containerLogMaxSize":     "3Mi",
	"registerWithTaints":      []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}},
}

// companions are fields without which a field has no effect.
var companions = map[string]map[string]any{"mergeDefaultEvictionSettings": {"evictionHard": special["evictionHard"]}}

// values returns the values that a field is set to, one after the other. At least one differs from the default.
func values(f field) []any {
	if value, ok := special[f.path[0]]; ok {
		return []any{value}
	}
	if leaf(f.kind) {
		return []any{"7s"}
	}
	switch f.kind.Kind() {
	case reflect.Bool:
		return []any{true, false}
	case reflect.String:
		return []any{"other"}
	case reflect.Slice:
		switch f.kind.Elem().Kind() {
		case reflect.String:
			return []any{[]string{"other"}}
		case reflect.Int32:
			return []any{[]int32{23}}
		}
		return []any{[]any{reflect.Zero(f.kind.Elem()).Interface()}}
	case reflect.Map:
		switch f.kind.Elem().Kind() {
		case reflect.Bool:
			return []any{map[string]bool{"other": true}}
		case reflect.Slice:
			return []any{map[string][]string{"other": {"x"}}}
		}
		return []any{map[string]string{"other": "7"}}
	}
	return []any{7}
}

// TestNoFieldIsSilent sets each field of the struct to another value than the default.
func TestNoFieldIsSilent(t *testing.T) {
	all := fields(reflect.TypeFor[kubeletv1beta1.KubeletConfiguration](), nil)
	for _, f := range all {
		said := false
		var outcomes []string
		for _, value := range values(f) {
			outcome := outcomeOf(t, f, value)
			said = said || outcome != ""
			outcomes = append(outcomes, outcome)
		}
		if !said {
			t.Errorf("%s is accepted in silence", strings.Join(f.path, "."))
		}
		t.Logf("%s: %s", strings.Join(f.path, "."), strings.Join(slices.Compact(outcomes), "; "))
	}
	if len(all) < 120 {
		t.Errorf("only %d fields are tested", len(all))
	}
}

// outcomeOf returns whether a value has an effect, is refused or is warned about. It is empty if neither.
func outcomeOf(t *testing.T, f field, value any) string {
	t.Helper()
	for _, name := range slices.Backward(f.path) {
		value = map[string]any{name: value}
	}
	object := value.(map[string]any)
	without := map[string]any{"kind": kubeletconfig.Kind, "apiVersion": kubeletconfig.APIVersion}
	maps.Copy(object, companions[f.path[0]])
	maps.Copy(without, companions[f.path[0]])
	object["kind"], object["apiVersion"] = kubeletconfig.Kind, kubeletconfig.APIVersion
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	file, err := kubeletconfig.Decode(text)
	if err != nil {
		if strings.Contains(err.Error(), "unknown field") {
			t.Errorf("Decode(%s): %v, want no unknown field", text, err)
		}
		if !strings.Contains(err.Error(), f.path[0]) && !names(err.Error(), f.path[0]) {
			t.Errorf("%s: the error %q does not name the field", text, err)
		}
		return "refused"
	}
	for _, warning := range file.Warnings() {
		if strings.HasPrefix(warning, f.path[0]+" ") {
			return "named in a warning"
		}
	}
	before, err := json.Marshal(without)
	if err != nil {
		t.Fatal(err)
	}
	unset, err := kubeletconfig.Decode(before)
	if err != nil {
		t.Fatal(err)
	}
	var k, plain kubelet.Config
	if err := errors.Join(file.Apply(&k), unset.Apply(&plain)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(k, plain) {
		return "acted on"
	}
	return ""
}

// names reports whether an error about evictions names a field in words, as Kubernetes does.
func names(text, name string) bool {
	words := map[string]string{
		"evictionHard": "hard eviction", "evictionSoft": "soft eviction", "evictionSoftGracePeriod": "grace period", "evictionMinimumReclaim": "minimum reclaim",
	}
	return words[name] != "" && strings.Contains(text, words[name])
}

// TestFieldList compares the list of the main module's own test with the struct.
func TestFieldList(t *testing.T) {
	data, err := os.ReadFile("../../kubelet/kubeletconfig/testdata/fields.txt")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for f := range reflect.TypeFor[kubeletv1beta1.KubeletConfiguration]().Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			want = append(want, name)
		}
	}
	got := strings.Fields(string(data))
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Error(fmt.Sprint("the list has ", got, ", the struct ", want))
	}
}
