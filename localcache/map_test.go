package localcache_test

import (
	"context"
	"testing"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/localcache/localcachetest"
)

func TestMap(t *testing.T) {
	localcachetest.Run(t, func(*testing.T) localcachetest.Harness {
		m := localcache.NewUnsynced(func(o *localcachetest.Object) string { return o.Key })
		return localcachetest.Harness{
			Cache:   m,
			ByGroup: localcache.Scan(m, func(o *localcachetest.Object) []string { return []string{o.Group, o.Group} }),
			Sync:    m.Sync, Put: m.Put, Delete: m.Delete,
			Replace: func(objects ...*localcachetest.Object) { m.Replace(objects...) },
		}
	})
}

func TestMapRevision(t *testing.T) {
	m := localcache.NewMapFunc(func(s *string) string { return *s })
	one := "one"
	if r := m.Put(&one); r != "1" || m.Revision() != "1" {
		t.Errorf("revision %s, then %s, want 1", r, m.Revision())
	}
	if r := m.Delete("absent"); r != "1" {
		t.Errorf("revision %s after nothing was deleted, want 1", r)
	}
	if r := m.Replace(&one); r != "1" {
		t.Errorf("revision %s after the same list, want 1", r)
	}
	if err := m.WaitFor(context.Background(), "x1"); err == nil || err.Error() != `localcache: revision "x1" is not one of a Map` {
		t.Errorf("WaitFor x1: %v", err)
	}
}

func TestKey(t *testing.T) {
	for _, c := range [][3]string{{"", "n", "n"}, {"s", "n", "s/n"}} {
		if got := localcache.Key(c[0], c[1]); got != c[2] {
			t.Errorf("the key of %q, %q is %q, want %q", c[0], c[1], got, c[2])
		}
	}
}
