package eventratelimit

import (
	"container/list"
	"time"
)

// bucket is a token bucket of a limit.
type bucket struct {
	id   id
	left float64
	at   time.Time
}

// take takes a token from the bucket of k, if there is one.
func (l *limit) take(k id) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, burst := time.Now(), float64(l.config.Burst)
	b := l.buckets.get(k)
	if b == nil {
		b = &bucket{id: k, left: burst}
		l.buckets.add(b)
	} else {
		b.left = min(burst, b.left+now.Sub(b.at).Seconds()*float64(l.config.QPS))
	}
	b.at = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

// recent holds a bounded number of buckets, the most recently used ones.
type recent struct {
	size  int
	order *list.List // of *bucket, most recently used first
	byID  map[id]*list.Element
}

func newRecent(size int) *recent {
	return &recent{size: size, order: list.New(), byID: make(map[id]*list.Element)}
}

func (r *recent) get(k id) *bucket {
	e, ok := r.byID[k]
	if !ok {
		return nil
	}
	r.order.MoveToFront(e)
	return e.Value.(*bucket)
}

// add adds a new bucket.
func (r *recent) add(b *bucket) {
	if r.order.Len() >= r.size {
		oldest := r.order.Back()
		delete(r.byID, oldest.Value.(*bucket).id)
		r.order.Remove(oldest)
	}
	r.byID[b.id] = r.order.PushFront(b)
}
