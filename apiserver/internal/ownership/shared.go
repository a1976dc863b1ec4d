package ownership

import (
	"slices"
	"sync"
	"time"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Shared deduplicates the texts of managedFields: all pods of one template have the same. It
// remembers a bounded number of recent texts. The zero value is ready to use. It is safe for
// concurrent use.
type Shared struct{ texts recent[*metav1.FieldsV1] }

// maxShared bounds the texts that a Shared remembers, in bytes and in each of two generations.
const maxShared = 2 << 20

// Share replaces the texts in the managedFields of obj, which no one else may use yet, by equal
// shared ones. Afterwards the managedFields must be replaced rather than changed in place.
func (s *Shared) Share(obj metav1.Object) {
	// Copy the list: an object whose owners have not changed may share it with the object that it
	// replaces.
	entries := slices.Clone(obj.GetManagedFields())
	if len(entries) == 0 {
		return
	}
	for i := range entries {
		e := &entries[i]
		if e.FieldsV1 != nil {
			e.FieldsV1 = s.of(e.FieldsV1.GetRawBytes())
		}
		e.Manager, e.APIVersion = unique.Make(e.Manager).Value(), unique.Make(e.APIVersion).Value()
		e.Operation, e.FieldsType = unique.Make(e.Operation).Value(), unique.Make(e.FieldsType).Value()
	}
	obj.SetManagedFields(entries)
}

// of returns the shared FieldsV1 for raw.
func (s *Shared) of(raw []byte) *metav1.FieldsV1 {
	if f, ok := s.texts.get(raw, maxShared); ok {
		return f
	}
	return s.texts.put(string(raw), metav1.NewFieldsV1(string(raw)), 2*len(raw), maxShared)
}

// recent is a table of two generations. When the younger one is full, the older one is dropped,
// except for what was used since.
type recent[V any] struct {
	mu         sync.RWMutex
	young, old map[string]kept[V]
	cost       int // of young
	// aging is set while a call of age is pending.
	aging bool
}

// maxAge limits the time for which a generation is the younger one, so that unused texts do not
// stay forever.
const maxAge = 5 * time.Minute

type kept[V any] struct {
	value V
	cost  int
}

// get returns the value for key. limit is that of put.
func (r *recent[V]) get(key []byte, limit int) (V, bool) {
	r.mu.RLock()
	k, ok := r.young[string(key)]
	if ok {
		r.mu.RUnlock()
		return k.value, true
	}
	k, ok = r.old[string(key)]
	r.mu.RUnlock()
	if ok {
		r.put(string(key), k.value, k.cost, limit)
	}
	return k.value, ok
}

// put stores v, unless there is a value already, and returns the stored value. A generation has at
// most limit bytes, or one value.
func (r *recent[V]) put(key string, v V, cost, limit int) V {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k, ok := r.young[key]; ok {
		return k.value
	}
	if k, ok := r.old[key]; ok {
		v = k.value
	}
	if r.young == nil || r.cost+cost > limit {
		r.old, r.young, r.cost = r.young, map[string]kept[V]{}, 0
	}
	r.young[key] = kept[V]{v, cost}
	r.cost += cost
	r.ageLater()
	return v
}

// ageLater schedules a call of age. mu is held.
func (r *recent[V]) ageLater() {
	if !r.aging && len(r.young)+len(r.old) > 0 {
		r.aging = true
		time.AfterFunc(maxAge, r.age)
	}
}

// age begins a new generation.
func (r *recent[V]) age() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.old, r.young, r.cost = r.young, nil, 0
	r.aging = false
	r.ageLater()
}
