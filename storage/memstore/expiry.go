package memstore

import (
	"container/heap"
	"time"

	"github.com/planekit/planekit/storage"
)

// A mortal is a record with a time to live, as it was last written.
type mortal struct {
	key      storage.Key
	revision storage.Revision
	until    time.Time
}

// mortals is a heap; the first to expire is at the top.
type mortals []mortal

func (m mortals) Len() int           { return len(m) }
func (m mortals) Less(i, j int) bool { return m[i].until.Before(m[j].until) }
func (m mortals) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }
func (m *mortals) Push(x any)        { *m = append(*m, x.(mortal)) }

func (m *mortals) Pop() any {
	last := len(*m) - 1
	x := (*m)[last]
	(*m)[last] = mortal{} // releases the key
	*m = (*m)[:last]
	return x
}

// expire schedules the deletion of r after ttl. mu is held.
func (s *Store) expire(r storage.Record, ttl time.Duration) {
	until := time.Now().Add(ttl)
	heap.Push(&s.mortal, mortal{key: r.Key, revision: r.Revision, until: until})
	switch {
	case s.alarm == nil:
		s.alarm = time.AfterFunc(ttl, s.reap)
	case s.mortal[0].until.Equal(until):
		s.alarm.Reset(ttl)
	}
}

// reap deletes the expired records.
func (s *Store) reap() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for len(s.mortal) > 0 {
		first := s.mortal[0]
		if left := first.until.Sub(now); left > 0 {
			s.alarm.Reset(left)
			return
		}
		heap.Pop(&s.mortal)
		current, found := s.find(first.key)
		if found && current.Revision == first.revision {
			s.apply(storage.Change{Op: storage.Delete, Key: first.key}, nil, current)
		}
	}
}
