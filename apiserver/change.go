package apiserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/planekit/planekit/apiserver/internal/documents"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// A Change replaces resources of a server that are not those of its Config.
type Change struct {
	// Serve lists resources to add. Each replaces the one of its group and plural that an earlier
	// Change has added.
	Serve []Resource
	// Remove names resources that an earlier Change has added. Names that are unknown are ignored.
	Remove []schema.GroupResource
}

// Change makes c at once: a request that arrives later is served by the new resources, and one that is
// in progress to its end by those that it has found. Watches of a replaced or removed resource end as
// they do after their time, so that clients watch again. Stored objects are not touched.
//
// Change fails, and changes nothing, if a resource is not valid, belongs to Config, or would be stored
// where another one is. Otherwise it returns a function that waits until no write is in progress that
// has found a replaced or removed resource.
func (s *Server) Change(c Change) (drained func(context.Context) error, err error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	now := s.catalog.Load()
	next := now.clone()
	var gone []*servedKind
	changed := map[schema.GroupVersion]bool{}
	drop := func(gr schema.GroupResource) {
		for _, k := range next.added[gr] {
			gone = append(gone, k)
			changed[k.gvk.GroupVersion()] = true
			delete(next.kinds, k.gvr)
		}
		delete(next.added, gr)
	}
	for _, gr := range c.Remove {
		drop(gr)
	}
	for _, r := range c.Serve {
		gr := schema.GroupResource{Group: r.Group, Resource: r.Plural}
		drop(gr)
		kinds, err := s.addTo(next, gr, r)
		if err != nil {
			return nil, fmt.Errorf("apiserver: resource %s: %w", gr, err)
		}
		for _, k := range kinds {
			changed[k.gvk.GroupVersion()] = true
		}
	}
	if err := next.checkPlaces(); err != nil {
		return nil, fmt.Errorf("apiserver: %w", err)
	}
	next.sortVersions()
	next.regroup(now)
	next.documents = now.documents.Next(next, func(gv schema.GroupVersion) bool { return changed[gv] })
	s.catalog.Store(next)
	for _, k := range gone {
		k.life.remove()
	}
	return func(ctx context.Context) error { return waitDrained(ctx, gone) }, nil
}

func waitDrained(ctx context.Context, kinds []*servedKind) error {
	for _, k := range kinds {
		select {
		case <-k.life.drained:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// addTo adds r to t, which no request has found yet.
func (s *Server) addTo(t *catalog, gr schema.GroupResource, r Resource) ([]*servedKind, error) {
	if k := t.storedKind(gr.Group, gr.Resource); k != nil {
		return nil, errors.New("it is one of Config")
	}
	if r.Answer != nil || r.Allocation != nil {
		return nil, errors.New("it has Answer or Allocation")
	}
	versions, err := r.expand()
	if err != nil {
		return nil, err
	}
	var kinds []*servedKind
	for _, one := range versions {
		k, err := newKind(one, &s.config, s.codec)
		if err == nil {
			err = k.addCache(s.feed)
		}
		if err != nil {
			return nil, fmt.Errorf("version %s: %w", one.Version, err)
		}
		k.life = newLifetime(k.cache.Close)
		t.kinds[k.gvr] = k
		kinds = append(kinds, k)
	}
	t.added[gr] = kinds
	t.trackAdded(kinds, t.owners)
	if len(kinds) > 1 {
		relate(kinds)
	}
	return kinds, nil
}

// clone returns a copy to be changed. Its groups are still those of t.
func (t *catalog) clone() *catalog {
	out := *t
	out.kinds, out.added = maps.Clone(t.kinds), maps.Clone(t.added)
	if out.added == nil {
		out.added = map[schema.GroupResource][]*servedKind{}
	}
	return &out
}

// regroup finds the groups of t, a changed copy of before: first those of Config, in order, and then the
// others by name. Within a group, the versions of Config come first.
func (t *catalog) regroup(before *catalog) {
	t.groups = nil
	for _, g := range before.groups {
		for _, v := range g.Versions {
			if t.fixed[schema.GroupVersion{Group: g.Name, Version: v}] {
				t.addGroup(g.Name, v)
			}
		}
	}
	more := map[schema.GroupVersion]bool{}
	for _, kinds := range t.added {
		for _, k := range kinds {
			more[k.gvk.GroupVersion()] = true
		}
	}
	for _, gv := range slices.SortedFunc(maps.Keys(more), func(a, b schema.GroupVersion) int {
		if a.Group != b.Group {
			return strings.Compare(a.Group, b.Group)
		}
		return -version.CompareKubeAwareVersionStrings(a.Version, b.Version)
	}) {
		t.addGroup(gv.Group, gv.Version)
	}
}

var _ documents.Catalog = (*catalog)(nil)
