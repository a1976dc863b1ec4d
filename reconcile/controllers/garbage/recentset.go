package garbage

import "sync"

// mostRecent is the size of a recentSet. The dependents of one owner are judged one after the
// other, so the API is asked once about an owner of thousands.
const mostRecent = 1024

// recentSet is a set of the latest keys. It is for facts that never become false, because a UID is
// never used again. The zero set is empty.
type recentSet[K comparable] struct {
	mu    sync.Mutex
	known map[K]struct{} // guarded by mu, as is the rest
	order []K
	// oldest is the position in order to use next once it is full.
	oldest int
}

func (r *recentSet[K]) has(key K) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.known[key]
	return ok
}

// add adds key and reports whether it was new.
func (r *recentSet[K]) add(key K) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.known[key]; ok {
		return false
	}
	if r.known == nil {
		r.known = make(map[K]struct{})
	}
	r.known[key] = struct{}{}
	if len(r.order) < mostRecent {
		r.order = append(r.order, key)
		return true
	}
	delete(r.known, r.order[r.oldest])
	r.order[r.oldest] = key
	r.oldest = (r.oldest + 1) % mostRecent
	return true
}
