package eventratelimit

import (
	"container/list"
	"time"
)

// bucket is how much of its limit a key has left, as of some time.
type bucket struct {
	key  key
	left float64
	at   time.Time
}

// take takes one from the bucket of k, if it holds one.
func (l *limit) take(k key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, burst := time.Now(), float64(l.config.Burst)
	b := l.buckets.get(k)
	if b == nil {
		b = &bucket{key: k, left: burst}
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
	byKey map[key]*list.Element
}

func newRecent(size int) *recent {
	return &recent{size: size, order: list.New(), byKey: make(map[key]*list.Element)}
}

func (r *recent) get(k key) *bucket {
	e, ok := r.byKey[k]
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
		delete(r.byKey, oldest.Value.(*bucket).key)
		r.order.Remove(oldest)
	}
	r.byKey[b.key] = r.order.PushFront(b)
}
