package ownership

import "k8s.io/apimachinery/pkg/runtime"

// UpdateAside is Update by apimachinery alone.
func (t *Tracker) UpdateAside(live, obj runtime.Object, manager string) error {
	_, err := t.fields.Update(live, obj, manager)
	return err
}

// Detours is how many updates apimachinery had to make.
func (t *Tracker) Detours() int64 { return t.detours.Load() }
