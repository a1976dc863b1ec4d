package invalid_test

import (
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/internal/invalid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestObject: few errors are worded as Kubernetes does, and many are bounded in number and size.
func TestObject(t *testing.T) {
	kind := schema.GroupKind{Kind: "Pod"}
	at := func(i int) *field.Path { return field.NewPath("spec", "containers").Index(i).Child("name") }
	few := field.ErrorList{field.Required(at(0), ""), field.Invalid(at(1), strings.Repeat("x", 1000), "is not a name"), field.Required(at(0), "")}
	if got, want := invalid.Object(kind, "web", few), apierrors.NewInvalid(kind, "web", few); got.Error() != want.Error() {
		t.Errorf("Object(3 errors) = %v, want %v", got, want)
	}
	var many, large field.ErrorList
	for i := range 100_000 {
		many = append(many, field.Required(at(i), ""))
	}
	for i := range 100 {
		large = append(large, field.Invalid(at(i), strings.Repeat("x", 1<<20), "is not a name"))
	}
	for _, c := range []struct {
		name   string
		errs   field.ErrorList
		suffix string
	}{
		{"many", many, "and at least 99750 other errors"},
		{"large", large, "is not a name]"},
		{"one", large[:1], "is not a name"},
		{"long details", field.ErrorList{field.Forbidden(at(0), strings.Repeat("x", 1<<20))}, "xx..."},
	} {
		err := invalid.Object(kind, "web", c.errs)
		var status apierrors.APIStatus
		if !errors.As(err, &status) {
			t.Fatalf("%s: Object() = %v, want a status", c.name, err)
		}
		data, _ := json.Marshal(status.Status())
		if len(data) > 300<<10 || !strings.HasSuffix(err.Error(), c.suffix) {
			t.Errorf("%s: Object() has %d bytes and ends in %q, want at most 300 KiB and %q", c.name, len(data), err.Error()[len(err.Error())-40:], c.suffix)
		}
	}
}

// TestSharedValue: a thousand errors that all have one list of a thousand items take about the memory of one.
func TestSharedValue(t *testing.T) {
	list := make([]string, 1000)
	for i := range list {
		list[i] = strings.Repeat("x", 100)
	}
	var errs field.ErrorList
	for range 1000 {
		errs = append(errs, field.Invalid(field.NewPath("list"), list, "is wrong"))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := invalid.Object(schema.GroupKind{Kind: "Pod"}, "web", errs)
	runtime.ReadMemStats(&after)
	if got, most := after.TotalAlloc-before.TotalAlloc, uint64(4<<20); got > most {
		t.Errorf("Object(1000 errors with one list of 100 kB) allocates %d bytes, want at most %d", got, most)
	}
	if want := "is wrong and 750 other errors"; !strings.Contains(err.Error(), "750 other errors") {
		t.Errorf("Object(1000 errors) = %.300v, want %q", err, want)
	}
}

// TestLongValues: a thousand errors with texts, or with different structs, that are too large to show take about the memory
// of a few.
func TestLongValues(t *testing.T) {
	type pod struct{ Names []string }
	names := slices.Repeat([]string{"0123456789"}, 10_000)
	for name, value := range map[string]func() any{
		"texts":   func() any { return strings.Repeat("x", 200<<10) },
		"structs": func() any { return pod{slices.Clone(names)} },
	} {
		var errs field.ErrorList
		for range 1000 {
			errs = append(errs, field.Invalid(field.NewPath("spec"), value(), "is wrong"))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := invalid.Object(schema.GroupKind{Kind: "Pod"}, "web", errs)
		runtime.ReadMemStats(&after)
		if got, most := after.TotalAlloc-before.TotalAlloc, uint64(40<<20); got > most {
			t.Errorf("Object(1000 errors with %s) allocates %d bytes, want at most %d", name, got, most)
		}
		if want := `Pod "web" is invalid: spec: Invalid value: is wrong and 750 other errors`; err.Error() != want {
			t.Errorf("Object(1000 errors with %s) = %.100v, want %s", name, err, want)
		}
	}
}
