package kubeletconfig

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/planekit/planekit/kubelet"
)

// row is a field of a KubeletConfiguration.
type row struct {
	name string
	kind reflect.Type
	// apply changes the settings to a value of the field; nil if nothing acts on it.
	apply func(s *settings, value any)
	// show returns the value in a kubelet's configuration; nil if it is not shown.
	show func(k *kubelet.Config) any
	// idle says why nothing acts on the field; empty if something does. standard is Kubernetes' default.
	idle     string
	standard any
	// refused means that a file with another value than the default is refused.
	refused bool
	// part names the part of a field on which the program that runs the kubelet can act; take reads it.
	part Part
	take func(p *Program, value any) error
}

// acts returns the row of a field with an effect.
func acts[T any](name string, apply func(*settings, T), show func(*kubelet.Config) any) row {
	return row{
		name: name, kind: reflect.TypeFor[T](), show: show,
		apply: func(s *settings, value any) {
			before := len(s.errs)
			apply(s, value.(T))
			for i := range s.errs[before:] {
				s.errs[before+i] = fmt.Errorf("invalid configuration: %w", s.errs[before+i])
			}
		},
	}
}

// idle returns the row of a field without an effect.
func idle[T any](name string, standard T, why string) row {
	return row{name: name, kind: reflect.TypeFor[T](), standard: standard, idle: why}
}

// refuses returns the row of a field without an effect that restricts pods.
func refuses[T any](name string, standard T, why string) row {
	r := idle(name, standard, why)
	r.refused = true
	return r
}

// harmless reports whether a value asks for nothing but the default. An empty value is the default too,
// except false.
func (r *row) harmless(value any) bool {
	if reflect.DeepEqual(value, r.standard) {
		return true
	}
	v := reflect.ValueOf(value)
	if v.Kind() == reflect.Bool {
		return false
	}
	text, err := json.Marshal(value)
	return v.IsZero() || err == nil && slices.Contains([]string{"{}", "[]", "null"}, string(text))
}
