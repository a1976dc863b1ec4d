package eventratelimit

import (
	"container/list"
	"time"
)

// bucket is how much of its limit somebody has left, as of some time.
type bucket struct {
	id   id
	left float64
	at   time.Time
}

// take takes one from the bucket of k, if it holds one.
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

// recent holds so many buckets: those that were asked for last.
type recent struct {
	size  int
	order *list.List // of *bucket, the last asked for in front
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

// add adds a bucket that is not there yet.
func (r *recent) add(b *bucket) {
	if r.order.Len() >= r.size {
		oldest := r.order.Back()
		delete(r.byID, oldest.Value.(*bucket).id)
		r.order.Remove(oldest)
	}
	r.byID[b.id] = r.order.PushFront(b)
}
