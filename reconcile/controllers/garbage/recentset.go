package garbage

import "sync"

// mostRecent bounds what a recentSet remembers: an owner of thousands that is
// gone is asked for once, since they are judged one after the other.
const mostRecent = 1024

// recentSet is a set that forgets the oldest, for what stays true once it is:
// a UID is never given again. The zero set is empty.
type recentSet[K comparable] struct {
	mu    sync.Mutex
	known map[K]struct{} // guarded by mu, as is the rest
	order []K
	// oldest is the place in order that is used next once it is full.
	oldest int
}

func (r *recentSet[K]) has(key K) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.known[key]
	return ok
}

// add reports whether key was not in the set.
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
