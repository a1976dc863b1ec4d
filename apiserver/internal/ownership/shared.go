package ownership

import (
	"slices"
	"sync"
	"time"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Shared lets objects whose managedFields say the same share their text: those of
// all pods of one template do. It remembers a bounded number of texts, the most
// recent. The zero value is ready to use, by many at a time.
type Shared struct{ texts recent[*metav1.FieldsV1] }

// maxShared bounds the bytes of text that a Shared remembers in each of two
// generations.
const maxShared = 2 << 20

// Share replaces the texts in the managedFields of obj, which must still be the
// caller's alone, by equal shared ones. Afterwards the managedFields must not be
// changed in place, but replaced.
func (s *Shared) Share(obj metav1.Object) {
	// A copy, for an object whose owners have not changed may have the list of the
	// object that it replaces.
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

// of returns the one FieldsV1 of raw.
func (s *Shared) of(raw []byte) *metav1.FieldsV1 {
	if f, ok := s.texts.get(raw, maxShared); ok {
		return f
	}
	return s.texts.put(string(raw), metav1.NewFieldsV1(string(raw)), 2*len(raw), maxShared)
}

// recent is a table of two generations: when the younger has its fill, the older
// is forgotten, but for what has been asked for since it was the younger.
type recent[V any] struct {
	mu         sync.RWMutex
	young, old map[string]kept[V]
	cost       int // of young
	// aging says that age will be called.
	aging bool
}

// maxAge bounds the time for which a generation is the younger one, so that unused
// texts do not stay for ever.
const maxAge = 5 * time.Minute

type kept[V any] struct {
	value V
	cost  int
}

// get returns what is remembered under key. limit is that of put.
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

// put remembers v, unless another was faster, and returns what is remembered. A
// generation costs at most limit, or is of one.
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

// ageLater has age called when it is time. mu is held.
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
