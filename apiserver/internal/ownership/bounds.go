package ownership

import (
	"context"
	"errors"
	"reflect"

	"github.com/planekit/planekit/internal/jsonscan"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
)

// Bounds of managedFields that a client sends. A set of fields takes some thirty times the
// memory of its text, and is nested as the object is. Entries are compared with each other.
const (
	maxEntries     = 1000
	maxFieldsBytes = 256 << 10
	maxFieldsDepth = 100
	// shortFields is the length below which a set of fields cannot be nested too deeply.
	shortFields = 1 << 10
)

// bound gives obj the managedFields of live if its own exceed the bounds, as kube-apiserver does
// with those that cannot be decoded. The managedFields of live are not bounded: this package has
// written them.
func (t *Tracker) bound(live, obj runtime.Object) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return
	}
	was, err := meta.Accessor(live)
	if err != nil {
		return
	}
	entries, before := m.GetManagedFields(), was.GetManagedFields()
	if t.config.Subresource == "" && !bounded(entries, before) {
		m.SetManagedFields(before)
	}
}

// Check returns an error if entries, which admission has made of before, cannot be decoded or exceed
// the bounds.
func Check(entries, before []metav1.ManagedFieldsEntry) error {
	if reflect.DeepEqual(entries, before) {
		return nil
	}
	if !bounded(entries, before) {
		return errors.New("there are too many entries, or they are too large")
	}
	return managedfields.ValidateManagedFields(entries)
}

func bounded(entries, before []metav1.ManagedFieldsEntry) bool {
	if len(entries) > maxEntries && len(entries) > len(before) {
		return false
	}
	room := maxFieldsBytes
	for i := range entries {
		f := entries[i].FieldsV1
		if f == nil {
			continue
		}
		raw := f.GetRawBytes()
		if len(raw) <= shortFields || hasFields(before, f) {
			room -= min(len(raw), shortFields)
			continue
		}
		if room -= len(raw); room < 0 || jsonscan.Check(context.Background(), raw, maxFieldsDepth) != nil {
			return false
		}
	}
	return room >= 0
}

// hasFields reports whether an entry has the same text.
func hasFields(entries []metav1.ManagedFieldsEntry, f *metav1.FieldsV1) bool {
	for i := range entries {
		if have := entries[i].FieldsV1; have == f || have != nil && have.GetRawString() == f.GetRawString() {
			return true
		}
	}
	return false
}
