package tokencache

import (
	"time"

	"github.com/planekit/planekit/authn/internal/keyed"
)

// table holds answers until they expire.
type table map[keyed.Digest]entry

type entry struct {
	answer
	until time.Time
}

func (t table) get(key keyed.Digest, now time.Time) (answer, bool) {
	e, ok := t[key]
	return e.answer, ok && now.Before(e.until)
}

// put adds an answer for ttl, and evicts another if the table is full.
func (t table) put(key keyed.Digest, a answer, now time.Time, ttl time.Duration, limit int) {
	if _, replaced := t[key]; !replaced && len(t) >= limit {
		t.evict(now)
	}
	t[key] = entry{a, now.Add(ttl)}
}

// evict removes an expired answer if it finds one quickly, and otherwise any answer.
func (t table) evict(now time.Time) {
	const looks = 16
	n := 0
	for key, e := range t {
		if n++; n == looks || n == len(t) || !now.Before(e.until) {
			delete(t, key)
			return
		}
	}
}
