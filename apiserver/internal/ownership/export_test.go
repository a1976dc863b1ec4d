package ownership

import (
	"k8s.io/apimachinery/pkg/runtime"
)

// UpdateAside is Update by apimachinery alone.
func (t *Tracker) UpdateAside(live, obj runtime.Object, manager string) error {
	_, err := t.fields.Update(live, obj, manager)
	return err
}

// Detours counts the updates that apimachinery had to make.
func (t *Tracker) Detours() int64 { return t.detours.Load() }

// Foreign names the fields of metadata that are left to structured-merge-diff.
func (t *Tracker) Foreign() (names []string) {
	for _, f := range t.plan.fields {
		if f.name != "metadata" {
			continue
		}
		for _, inner := range f.fields {
			if inner.how == foreign && !inner.never {
				names = append(names, inner.name)
			}
		}
	}
	return names
}
