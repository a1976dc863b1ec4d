package controllers

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// mostRecentUIDs bounds what is remembered of owners known to be gone, so that
// an owner of thousands is asked for once; they are judged one after the other.
const mostRecentUIDs = 1024

// recentUIDs is a set that forgets the oldest. A UID is never given again, so
// what is in it stays true. The zero set is empty.
type recentUIDs struct {
	mu    sync.Mutex
	known map[types.UID]struct{} // guarded by mu, as is the rest
	order []types.UID
	// oldest is the place in order that is used next once it is full.
	oldest int
}

func (r *recentUIDs) has(uid types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.known[uid]
	return ok
}

func (r *recentUIDs) add(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.known[uid]; ok {
		return
	}
	if r.known == nil {
		r.known = make(map[types.UID]struct{})
	}
	r.known[uid] = struct{}{}
	if len(r.order) < mostRecentUIDs {
		r.order = append(r.order, uid)
		return
	}
	delete(r.known, r.order[r.oldest])
	r.order[r.oldest] = uid
	r.oldest = (r.oldest + 1) % mostRecentUIDs
}
